"""What a runner needs of a numerical library: PyTorch, or NumPy."""
