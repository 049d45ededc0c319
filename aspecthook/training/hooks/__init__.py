"""The hooks of a training run, in the style of mmcv and mmengine; each module has one subject.

`_hook` has the base class and the registry. `_monitor` compares scores.
"""
