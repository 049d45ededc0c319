"""Plugins: objects whose marked methods are hooks on the events of a host."""

from __future__ import annotations

from ._plugins import Plugin, Plugins

__all__ = ["Plugin", "Plugins"]
