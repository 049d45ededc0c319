"""Events: mount points without a body, to which hooks subscribe.

The invariant: an event is the stub function itself, in place, as every mount point. Its subscribers are hooks of the
kind ``on``, which the compiled call runs in the place of a target; so order, conditions, the other kinds of hooks and
all laws hold for events. A stub without a body gets one that returns what no answers make.
"""

from __future__ import annotations

from functools import cache, partial
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Literal, overload

from aspecthook._core.compile.link import Linker, Template
from aspecthook._core.compile.source import Source
from aspecthook._core.law.call import Site
from aspecthook._core.law.order import Chain
from aspecthook._core.law.signature import COROUTINE, Emission, Signature
from aspecthook._core.mount.hookable import mount_new
from aspecthook._core.mount.point import MountPoint, mount_of
from aspecthook._errors import HookOptionError, MountError, brief, entrance, nearest, printable, qualified

if TYPE_CHECKING:
    from collections.abc import Callable

    from aspecthook._typing import Coro, Event, Nobody, P, R, T, ToAnswer, ToEvent

    ToMount = Callable[[FunctionType, str | None, Emission], MountPoint]

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

Errors = Literal["raise", "isolate"]
_ERRORS = ("raise", "isolate")
_NOTHING: Any = object()


@overload
def event(stub: Callable[P, Nobody], /) -> Event[P, list[Any]]: ...
@overload
def event(stub: Callable[P, Coro[list[T]]], /) -> Event[P, Coro[list[T]]]: ...  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
@overload
def event(stub: Callable[P, list[T]], /) -> Event[P, list[T]]: ...
@overload
def event(stub: Callable[P, Coro[R | None]], /) -> Event[P, Coro[list[R]]]: ...  # type: ignore[overload-overlap]
@overload
def event(stub: Callable[P, R | None], /) -> Event[P, list[R]]: ...
@overload
def event(*, first: Literal[True], name: str | None = None, errors: Errors = ...) -> ToAnswer: ...
@overload
def event(*, fold: str, name: str | None = None, errors: Errors = ...) -> ToAnswer: ...
@overload
def event(*, name: str | None = None, errors: Errors = ...) -> ToEvent: ...
# Any: callers see the overloads, not this line.
@entrance
def event(
    stub: Any = _NOTHING,
    /,
    *,
    name: str | None = None,
    first: bool = False,
    fold: str | None = None,
    errors: Errors = "raise",
) -> Any:
    """Turn a function into an event: calling it runs the hooks that have subscribed with ``@stub.on``.

    A call returns a list of the answers that are not None, in the order of the subscribers. Subscribers are hooks: they
    ask for arguments by name, have the same options and order, and you remove them through `hooks`. Hooks of the other
    kinds act as on any function: a pre hook can replace arguments, or cancel the event with ``Return``. The body of
    the stub is the default: it runs if there are no subscribers.

    Args:
        stub: A function, or an async function, which awaits its subscribers in order.
        name: The name of the event in messages; by default ``module:qualname``.
        first: Whether a call returns the first answer that is not None, and skips the remaining subscribers. The body
            of the stub comes last.
        fold: The name of a parameter. Each answer that is not None replaces it for the following subscribers, and the
            call returns its last value.
        errors: What happens if a subscriber raises. ``"raise"``: the event ends, and the caller gets the exception.
            ``"isolate"``: the exception is logged and counted, and the other subscribers run.

    Raises:
        MountError: The stub is not a function, is a generator function, or is a mount point already.
        HookOptionError: Options contradict each other, or name a parameter that does not exist.

    Example:
        >>> @event
        ... def temperature_changed(celsius): ...
        >>> @temperature_changed.on
        ... def alarm(celsius):
        ...     return "too hot" if celsius > 30 else None
        >>> temperature_changed(31.5), temperature_changed(20.0)
        (['too hot'], [])
    """
    make = entrance(partial(make_event, name=name, first=first, fold=fold, errors=errors))
    return make if stub is _NOTHING else make(stub)


def make_event(stub: Any, name: Any, *, first: bool, fold: str | None, errors: str, make: ToMount = MountPoint) -> Any:
    """Make a stub an event; `make` makes its mount point."""
    if type(stub) is not FunctionType:
        inner = getattr(stub, "__func__", None) or getattr(stub, "fget", None)
        hint = "put @event nearest to the def" if isinstance(inner, FunctionType) else "give a function"
        raise MountError(f"{brief(stub)} is of type {type(stub).__name__}, and cannot be an event; {hint}")
    label = qualified(stub)
    if mount_of(stub) is not None:
        raise MountError(f"{label} is a mount point already, and cannot be made an event; use @event alone")
    signature = Signature(stub.__code__)
    if "generator" in signature.style:
        raise MountError(
            f"{label} contains a yield, and cannot be an event; write a stub: def {stub.__name__}(...): ..."
        )
    if name is not None and not isinstance(name, str):
        raise HookOptionError(f"{label} has name={brief(name)}; give a string")
    label = printable(name) if name else label
    why = _why_refused(list(signature.names[: signature.regular]), first, fold, errors)
    if why:
        raise HookOptionError(f"{label} {why}")
    emission = Emission(
        gives="first" if first else "fold" if fold is not None else "list",
        fold=0 if fold is None else signature.index[fold],
        isolate=errors == "isolate",
        default=not _is_empty(stub),
    )
    mount = make(stub, name, emission)
    code = _code(stub, emission, mount)
    mount_new(stub, mount)
    stub.__code__ = code
    return stub


def _why_refused(names: list[str], first: object, fold: object, errors: object) -> str:
    """Return why an event with parameters of these names cannot have these options; empty if it can."""
    if not isinstance(first, bool):
        return f"has first={brief(first)}; give True or False"
    if fold is not None and not isinstance(fold, str):
        return f"has fold={brief(fold)}; give a parameter's name"
    if errors not in _ERRORS:
        return f"has errors={brief(errors)}; give one of {', '.join(_ERRORS)}{nearest(str(errors), list(_ERRORS))}"
    if first and fold is not None:
        return f"cannot both return the first answer and fold {brief(fold)}; use one of the two"
    if fold is not None and fold not in names:
        return f"folds {brief(fold)}, but its parameters are {', '.join(names) or 'none'}{nearest(fold, names)}"
    return ""


# Code for stubs


def _is_empty(function: FunctionType) -> bool:
    """Whether a function has no body, but for a docstring: it does what the compiler makes of a stub."""
    return _steps(function.__code__) == _stub_steps("async def" if function.__code__.co_flags & COROUTINE else "def")


@cache
def _stub_steps(lead: str) -> list[tuple[str, object]]:
    module = compile(f"{lead} stub(): pass", "<aspecthook>", "exec", dont_inherit=True)
    return next(_steps(one) for one in module.co_consts if isinstance(one, CodeType))


def _steps(code: CodeType) -> list[tuple[str, object]]:
    """Return the instructions of a function without NOPs, of which the compiler may leave one for a line."""
    from opcode import opname

    steps = [(opname[step], argument) for step, argument in zip(code.co_code[::2], code.co_code[1::2], strict=True)]
    # The place of None among the constants depends on whether there is a docstring.
    consts = ("LOAD_CONST", "RETURN_CONST")
    return [(name, code.co_consts[one] if name in consts else one) for name, one in steps if name != "NOP"]


def _code(function: FunctionType, emission: Emission, mount: MountPoint) -> CodeType:
    """Return the code of the event without hooks: the user's or, for a bare stub, one that returns no answers."""
    code = function.__code__
    if emission.default or emission.gives == "first":
        return code
    site: Site = mount.site()
    signature = Signature(code, emission)
    text = Source(signature, Chain(())).empty()
    made = Template(text, free=len(code.co_freevars))
    facts: dict[str, object] = {"site": site, "first": None}
    linked, _ = Linker(signature, code, site.label, facts, function.__globals__).link(made, Chain(()), None, {})
    # Tracebacks and `inspect` show the source of the stub.
    return linked.replace(co_filename=code.co_filename, co_firstlineno=code.co_firstlineno)
