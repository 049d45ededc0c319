"""The curves and the report of a run, drawn from the rows of its log, which its checkpoints hold.

`_curves` keeps the rows, draws them with matplotlib, and writes a file now and then. `_page` makes a page of the curves
and of what ran.
"""
