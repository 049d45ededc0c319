"""The training loop: the runner, its stages and its state.

`_runner` is on top. `_steps` has the rules of the loop, `_state` what a checkpoint keeps, `_dialect` how hooks of all
systems get onto the stages, which `_stages` names. `_run` is at the bottom: the protocol `Run`, which is all that hooks
and the modules between know of the runner.
"""
