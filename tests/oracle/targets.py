"""Targets: hookable functions of any signature and style, that note what they were called with."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from types import MethodType, coroutine
from typing import Any, Literal, TypeAlias, final

from hypothesis import strategies as st
from hypothesis.errors import HypothesisException

from aspecthook._core.mount.hookable import hookable, hooks
from aspecthook._core.mount.point import MountPoint
from aspecthook.testing._streams import finish
from tests.oracle.signatures import BODIES, Pasted, arguments, define, signature, signatures

Style: TypeAlias = Literal["function", "method", "coroutine", "generator", "async generator"]
STYLES: tuple[Style, ...] = ("function", "method", "coroutine", "generator", "async generator")
Runner: TypeAlias = Callable[[Coroutine[object, object, object]], object]

# Failures


_FAILURES: tuple[tuple[type[BaseException], tuple[object, ...]], ...] = (
    (ValueError, ()),
    (KeyError, ("key",)),
    (IndexError, ()),
    (TypeError, ()),
    (FileNotFoundError, (2, "gone")),
    (TimeoutError, ()),
    (RuntimeError, ("failed",)),
)
_EXITS: tuple[tuple[type[BaseException], tuple[object, ...]], ...] = ((KeyboardInterrupt, ()), (SystemExit, (1,)))


def failures(*, exits: bool = False) -> st.SearchStrategy[BaseException]:
    """Draw an exception of a builtin type, a new object each time; it shrinks to ``ValueError()``.

    With `exits`, `KeyboardInterrupt` and `SystemExit` are among them, which exception hooks take only by name.

    Example:
        >>> from hypothesis import find
        >>> find(failures(), lambda drawn: isinstance(drawn, LookupError))
        KeyError('key')
    """
    return st.sampled_from(_FAILURES + (_EXITS if exits else ())).map(lambda row: row[0](*row[1]))


def planned(failure: BaseException) -> BaseException:
    """Return a new exception like this one, marked as planned for `Target.drive`."""
    made = copy.copy(failure)
    setattr(made, "__aspecthook_planned__", True)
    return made


def _is_outcome(error: BaseException) -> bool:
    """Whether an exception is the outcome of a call, and neither Hypothesis's own nor Ctrl-C."""
    if isinstance(error, Exception):
        return not isinstance(error, HypothesisException)
    return hasattr(error, "__aspecthook_planned__")


# Awaiting by hand


@coroutine
def _pause() -> Generator[None, None, None]:
    """Suspend once, as ``asyncio.sleep(0)`` does."""
    yield


async def paused(act: Callable[[], object]) -> object:
    """Suspend, then act."""
    await _pause()
    return act()


# Targets


@final
@dataclass(frozen=True, repr=False, eq=False)
class Outcome(Pasted):
    """How a call ended: its result or the exception it raised, and the items that it yielded before.

    Two are equal if their exceptions are of one type and have equal ``args``, and all else is equal.

    Example:
        >>> Outcome(3) == Outcome(result=3, items=())
        True
    """

    result: object = None
    exc: BaseException | None = None
    items: tuple[object, ...] = ()


class Owner:
    """What the methods of targets belong to; all are alike."""

    f: Callable[..., object]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Owner)

    def __hash__(self) -> int:
        return hash(Owner)

    def __repr__(self) -> str:
        return "Owner()"


_BODIES = {**BODIES, "async generator": "async def:\n for item in ACT(GIVEN): yield await item"}


@final
@dataclass(frozen=True, repr=False, eq=False)
class Target(Pasted):
    """A hookable function made to order, which notes what it is called with.

    It answers its arguments, as a dict by name. A generator yields ``(0, arguments)``, ``(1, arguments)`` and so on
    before. Its `repr` makes an equal one, with no hooks and nothing noted.

    Args:
        text: Its signature.
        style: ``"function"``, ``"method"``, ``"coroutine"``, ``"generator"`` or ``"async generator"``.
        items: How many items a generator yields.
        raises: What it raises in the end, instead of answering: a new exception like this one in each call.

    Attributes:
        function: The function. (Of a method too: the one that its class has.)
        bound: What is called: for a method, that of an instance; else the function.
        calls: What it has been called with: the arguments by name, defaults filled in, without ``self``.

    Example:
        >>> target = Target("(a, /, b=1)")
        >>> target.drive((5,), {})
        Outcome(result={'a': 5, 'b': 1})
        >>> target.calls
        [{'a': 5, 'b': 1}]
        >>> Target("(n)", style="generator", items=2, raises=KeyError("key")).drive((7,))
        Outcome(exc=KeyError('key'), items=((0, {'n': 7}), (1, {'n': 7})))
    """

    text: str
    style: Style = "function"
    items: int = 1
    raises: BaseException | None = None
    function: Callable[..., object] = field(init=False)
    bound: Callable[..., object] = field(init=False)
    calls: list[dict[str, object]] = field(init=False, default_factory=list[dict[str, object]])

    def __post_init__(self) -> None:
        acts = {"coroutine": self._paused, "generator": self._stream, "async generator": self._steps}
        is_method = self.style == "method"
        act = acts.get(self.style, self._act)
        function = hookable(define("f", self.signature, _BODIES[self.style], act, method=is_method))
        bound: Callable[..., object] = function
        if is_method:
            bound = MethodType(function, type("Owner", (Owner,), {"f": function})())
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "bound", bound)

    @property
    def signature(self) -> inspect.Signature:
        """Its signature, without ``self``."""
        return signature(self.text)

    @property
    def mount(self) -> MountPoint:
        """Its mount point; for a method, that of the class."""
        return hooks(self.function)

    def fresh(self) -> Target:
        """Return an equal target without hooks and recorded calls."""
        return replace(self)

    def arguments(
        self, values: st.SearchStrategy[object] | None = None
    ) -> st.SearchStrategy[tuple[tuple[object, ...], dict[str, object]]]:
        """Draw ``(args, kwargs)`` that fit the signature, of these values; of ints from 0 to 9 unless given.

        Example:
            >>> from hypothesis import find
            >>> find(Target("(a, *, b, c=1)").arguments(), lambda drawn: "b" in drawn[1])
            ((0,), {'b': 0})
        """
        return arguments(self.signature, st.integers(0, 9) if values is None else values)

    def drive(
        self, args: Iterable[object] = (), kwargs: dict[str, object] | None = None, *, run: Runner = finish
    ) -> Outcome:
        """Make one call, run it to its end whatever the style, and return how it ended.

        Coroutines are run without an event loop, or by `run`, such as `asyncio.run`. What Hypothesis itself raises, and
        an interrupt that nobody planned, are raised here too.
        """
        items: list[object] = []
        try:
            result = self._drive(self.bound(*args, **(kwargs or {})), items, run)
        except BaseException as exc:
            if not _is_outcome(exc):
                raise
            return Outcome(exc=exc, items=tuple(items))
        return Outcome(result, items=tuple(items))

    def _drive(self, made: Any, items: list[object], run: Runner) -> object:
        # Any: what a call returns depends on the style.
        if self.style == "coroutine":
            return run(made)
        if self.style == "generator":
            return _exhaust(made, items)
        return run(_aexhaust(made, items)) if self.style == "async generator" else made

    # What the function does

    def _act(self, given: dict[str, object]) -> object:
        self.calls.append(dict(given))
        return self._end(given)

    def _end(self, given: dict[str, object]) -> object:
        if self.raises is not None:
            raise planned(self.raises)
        return given

    def _paused(self, given: dict[str, object]) -> Awaitable[object]:
        return paused(partial(self._act, given))

    def _stream(self, given: dict[str, object]) -> Generator[object, object, object]:
        self.calls.append(dict(given))
        for turn in range(self.items):
            yield turn, given
        return self._end(given)

    def _steps(self, given: dict[str, object]) -> Generator[Awaitable[object]]:
        for item in self._stream(given):
            yield paused(partial(_same, item))


def _same(item: object) -> object:
    return item


def _exhaust(stream: Generator[object, object, object], items: list[object]) -> object:
    try:
        while True:
            items.append(next(stream))
    except StopIteration as stop:
        return stop.value


async def _aexhaust(stream: Any, items: list[object]) -> None:
    async for item in stream:
        items.append(item)  # noqa: PERF401  # `extend` would lose the items before a failure


@st.composite
def targets(
    draw: st.DrawFn,
    *,
    styles: Iterable[Style] = STYLES,
    signature: st.SearchStrategy[inspect.Signature] | None = None,
    raises: st.SearchStrategy[BaseException | None] | None = None,
) -> Target:
    """Draw a `Target`; it shrinks to ``Target('()')``.

    Args:
        draw: Given by Hypothesis.
        styles: Which styles there may be.
        signature: What signatures are drawn from; `signatures` unless given. Their defaults must be literals.
        raises: What it may raise; nothing or one of `failures` unless given.

    Example:
        >>> from hypothesis import find
        >>> find(targets(styles=["coroutine"]), lambda drawn: drawn.raises is not None)
        Target('()', style='coroutine', raises=ValueError())
    """
    style: Style = draw(st.sampled_from([one for one in STYLES if one in set(styles)]))
    text = str(draw(signatures() if signature is None else signature))
    items = draw(st.sampled_from([1, 0, 2, 3])) if "generator" in style else 1
    fails = st.none() | failures() if raises is None else raises
    return Target(text, style, items, draw(fails))
