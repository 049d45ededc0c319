"""Hooks of a training run, as mmcv and mmengine have them, one subject a module.

`_hook` has the base class and the registry. `_monitor` compares scores.
"""
