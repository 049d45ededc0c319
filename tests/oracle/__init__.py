"""The oracle: what proves that a mount point keeps its laws, by a model and an interpreter that ask nothing of it."""
