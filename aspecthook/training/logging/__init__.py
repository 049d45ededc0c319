"""What a run logs: numbers, lines, files, and progress on a terminal."""
