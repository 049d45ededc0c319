"""Events: mount points without a body, that hooks subscribe to.

The invariant: an event is the stub function itself, in place, as every mount point. Its subscribers are hooks of the
kind ``on``, which the compiled call runs where it would run a target; so order, conditions, the other kinds of hooks
and all laws hold for events as they are. A stub without a body is given one that gives what no answers make.
"""

from __future__ import annotations

from functools import cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Literal, overload

from ._call import Site
from ._compile import Linker, Template, compiled
from ._errors import HookOptionError, MountError, nearest
from ._history import History
from ._hookable import mount_new
from ._mount import MountPoint, mount_of
from ._order import Chain
from ._signature import Emission, Signature
from ._source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ._typing import Event, P, R, ToAnswer, ToEvent

    ToMount = Callable[[FunctionType, str | None, Emission], MountPoint]

Errors = Literal["raise", "isolate", "group"]
_ERRORS = ("raise", "isolate", "group")
_NOTHING: Any = object()


@overload
def event(stub: Callable[P, Coroutine[Any, Any, None]], /) -> Event[P, Coroutine[Any, Any, list[Any]]]: ...
@overload
def event(stub: Callable[P, None], /) -> Event[P, list[Any]]: ...
@overload
def event(stub: Callable[P, R], /) -> Event[P, R]: ...
@overload
def event(
    *, first: Literal[True], name: str | None = None, errors: Errors = ..., replay: bool | int = ...
) -> ToAnswer: ...
@overload
def event(*, fold: str, name: str | None = None, errors: Errors = ..., replay: bool | int = ...) -> ToAnswer: ...
@overload
def event(
    *, name: str | None = None, errors: Errors = ..., gather: bool = ..., replay: bool | int = ...
) -> ToEvent: ...
# Any: the overloads say what is taken and given; nobody outside sees this line.
def event(
    stub: Any = _NOTHING,
    /,
    *,
    name: str | None = None,
    first: bool = False,
    fold: str | None = None,
    errors: Errors = "raise",
    gather: bool = False,
    replay: bool | int = False,
) -> Any:
    """Make a stub function an event: calling it runs what has subscribed with ``@stub.on``.

    A call gives the list of the subscribers' answers that are not None, in the order in which they run. Subscribers are
    hooks: they ask for arguments by name, have the same options and order, and come off through `hooks`. Hooks of the
    other kinds act on an event as on any function: a pre hook replaces arguments, or with ``Return`` keeps the event
    from happening. A body of the stub is the default: what a call does when nobody listens.

    Args:
        stub: A function or an async function, whose subscribers are awaited in order.
        name: How messages call the event; ``module:qualname`` unless given.
        first: The call gives the first answer that is not None, and asks no further; a body of the stub is asked last.
        fold: The name of a parameter. Each answer that is not None takes its place for the subscribers that follow; the
            call gives what it is at the end.
        errors: What becomes of an exception of a subscriber: ``"raise"`` ends the event and goes to the caller;
            ``"isolate"`` logs and counts it, and the others go on; ``"group"`` lets all run, then raises one
            `ExceptionGroup`.
        gather: Await the subscribers of an async event all at once, under a task group (asyncio's or trio's). What is
            raised is then always an `ExceptionGroup`; unless ``errors="group"``, the first failure cancels the others.
        replay: Tell a new subscriber of all past calls, or of the last so many. They are kept: see ``stub.history``.

    Raises:
        MountError: It is no function, is a generator function, or is a mount point already.
        HookOptionError: Options contradict each other, or name what is not there.

    Example:
        >>> @event
        ... def temperature_changed(celsius): ...
        >>> @temperature_changed.on
        ... def alarm(celsius):
        ...     return "too hot" if celsius > 30 else None
        >>> temperature_changed(31.5), temperature_changed(20.0)
        (['too hot'], [])
    """
    if stub is _NOTHING:

        def decorate(later: Any) -> Any:
            return _event(later, name, first=first, fold=fold, errors=errors, gather=gather, replay=replay)

        return decorate
    return _event(stub, name, first=first, fold=fold, errors=errors, gather=gather, replay=replay)


def _event(stub: Any, name: Any, *, make: ToMount = MountPoint, **options: Any) -> Any:
    function = _checked(stub)
    if name is not None and not isinstance(name, str):
        raise HookOptionError(f"{function.__module__}:{function.__qualname__} has name={name!r}; give a string")
    label = name or f"{function.__module__}:{function.__qualname__}"
    emission = _emission(function, label, **options)
    mount = make(function, name, emission)
    if emission.replay:
        if "history" in function.__dict__:
            raise MountError(f"{label} already has an attribute 'history', which replay needs; rename it")
        _remember(mount, options["replay"])
    code = _code(function, emission, mount)
    mount_new(function, mount)
    function.__code__ = code
    if mount.history is not None:
        function.__dict__["history"] = mount.history
    return function


def _checked(stub: Any) -> FunctionType:
    if type(stub) is not FunctionType:
        inner = getattr(stub, "__func__", None) or getattr(stub, "fget", None)
        hint = "put @event nearest to the def" if isinstance(inner, FunctionType) else "give a function"
        raise MountError(f"{stub!r} is of type {type(stub).__name__}, and cannot be an event; {hint}")
    label = f"{stub.__module__}:{stub.__qualname__}"
    if mount_of(stub) is not None:
        raise MountError(f"{label} is a mount point already, and cannot be made an event; use @event alone")
    style = Signature(stub.__code__).style
    if "generator" in style:
        raise MountError(
            f"{label} contains a yield, and cannot be an event; write a stub: def {stub.__name__}(...): ..."
        )
    return stub


def _emission(
    function: FunctionType, label: str, *, first: bool, fold: str | None, errors: str, gather: bool, replay: bool | int
) -> Emission:
    signature = Signature(function.__code__)
    _check_types(label, first=first, fold=fold, gather=gather, replay=replay)
    if errors not in _ERRORS:
        near = nearest(str(errors), list(_ERRORS))
        raise HookOptionError(f"{label} has errors={errors!r}, which is none of {', '.join(_ERRORS)}{near}")
    if first and fold is not None:
        raise HookOptionError(f"{label} cannot both give the first answer and fold {fold!r}; use one of the two")
    place = 0
    if fold is not None:
        place = signature.index.get(fold, -1)
        if not 0 <= place < signature.regular:
            names = list(signature.names[: signature.regular])
            shown = ", ".join(names) or "no parameters"
            raise HookOptionError(f"{label} folds {fold!r}, but has {shown}{nearest(str(fold), names)}")
    if gather:
        if signature.style != "coroutine":
            raise HookOptionError(
                f"{label} is not async, so its subscribers cannot be awaited at once; write async def"
            )
        if first or fold is not None:
            raise HookOptionError(f"{label} runs its subscribers at once: there is no first one, and nothing to fold")
    if replay < 0:
        raise HookOptionError(f"{label} has replay={replay!r}; give True, or how many calls are to be kept")
    default = not _is_empty(function)
    if replay:
        _check_replay(function, signature, label, default=default)
    return Emission(
        gives="first" if first else "fold" if fold is not None else "list",
        fold=place,
        isolate=errors == "isolate",
        group=errors == "group",
        gather=gather,
        replay=bool(replay),
        default=default,
    )


def _check_types(label: str, **options: object) -> None:
    wanted = {"first": (bool, "True or False"), "gather": (bool, "True or False"), "fold": (str, "a parameter's name")}
    for option, value in options.items():
        kind, advice = wanted.get(option, (int, "True, or how many calls are to be kept"))
        if not isinstance(value, kind) and not (option == "fold" and value is None):
            raise HookOptionError(f"{label} has {option}={value!r}; give {advice}")


def _check_replay(function: FunctionType, signature: Signature, label: str, *, default: bool) -> None:
    why = ""
    if signature.style == "coroutine":
        why = "is async, and `on` cannot await what a late subscriber would be told"
    elif default:
        why = "has a body, which is for when nobody listens, and past calls would be told to late listeners too"
    elif "." in function.__qualname__ and not function.__qualname__.rpartition(".")[0].endswith("<locals>"):
        why = "belongs to a class, and past calls would keep its instances alive"
    if why:
        raise HookOptionError(f"{label} cannot replay: it {why}; keep what late subscribers need in your own object")


def _remember(mount: MountPoint, replay: bool | int) -> None:
    most = None if replay is True else int(replay)
    mount.history = History(most, mount._get_site, lambda: mount._active().on)


# Code for stubs


def _is_empty(function: FunctionType) -> bool:
    """Say whether a function has no body: the compiler has made of it what it makes of a stub."""
    code = function.__code__
    first = code.co_consts[0] if code.co_consts else None  # a docstring, if it is a string; `__doc__` may be another's
    return (code.co_code, code.co_consts) in _stubs(code, first if isinstance(first, str) else None)


def _stubs(code: CodeType, doc: str | None) -> list[tuple[bytes, tuple[object, ...]]]:
    lead = "async def" if Signature(code).style == "coroutine" else "def"
    return _stubs_without_doc(lead) if doc is None else _stubs_of(lead, doc)


@cache
def _stubs_without_doc(lead: str) -> list[tuple[bytes, tuple[object, ...]]]:
    return _stubs_of(lead, None)


def _stubs_of(lead: str, doc: str | None) -> list[tuple[bytes, tuple[object, ...]]]:
    text = f"{doc!r}; " if doc is not None else ""
    bodies = [f"{text}pass", f"{text}...", f"{text}return None"]
    made = [compile(f"{lead} stub(): {body}", "<aspecthook>", "exec", dont_inherit=True) for body in bodies]
    codes = [next(one for one in module.co_consts if isinstance(one, CodeType)) for module in made]
    return [(one.co_code, one.co_consts) for one in codes]


def _code(function: FunctionType, emission: Emission, mount: MountPoint) -> CodeType:
    """Give the code of the event without hooks: what the user wrote, or for a bare stub what no answers make."""
    code = function.__code__
    if emission.default or (emission.gives == "first" and not emission.replay):
        return code
    site: Site = mount._get_site()
    text = Source(site.signature, Chain(())).empty()
    made = Template(0, text, *compiled(text, len(code.co_freevars)))
    linked = Linker(site.signature, code, site.label, {"record": site.record, "site": site}).link(
        made, Chain(()), None, {}
    )
    # It stands for the stub: its source, in tracebacks and for `inspect`, is what the user wrote.
    return linked.code.replace(co_filename=code.co_filename, co_firstlineno=code.co_firstlineno)
