"""Hooks of a training run, as mmcv and mmengine have them."""
