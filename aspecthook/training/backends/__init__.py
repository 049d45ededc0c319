"""What a runner needs of a numerical library, PyTorch or NumPy.

`_backend` has the class `Backend`, which is NumPy's, and `_torch` what PyTorch does otherwise; `_state` chooses one of
them. The other modules are the library behind `aspecthook.training.numpy`.
"""
