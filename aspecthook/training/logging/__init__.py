"""The log of a run: rows of numbers, and hooks that write, show and draw them.

`_loggers` has the row, and `LoggerHook`, which decides which numbers are in a row and when it is due. Its subclasses do
something with rows: `_files` writes text, JSON lines, CSV and event files for TensorBoard, `_progress` shows the rows
on a terminal, and `_report` draws them.
"""
