"""The job that `aspecthook train` runs: train a classifier of images, from a config to a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aspecthook._lazy import load_lazily

if TYPE_CHECKING:
    from ._settings import load_settings
    from ._train import Outcome, train

__all__ = ["Outcome", "load_settings", "train"]

# The command is in this folder, and must be loaded to say which libraries are missing.
load_lazily(__name__, {"_settings": "load_settings", "_train": "Outcome train"})
