"""Behaviour before, after and around any Python function, at the speed of hand-written code.

A function that can carry hooks is a mount point: `hookable` makes one, ``f.pre``, ``f.post``, ``f.exception``,
``f.around`` and ``f.always`` add hooks to it, `hooks` looks at them, `explain` prints what a call does. Hooks come off
again without trace.
"""

from __future__ import annotations

from ._answers import Args, Return
from ._call import Call, State
from ._errors import (
    AspecthookError,
    HookAnswerError,
    HookLookupError,
    HookOptionError,
    HookOrderError,
    HookSignatureError,
    HookTypeError,
    MountError,
)
from ._hook import Hook, Priority
from ._hookable import explain, hookable, hooks
from ._mount import MountPoint

__version__ = "0.1.0"

__all__ = [
    "Args",
    "AspecthookError",
    "Call",
    "Hook",
    "HookAnswerError",
    "HookLookupError",
    "HookOptionError",
    "HookOrderError",
    "HookSignatureError",
    "HookTypeError",
    "MountError",
    "MountPoint",
    "Priority",
    "Return",
    "State",
    "explain",
    "hookable",
    "hooks",
]
