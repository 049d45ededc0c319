"""Who answers what: one call of an event that notes the name of each subscriber beside its answer.

It runs the compiled chain, as any call does, with a site of its own. Sites may check the answers of subscribers (those
of some events do), and this one notes them.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import FunctionType

from aspecthook._core.law.call import Site
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.signature import Emission, Shown
from aspecthook._core.mount.instance import InstanceMountPoint
from aspecthook._core.mount.lock import under_lock
from aspecthook._core.mount.point import MountPoint
from aspecthook._hints import Any, cast, final

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

# The names of subscribers, each with its answer. Any: subscribers answer what they like.
Answers = list[tuple[str, Any]]


def answers_of(mount: MountPoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Answers | Awaitable[Answers]:
    """Call an event and return who answered what, in the order of the subscribers; of an async event, an awaitable.

    The arguments are those of the function itself, ``self`` first: the hooks of that instance run too.

    Raises:
        Exception: What the event raises.
    """
    answers: Answers = []
    names = mount.site().signature.names
    first = args[0] if args else kwargs.get(names[0]) if names else None
    of_instance = mount.instances.get(id(first))
    call = _noting(of_instance if isinstance(of_instance, InstanceMountPoint) else mount, answers)
    result = call(*args, **kwargs)
    return _awaited(result, answers) if mount.site().signature.style == "coroutine" else answers


async def _awaited(result: Awaitable[object], answers: Answers) -> Answers:
    await result
    return answers


@final
class _Subscriber:
    """A hook with a function object of its own: a site is passed the function alone, which two hooks may share."""

    def __init__(self, hook: Hook) -> None:
        self.hook = hook
        self.function = partial(hook.function)

    # Any: the attributes of a hook.
    def __getattr__(self, name: str) -> Any:
        return getattr(self.hook, name)


@final
class _Noting(Site):
    """The site of such a call, in which each subscriber is found by its own function object."""

    __slots__ = ("_hook_of", "_own")

    def __init__(self, own: Site, hook_of: Mapping[object, Hook], emission: Emission) -> None:
        super().__init__(own.label, own.model, own.function, emission)
        self.provides = own.provides
        self._own = own
        self._hook_of = hook_of

    def who(self, kind: str, function: object) -> str | None:
        return self._hook_of[function].who if kind == "on" else self._own.who(kind, function)

    def shown(self) -> Shown | None:
        return self._own.shown()


@under_lock
def _noting(mount: MountPoint, answers: Answers) -> Callable[..., Any]:
    """Compile the chain as it is now so that its call notes the answers."""
    place = mount.parent.place if isinstance(mount, InstanceMountPoint) else mount.place
    chain, own, function = mount.chain(), mount.site(), cast("FunctionType", mount.function)
    if place is None or not place.opened:
        return function
    assert mount.emission is not None
    subscribers = [_Subscriber(hook) for hook in chain.on]
    hook_of: dict[object, Hook] = {one.function: one.hook for one in subscribers}
    noting = copy.copy(chain)
    noting.on = cast("tuple[Hook, ...]", tuple(subscribers))

    # Any: an answer, and the value that it would replace in a fold.
    def note(_: Site, function: Any, answer: Any, folded: Any) -> Any:
        hook = hook_of[function]
        taken = answer if own.fits is None else own.fits(own, hook.function, answer, folded)
        answers.append((hook.name, taken))
        return taken

    site = _Noting(own, hook_of, mount.emission._replace(checked=True))
    site.fits = note
    call = cast("FunctionType", place.bind(noting, site=site))
    call.__defaults__, call.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return call
