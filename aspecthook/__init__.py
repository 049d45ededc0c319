"""Behaviour before, after and around any Python function, at nearly the speed of hand-written code.

A function that can carry hooks is a mount point. `hookable` makes one; ``f.pre``, ``f.post``, ``f.exception``,
``f.around`` and ``f.always`` add hooks to it; `weave` puts them on code that is not yours; `hooks` lists them;
`explain` prints what a call does. Hooks can be removed without a trace.
"""

from __future__ import annotations

from ._core.law.options import Priority
from ._errors import (
    AspecthookError,
    ConfigError,
    HookAnswerError,
    HookLookupError,
    HookOptionError,
    HookOrderError,
    HookSignatureError,
    HookTypeError,
    HookWarning,
    MountError,
    PluginError,
    WeaveError,
    WeaveWarning,
)
from ._hints import TYPE_CHECKING
from ._lazy import load_lazily
from .weave import weave

if TYPE_CHECKING:
    from ._core.law.answers import Args, Return
    from ._core.law.call import Call
    from ._core.law.hook import Hook
    from ._core.mount.hookable import explain, hookable, hooks
    from ._core.mount.point import MountPoint
    from .events._event import event
    from .weave import Weaving, always, around, exception, item, on, post, pre

__version__ = "0.1.0"

__all__ = [
    "Args",
    "AspecthookError",
    "Call",
    "ConfigError",
    "Hook",
    "HookAnswerError",
    "HookLookupError",
    "HookOptionError",
    "HookOrderError",
    "HookSignatureError",
    "HookTypeError",
    "HookWarning",
    "MountError",
    "MountPoint",
    "PluginError",
    "Priority",
    "Return",
    "WeaveError",
    "WeaveWarning",
    "Weaving",
    "always",
    "around",
    "event",
    "exception",
    "explain",
    "hookable",
    "hooks",
    "item",
    "on",
    "post",
    "pre",
    "weave",
]

# What not every program needs is loaded when it is first asked for. `weave` is not among it: the name is that of its
# package too, which the import of any module of it would put in the place of the function.
load_lazily(
    __name__,
    {
        "events._event": "event",
        "_core.law.hook": "Hook",
        "_core.mount.point": "MountPoint",
        "_core.law.answers": "Args Return",
        "_core.law.call": "Call",
        "_core.mount.hookable": "explain hookable hooks",
        "weave": "Weaving always around exception item on post pre",
    },
)
