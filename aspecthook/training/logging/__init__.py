"""What a run logs: rows of numbers, and the sinks that take them.

`_loggers` decides what a row is, what a number is, and how it looks; its `LoggerHook` decides which numbers are in a
row and when it is due. Sinks write rows: `_files` has text, JSON lines, CSV and event files for TensorBoard;
`_progress` shows them on a terminal, and `_report` draws them.
"""
