"""What a runner needs of a numerical library, PyTorch or NumPy.

`_base` has the class `Backend`; `_numpy` and `_torch` complete it, and `_choose` chooses between them. `_state` checks
arrays that are loaded into models, and `_random` has the generators. `net` is the library behind
`aspecthook.training.numpy`.
"""
