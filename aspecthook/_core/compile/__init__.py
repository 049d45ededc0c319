"""From a chain to code. Pure, but for the cache of compiled templates and the entries in `linecache`.

To read in this order: `words` (what generated code may name), `text` (a writer of lines), `source` (law 1 as source),
`layers` (around hooks), `subscribers` (the body of an event), `link` (from source to code) and `show` (the source in
tracebacks). `copies` keeps all of this out of copies and pickles of a function.
"""

from __future__ import annotations

from sys import version

# Free-threaded builds of 3.13 make every constant of a code object immortal, hooks among them: there, the objects of a
# chain never become constants. They do the same to the names in a code object, the file name included.
FREE_THREADED = "free-threading" in version
