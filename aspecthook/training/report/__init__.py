"""The picture and the report of a run, from a record of its numbers that is part of its checkpoints."""
