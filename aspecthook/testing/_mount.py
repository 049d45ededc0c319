"""What the test kit needs of a mount point: all that it imports from the core.

Of a `MountPoint` it reads the names, the members, the chain, the site with its signature, and the function. A call with
another chain, and a hook with another function, are made here; the mount point itself is never changed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, cast

from aspecthook._core.law.answers import Return
from aspecthook._core.law.asks import Asks
from aspecthook._core.law.call import Call
from aspecthook._core.law.callables import HANDS_ON, name_of, type_of
from aspecthook._core.law.guard import guard_for
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.kinds import KINDS, Kind
from aspecthook._core.law.options import Adding, Options
from aspecthook._core.law.order import Chain, graph, ties_broken_by
from aspecthook._core.law.streams import start
from aspecthook._core.mount.hookable import hooks
from aspecthook._core.mount.instance import InstanceMountPoint
from aspecthook._core.mount.lock import under_lock
from aspecthook._core.mount.point import MountPoint

__all__ = [
    "HANDS_ON",
    "KINDS",
    "Adding",
    "Asks",
    "Call",
    "Chain",
    "Hook",
    "Hooks",
    "InstanceMountPoint",
    "Kind",
    "MountPoint",
    "Options",
    "Return",
    "graph",
    "hooks",
    "mapped",
    "members_of",
    "name_of",
    "separate_call",
    "stand_in",
    "start",
    "ties_broken_by",
    "type_of",
    "under_lock",
]

Hooks = tuple[Hook, ...]


def members_of(mount: MountPoint) -> Hooks:
    """Return the hooks that run in one chain, paused ones included: the chain of an instance has those of its class."""
    return mount.parent.members + mount.members if isinstance(mount, InstanceMountPoint) else mount.members


def mapped(chain: Chain, change: Callable[[Hook], Hook]) -> Chain:
    """Return a chain of other hooks, each in the place of its own."""
    return chain.replaced({kind: tuple([change(hook) for hook in getattr(chain, kind)]) for kind in KINDS})


def stand_in(hook: Hook, function: Callable[..., Any], *, counts: bool) -> Hook:
    """Return a hook that runs another function under the same conditions, less `times` and `every` unless `counts`."""
    clone = copy.copy(hook)
    clone.function = function
    if not counts and (hook.conditions.times or hook.conditions.every):
        clone.guard = guard_for(hook.conditions._replace(times=None, every=None), clone)
    clone.reshape()
    return clone


def separate_call(
    mount: MountPoint, chain: Chain, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Callable[..., Any]:
    """Return a function that makes a call with the hooks of a chain, around what `wrap` makes of the target."""
    target, function = wrap(mount.inner()), cast("Any", mount.function)
    call: Any = mount.separate(chain, target)
    if call is not target:
        call.__defaults__, call.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return cast("Callable[..., Any]", call)
