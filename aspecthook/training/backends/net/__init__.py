"""Small neural networks on NumPy; their gradients are HIPS autograd's."""
