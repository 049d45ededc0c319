"""Plugins on mount points: who registers what on a host, in which order; and registries that build from configs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aspecthook._lazy import lazy

if TYPE_CHECKING:
    from ._plugins import Plugin, Plugins
    from ._registry import Registry

__all__ = ["Plugin", "Plugins", "Registry"]

__getattr__ = lazy(__name__, {"Plugin": "_plugins", "Plugins": "_plugins", "Registry": "_registry"})
