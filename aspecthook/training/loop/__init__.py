"""The training loop: the runner, its stages and its state.

`_runner` is on top: the methods of `Runner` are the stages. `_state` is what a checkpoint keeps, and restores it,
`_model` what a model computes for a batch and the numbers that are logged, and `_dialect` adds the hooks of all systems
to the stages. They stand on `_run`: what a run is made of, and the rules of what it does next. At the bottom are
`_reading`, how far the data are read, and `_interrupts`, what Ctrl-C does.
"""
