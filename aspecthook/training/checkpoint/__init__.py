"""Checkpoints: files that hold the whole state of a run.

`_format` reads and writes them; `_files` writes other files as safely.
"""

from __future__ import annotations

from ._format import is_checkpoint, load, newest, save

__all__ = ["is_checkpoint", "load", "newest", "save"]
