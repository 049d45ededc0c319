"""Plugins: objects whose marked methods are hooks on a host's events; and registries, which build from configs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aspecthook._lazy import load_lazily

if TYPE_CHECKING:
    from ._config import load_toml
    from ._plugins import Plugin, Plugins
    from ._registry import Registry

__all__ = ["Plugin", "Plugins", "Registry", "load_toml"]

load_lazily(__name__, {"_plugins": "Plugin Plugins", "_registry": "Registry", "_config": "load_toml"})
