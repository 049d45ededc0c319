"""The training loop: the runner, its stages and its state."""
