"""The curves and the report of a run, drawn from the rows of its log, which its checkpoints hold.

`_curves` keeps the rows and writes a file now and then, `_drawing` draws them with matplotlib, `_facts` collects what
ran, and `_page` makes a page of all of it.
"""
