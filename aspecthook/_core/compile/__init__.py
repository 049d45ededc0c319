"""From a chain to code. Pure, but for the cache of compiled templates and the entries in `linecache`.

To read in this order: `words` (what generated code may name), `text` (a writer of lines), `source` (law 1 as source),
`layers` (around hooks, and the subscribers of an event), `link` (from source to code) and `show` (the source in
tracebacks). `copies` keeps all of this out of copies and pickles of a function.
"""
