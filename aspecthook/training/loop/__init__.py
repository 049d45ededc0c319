"""The training loop: the runner, its stages and its state.

`_runner` is on top: the methods of `Runner` are the stages, and the rules of the loop. `_state` has what a checkpoint
keeps and how it is restored, `_dialect` adds the hooks of all systems to the stages. At the bottom are `_reading`, how
far the data are read, `_writes`, what a thread writes, `_interrupts`, what Ctrl-C does, `_logs`, the numbers that are
logged, and `_checks`.
"""
