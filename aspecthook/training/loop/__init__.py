"""The training loop: the runner, its stages and its state.

`_runner` is on top: the methods of `Runner` are the stages. `_progress` is how far a run has come and what its workflow
does next, `_state` restores a checkpoint, `_model` computes for a batch and has the numbers that are logged, and
`_hook_list` has the names and states of hooks. `_reading` is how far the data are read, and `_interrupts` what Ctrl-C
does.
"""
