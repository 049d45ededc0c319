"""From a chain to code. Pure, but for the cache of compiled templates and the entries in `linecache`.

To read in this order: `words` (what generated code may name), `text` (a writer of lines), `source` (law 1 as source),
`layers` (around hooks), `subscribers` (the body of an event), `link` (from source to code) and `show` (the source in
tracebacks). `copies` keeps all of this out of copies and pickles of a function.
"""

from __future__ import annotations

from sys import version, version_info

# Without the GIL the garbage collector looks into code objects, so their constants may lead to anything; but code that
# nobody uses any more lives until the next collection. The names in it, the file name included, are never freed.
FREE_THREADED = "free-threading" in version

# Free-threaded builds of 3.13 make every constant of a code object immortal, hooks among them: there, the objects of a
# chain never become constants.
IMMORTAL_CONSTANTS = FREE_THREADED and version_info < (3, 14)
