"""Checkpoints: files that hold the whole state of a run.

`_files` writes files of a run atomically, `_format` has the format of checkpoints, and `_folder` says which of them in
a folder are those of the run that it belongs to.
"""

from __future__ import annotations

from ._folder import load, newest
from ._format import save

__all__ = ["load", "newest", "save"]
