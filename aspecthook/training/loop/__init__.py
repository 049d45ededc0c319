"""The training loop: the runner, its stages and its state.

`_runner` is on top: its methods are the stages. `_steps` has the rules of the loop, `_forward` what a model computes
for a batch, `_logs` the numbers that are logged, `_reading` how far the data are read, `_state` what a checkpoint keeps
and how it is restored, `_writes` what a thread writes, `_interrupts` what Ctrl-C does, `_checks` the checks of
arguments. `_dialect` adds the hooks of all systems to the stages; `_stages` lists the names of their methods, and
`_names` makes those of hooks in checkpoints. `_run` is at the bottom: the class `Run`, which is all that hooks, and the
modules in between, know of the runner.
"""
