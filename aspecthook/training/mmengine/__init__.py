"""Hooks that were written for mmengine, unchanged on our runner.

``runner.register_hook(hook)`` recognizes them by their base class, ``mmengine.hooks.Hook``. Their argument `runner` is
an `MMRunner`, which has the attributes and methods of mmengine's runner that hooks use.
"""

from __future__ import annotations

from aspecthook._lazy import NamesTheExtra

with NamesTheExtra(__name__):
    from ._runner import MMRunner

__all__ = ["MMRunner"]
