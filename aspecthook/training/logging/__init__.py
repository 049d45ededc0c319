"""What a run logs: rows of numbers, written to text, JSON, CSV and event files, and progress on a terminal.

`_numbers` says what a number is and how it looks, `_rows` which numbers make a row and when; the hooks only write rows.
"""
