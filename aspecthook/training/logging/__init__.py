"""What a run logs: rows of numbers, written to text, JSON, CSV and event files, and progress on a terminal.

`_numbers` decides what a number is and how it looks, `_rows` which numbers are in a row, and when one is due. The hooks
only write rows.
"""
