"""The runner, by the name that the modules of hooks have for it."""

from __future__ import annotations

from ._runner import Runner as Run
from ._state import COUNTS, Progress

__all__ = ["COUNTS", "Progress", "Run"]
