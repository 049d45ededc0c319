"""The curves and the report of a run, drawn from the rows of its log, which its checkpoints hold.

`_curves` keeps the rows and writes a file now and then, `_drawing` draws them with matplotlib, and `_page` makes a page
of the curves and of what ran.
"""
