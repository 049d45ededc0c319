"""What a run logs: rows of numbers, and the sinks that take them.

`_numbers` decides what a number is and how it looks, `_row` what a row is. `LoggerHook` in `_loggers` decides which
numbers are in a row and when it is due. Sinks write rows: `_line_files` has text, JSON lines and CSV, `_tensorboard`
event files; `_progress` shows them on a `_screen`.
"""
