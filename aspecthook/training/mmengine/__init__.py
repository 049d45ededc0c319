"""Hooks that were written for mmengine, on our runner as they are.

``runner.register_hook(hook)`` knows them by their base class, ``mmengine.hooks.Hook``. What they call `runner` is a
`MMRunner`, which has what mmengine's has.
"""

from __future__ import annotations

from ._runner import MMRunner

__all__ = ["MMRunner"]
