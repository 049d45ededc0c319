"""Checkpoints: files that hold the whole state of a run.

`_format` has their format; `_files` writes them, and other files of a run, atomically. `_identity` says which run a
folder belongs to, and `_folder` passes it on.
"""

from __future__ import annotations

from ._format import is_checkpoint, load, newest, save

__all__ = ["is_checkpoint", "load", "newest", "save"]
