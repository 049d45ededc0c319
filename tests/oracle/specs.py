"""Hooks and their order as data: what the strategies draw, and what is added to mount points."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast, final

from aspecthook._core.law.answers import Args
from aspecthook._core.law.call import Call
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.kinds import Kind
from aspecthook._core.law.options import Options
from aspecthook._core.law.signature import Style
from aspecthook._core.mount.hookable import hooks
from aspecthook._core.mount.point import MountPoint
from tests.oracle.signatures import BODIES, Pasted, define, signature
from tests.oracle.targets import paused, planned


@final
@dataclass(frozen=True, repr=False, eq=False)
class OrderSpec(Pasted):
    """The place of one hook in the order, as data: law 2 takes no more into account than this and the order of adding.

    Args:
        name: The name of the hook.
        priority: An int from 0 to 100, or a name.
        before: Names of the hooks that it comes before.
        after: Names of the hooks that it comes after.

    Example:
        >>> OrderSpec("auth", before=("log",)).options
        {'before': ('log',)}
    """

    name: str
    priority: int | str = 50
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def options(self) -> Options:
        """The options to add a hook with, besides its name."""
        found: Options = {}
        if self.priority != 50:
            found["priority"] = self.priority
        if self.before:
            found["before"] = self.before
        if self.after:
            found["after"] = self.after
        return found


_BODIES = {
    **BODIES,
    "async generator": "async def:\n for caught in ACT(GIVEN):\n  try: yield\n  except caught: pass",
}


@final
@dataclass(frozen=True, repr=False, eq=False)
class HookSpec(Pasted):
    """A hook made to order, which notes what it is given. Its `repr` makes an equal one, with nothing noted.

    Args:
        kind: ``"pre"``, ``"around"``, ``"item"``, ``"exception"``, ``"post"`` or ``"always"``.
        name: Its name.
        asks: Its parameters, as one writes them; an around hook that is no generator asks for ``proceed`` too.
        answer: What it answers. An around hook that answers None returns what the last ``proceed()`` returned.
        raises: What it raises instead of answering: a new exception like this one in each run.
        types: What an exception hook takes; `Exception` if none is named.
        style: ``"function"`` or ``"coroutine"``, and for around hooks also ``"generator"`` or ``"async generator"``.
        proceeds: For an around hook, what it calls ``proceed`` with: an `Args` for each time. A generator yields as
            often; one that does not yield just once breaks law 1.
        catches: Whether an around hook catches the `Exception` that comes out of ``proceed()`` (or its yield).
        options: The options it is added with: ``priority``, ``before``, ``times`` and so on.

    Attributes:
        function: The hook function.
        seen: What it has been given, run by run and by name, without ``proceed``; ``call`` as a dict of the
            ``arguments``, ``result`` and ``exc`` that it had.

    Example:
        >>> from aspecthook import hookable
        >>> @hookable
        ... def price(item, qty=1):
        ...     return 2 * qty
        >>> spec = HookSpec("pre", "at_least_one", "item, qty", answer=Args(qty=3))
        >>> hook = spec.add_to(price)
        >>> price("tea", 0), spec.seen
        (6, [{'item': 'tea', 'qty': 0}])
    """

    kind: Kind
    name: str
    asks: str = ""
    answer: object = None
    raises: BaseException | None = None
    types: tuple[type[BaseException], ...] = ()
    style: Style = "function"
    proceeds: tuple[Args, ...] = (Args(),)
    catches: bool = False
    options: Options = field(default_factory=Options)
    function: Callable[..., object] = field(init=False)
    seen: list[dict[str, object]] = field(init=False, default_factory=list[dict[str, object]])

    def __post_init__(self) -> None:
        body = _BODIES[self.style]
        made = define(self.name, signature(f"({self.asks})"), body, self._act_of_style())
        object.__setattr__(self, "function", made)

    def fresh(self) -> HookSpec:
        """Return an equal one with a function of its own and nothing recorded."""
        return replace(self)

    # Any: whatever `hooks` takes; a mount point too.
    def add_to(self, target: Any) -> Hook:
        """Add the hook to a mount point, or to what has one, and return its handle."""
        mount: MountPoint = hooks(target)
        options = cast("Options", {"name": self.name, **self.options})
        return mount.add(self.kind, self.function, *self.types, **options)

    # What the function does

    def _act_of_style(self) -> Callable[..., object]:
        if "generator" in self.style:
            return self._yield if self.style == "generator" else self._turns
        if self.kind == "around":
            return self._aproceed if self.style == "coroutine" else self._proceed
        return self._paused if self.style == "coroutine" else self._act

    def _note(self, given: dict[str, object]) -> None:
        self.seen.append({name: _now(value) for name, value in given.items() if name != "proceed"})

    def _end(self, inner: object = None) -> object:
        if self.raises is not None:
            raise planned(self.raises)
        return inner if self.answer is None else self.answer

    def _act(self, given: dict[str, object]) -> object:
        self._note(given)
        return self._end()

    def _paused(self, given: dict[str, object]) -> Awaitable[object]:
        return paused(partial(self._act, given))

    @property
    def _caught(self) -> tuple[type[Exception], ...]:
        return (Exception,) if self.catches else ()

    def _proceed(self, given: dict[str, Any]) -> object:
        self._note(given)
        inner: Any = None
        kept = False
        try:
            for changes in self.proceeds:
                _drop(inner)
                try:
                    inner = given["proceed"](**changes.changes)
                except self._caught:
                    inner = None
            answer = self._end(inner)
            kept = answer is inner
            return answer
        finally:
            if not kept:
                _drop(inner)

    async def _aproceed(self, given: dict[str, Any]) -> object:
        self._note(given)
        inner: object = None
        for changes in self.proceeds:
            try:
                inner = await given["proceed"](**changes.changes)
            except self._caught:
                inner = None
        return self._end(inner)

    def _yield(self, given: dict[str, object]) -> Generator[None, object, object]:
        self._note(given)
        for _ in self.proceeds:
            try:
                yield
            except self._caught:
                pass
        return self._end()

    def _turns(self, given: dict[str, object]) -> Generator[tuple[type[Exception], ...], None, None]:
        """Yield for each turn of an async generator what it catches there."""
        self._note(given)
        for _ in self.proceeds:
            yield self._caught
        self._end()


def _now(value: object) -> object:
    """Return a snapshot of a `Call`, which changes until the call has ended; anything else as it is."""
    if not isinstance(value, Call):
        return value
    return {"arguments": dict(value.arguments), "result": value.result, "exc": value.exc}


def _drop(inner: Any) -> None:
    """Close a coroutine or a generator that nobody will run; Python warns of a coroutine that was never awaited."""
    if hasattr(inner, "cr_code") or hasattr(inner, "gi_code"):
        inner.close()
