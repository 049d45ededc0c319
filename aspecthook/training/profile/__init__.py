"""The profiler: the time of each stage of a run, and of each hook on it."""
