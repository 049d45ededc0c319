"""What a runner needs of a numerical library, PyTorch or NumPy.

`_protocol` is at the bottom; `_numpy` and `_torch` implement it with what `_state` and `_random` share; `_choose` is on
top. `net` is the library behind `aspecthook.training.numpy`.
"""
