"""The job that `aspecthook train` runs: train a classifier of images, from a config to a report."""

from __future__ import annotations

from ._settings import load_settings
from ._train import Outcome, train

__all__ = ["Outcome", "load_settings", "train"]
