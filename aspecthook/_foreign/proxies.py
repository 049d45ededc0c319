"""The classes of proxies, loaded when the first proxy is made.

They need wrapt, which imports asyncio: a program that weaves only Python functions should not wait for that.
"""

from __future__ import annotations

from aspecthook._hints import Any

# Any: the module `proxy`, which is not imported here. Only what is kept here is used: somebody may drop the module from
# `sys.modules`, as pytest's `pytester` does, and another import would make classes that know no proxy from before.
_loaded: Any = None


def load_proxies() -> Any:
    """Load the classes; without the lock, since an import under it could wait for a thread that waits for the lock."""
    global _loaded  # noqa: PLW0603  # once
    if _loaded is None:
        from . import proxy

        _loaded = proxy
    return _loaded


def is_proxy(value: object) -> bool:
    """Whether a value is one of our proxies in the place of a callable."""
    return _loaded is not None and issubclass(type(value), _loaded.Proxy)
