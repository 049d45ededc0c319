"""What a runner needs of a numerical library, PyTorch or NumPy.

`_backend` has the class `Backend`, which is NumPy's, and `_torch` what PyTorch does otherwise; `_choose` chooses one of
them. `_state` checks arrays that are loaded into models. `net` is the library behind `aspecthook.training.numpy`, and
`_random` has its generator.
"""
