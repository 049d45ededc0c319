"""The curves and the report of a run, drawn from a record of its numbers that its checkpoints hold.

`_record` keeps the numbers. `_chart_layout` decides which share a chart, `_drawing` draws charts with matplotlib, and
`_summary` and `_run_facts` collect the rest. `_plots` and `_page` are the hooks, on the base in `_base`.
"""
