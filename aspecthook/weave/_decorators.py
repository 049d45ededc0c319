"""Any decorator as an around hook: `around.wrap`.

A decorator is applied once for each mount point, when the hook is added. It is given a copy of the target, which runs
what is inside the hook. The invariant: what a decorator keeps (a cache, a count of attempts, a compiled validator)
belongs to one mount point, and goes with the hook.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from operator import is_
from types import FunctionType
from typing import Any, TypeAlias, cast, final

from aspecthook._core.law.callables import a_function, signature_of, style_of
from aspecthook._core.law.hook import EXCEPTION, Hook, Maker
from aspecthook._core.law.order import Chain
from aspecthook._core.mount.original import copy_of
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import HookLookupError, HookTypeError, brief, described, printable, unblamed

from ._members import CACHING

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

_FACTORY = "; if it makes decorators, call it, as in around.wrap(make(...))"

# A call that runs in this context, and the calls around it: which hook it runs, the arguments that the hook was given,
# and its `proceed`. This is how a decorated function finds its call, as its own arguments must be those of the target.
_Running: TypeAlias = "tuple[_Inside, tuple[Any, ...], dict[str, Any], Callable[..., Any], _Running | None]"
_running: ContextVar[_Running | None] = ContextVar("aspecthook_running", default=None)


@final
class Wrap(Maker):
    """The around hook that `around.wrap` makes of a decorator."""

    def __init__(self, decorator: Decorator) -> None:
        given: object = decorator
        if not callable(given):
            raise HookTypeError(
                f"around.wrap({brief(given)}) is given no decorator; give what would stand after the @, such as "
                f"around.wrap(functools.lru_cache(maxsize=100)); a context manager goes around a yield in a hook"
            )
        super().__init__(decorator)
        self.decorator = decorator

    def make(self, mount: MountPoint, who: object) -> Callable[..., Any]:
        """Apply the decorator for one mount point."""
        style = mount.site().signature.style
        if "generator" in style:
            raise HookTypeError(
                f"{who} cannot be applied to {a_function(style)}, whose calls only begin it; write an around hook with "
                f"one yield, or decorate what it calls"
            )
        inside = _Inside(mount)
        try:
            decorated: Any = self.decorator(inside.as_target())
        except Exception as error:
            why = f"the decorator raises {type(error).__name__}: {error}"
            raise HookTypeError(f"{who} cannot be applied to this {style}: {why}{_FACTORY}") from error
        why = _why_unfit(decorated, mount)
        if why:
            raise HookTypeError(f"{who}: the decorator {why}")
        made: FunctionType = _around(style, decorated, inside)
        setattr(made, "decorated", decorated)
        inside.hook = weakref.ref(made)
        return self.dress(made)

    def decorated(self, target: Any) -> Any:  # any mounted callable; what a decorator returns has attributes of its own
        """Return what the decorator has made for a mount point, such as a function with a ``cache_clear``.

        Raises:
            HookLookupError: This is no hook there.
        """
        from aspecthook._core.mount.hookable import hooks

        point = hooks(target)
        for hook in point.around:
            if hook.meant is self:
                return cast("Any", hook.function).decorated
        raise HookLookupError(f"{point.name} has no around hook {self.__name__!r} of this around.wrap(...)")


@final
class _Copy(MountPoint):
    """The mount point of the copy of a target that a decorator is given: its calls run what is inside the hook."""

    is_listed = False

    __slots__ = ("hands_to",)

    def __init__(self, function: FunctionType, name: str, run: Callable[..., Any]) -> None:
        super().__init__(function, name)
        self.hands_to = run
        # Not `add`, as it is no hook of a user.
        self.insert(Hook("pre", _nothing, EXCEPTION, {}, self, None, again=True))


def _nothing() -> None:
    """Do nothing: a mount point without hooks would run the copy itself."""


@final
class _Inside:
    """What a decorated function runs: what is inside the hook, in the call that runs now, or in one of its own."""

    __slots__ = ("__weakref__", "_mount", "hook")

    def __init__(self, mount: MountPoint) -> None:
        # Neither is kept alive from here: both lead to the decorated function, which leads here through a code object,
        # and that the garbage collector does not look into.
        self._mount = weakref.ref(mount)
        self.hook: Callable[[], Any] = lambda: None

    @unblamed
    def as_target(self) -> FunctionType:
        """Return a copy of the target for the decorator: it looks like the target, and runs what is inside the hook."""
        mount = self._found()
        function = cast("FunctionType", mount.function)
        plain, copy = copy_of(function, mount.code()), copy_of(function, mount.code())
        plain.__dict__.update(function.__dict__)
        copy.__dict__.update(function.__dict__)

        @wraps(plain)  # a mounted function shows the parameters of what it runs
        def run(*args: Any, **kwargs: Any) -> Any:
            call = _running.get()
            while call is not None and call[0] is not self:
                call = call[4]
            if call is None:
                return self._run_anew(args, kwargs)
            _, given, named, proceed, _ = call
            if len(args) == len(given) and all(map(is_, args, given)) and _are_same(kwargs, named):
                return proceed()
            return proceed(**self._changes(args, kwargs, given, named))

        _Copy(copy, mount.name, run)
        return copy

    def _changes(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], given: tuple[Any, ...], named: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the arguments that a decorator has replaced, by name."""
        signature = self._found().site().signature
        changes = zip(signature.names, signature.join(args, kwargs), signature.join(given, named), strict=True)
        return {name: value for name, value, was in changes if value is not was}

    @unblamed
    def _run_anew(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run what is inside as a call of its own: the decorator calls in a thread of its own, or later."""
        mount, own = self._found(), self.hook()
        chain = (mount.instances.get(id(args[0]), mount) if args else mount).chain()  # an instance may have hooks too
        places = [place for place, hook in enumerate(chain.around, 1) if hook.function is own]
        inner = chain.around[places[0] :] if places else ()  # a hook that was removed meanwhile has nothing inside
        return mount.separate(Chain(()).replaced({"around": inner, "on": chain.on}))(*args, **kwargs)

    def _found(self) -> MountPoint:
        mount = self._mount()
        if mount is None:
            raise HookLookupError("the function that was decorated by around.wrap(...) is gone; keep it to call it")
        return mount


def _are_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two dicts have the very same values."""
    return one.keys() == other.keys() and all(map(is_, one.values(), map(other.__getitem__, one)))


def _why_unfit(decorated: Any, point: MountPoint) -> str:
    """Return why what a decorator has made could never work in the place of its target; empty if it could."""
    site = point.site()
    is_async = site.signature.style == "coroutine"
    if not callable(decorated):
        return f"returns {described(decorated)}, which cannot be called; give another"
    if isinstance(decorated, CACHING) and is_async:
        return (
            "would keep the coroutine object itself, which can run only once; give a cache that is made for "
            "coroutines, such as async_lru.alru_cache"
        )
    made = style_of(decorated)
    if made not in (site.signature.style, "function"):
        return f"makes {a_function(made)} of a {site.signature.style}; give a decorator that keeps its sort"
    inner = decorated
    while is_async and style_of(inner) == "function":
        inner = getattr(inner, "__wrapped__", None)
        if not callable(inner):
            return (
                "makes a sync function of a coroutine function. Nothing has run yet when that returns; give a "
                "decorator for coroutine functions"
            )
    signature = signature_of(decorated)
    if signature is not None and not hasattr(decorated, "__wrapped__"):
        args, kwargs = site.signature.split(site.signature.placeholders)
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            taken, offers = printable(", ".join(signature.parameters)), ", ".join(site.offers())
            return f"returns what takes {taken or 'nothing'}, and {point.name} takes {offers or 'nothing'}{_FACTORY}"
    return ""


@unblamed
def _around(style: str, decorated: Callable[..., Any], inside: _Inside) -> Any:
    """Return the hook that runs a decorated function."""

    def function(args: tuple[Any, ...], kwargs: dict[str, Any], proceed: Callable[..., Any]) -> Any:
        token = _running.set((inside, args, kwargs, proceed, _running.get()))
        try:
            return decorated(*args, **kwargs)
        finally:
            _running.reset(token)

    async def coroutine(args: tuple[Any, ...], kwargs: dict[str, Any], proceed: Callable[..., Any]) -> Any:
        token = _running.set((inside, args, kwargs, proceed, _running.get()))
        try:
            return await decorated(*args, **kwargs)
        finally:
            try:
                _running.reset(token)
            except ValueError:
                pass  # a coroutine that was dropped is closed in another context, where there is nothing to reset

    return coroutine if style == "coroutine" else function
