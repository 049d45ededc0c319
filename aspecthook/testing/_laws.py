"""Laws: what a user says must be true of each call, as a predicate on its trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import getattr_static, signature
from textwrap import indent
from types import FunctionType
from typing import Any, TypeVar, cast

from aspecthook._errors import HookTypeError
from aspecthook._values import shortened

from ._calls import run_to_end
from ._mount import MountPoint, hooks
from ._ready_laws import ReadyLaw
from ._steps import Trace
from ._trace import draw_chain, trace_of

_LAW = "__aspecthook_law__"

Law = TypeVar("Law", bound=Callable[..., Any])


class LawError(AssertionError):
    """A mount point breaks a law; the message names the law, and shows the call and the chain.

    Example:
        >>> from aspecthook import hookable
        >>> @hookable
        ... def save(order): ...
        >>> try:
        ...     run_laws(save, law(lambda trace: trace.ran("audit")), args=(1,))
        ... except LawError as error:
        ...     print(error.law)
        <lambda>
    """

    law: str = ""
    trace: Trace | None = None


LawError.__module__ = "aspecthook.testing"  # where users import it, and what tracebacks name


def _error(what: str, name: str, mount: MountPoint, trace: Trace) -> LawError:
    """Return the error for a law that does not hold in a call."""
    call, chain = indent(trace.draw(), "  "), indent(draw_chain(mount), "  ")
    error = LawError(f"{what}\n\nthe call:\n{call}\n\nthe chain:\n{chain}")
    error.law, error.trace = name, trace
    return error


# A user's own laws


def law(predicate: Law) -> Law:
    """Make a law from a predicate on the `Trace` of a call, which must be true for each call.

    In a `HookMachine` it is a function of ``trace``, or a method of ``(self, trace)``, checked after each call.
    Anywhere else, pass it to `run_laws`.

    Example:
        >>> from aspecthook import hookable
        >>> @law
        ... def auth_before_audit(trace):
        ...     return trace.before("auth", "audit")
        >>> @hookable
        ... def handle(request): ...
        >>> @handle.pre
        ... def audit(): ...
        >>> @handle.pre
        ... def auth(): ...
        >>> try:
        ...     run_laws(handle, auth_before_audit, args=(1,))
        ... except LawError as error:
        ...     print(str(error).splitlines()[0])
        aspecthook.testing._laws:handle breaks the law 'auth_before_audit': it answered False
    """
    setattr(_inside(predicate), _LAW, True)
    return predicate


def _inside(value: Any) -> Any:
    """Return the function of a static method, or the value itself if it is none."""
    return cast("Any", value).__func__ if isinstance(value, staticmethod) else value


@cache
def laws_in(owner: type[Any]) -> list[tuple[Any, bool]]:
    """Return the laws in a class, in the order of their names, each with whether it takes ``self``."""
    found: list[tuple[Any, bool]] = []
    for name in dir(owner):
        static = getattr_static(owner, name)
        if isinstance(static, ReadyLaw):
            found.append((static, False))
            continue
        function = _inside(static)
        if isinstance(function, FunctionType) and getattr(function, _LAW, False):
            found.append((function, static is function and len(signature(function).parameters) > 1))
    return found


def check_law(predicate: Callable[[Trace], object], mount: MountPoint, trace: Trace) -> None:
    """Check one of the user's laws on one call.

    Raises:
        LawError: It does not hold, or it raised something else than an AssertionError.
        HookTypeError: It answered None, which is neither yes nor no.
    """
    is_ready = isinstance(predicate, ReadyLaw)
    name = repr(predicate) if is_ready else getattr(predicate, "__name__", shortened(predicate))
    broken = f"{mount.name} breaks the law {name!r}"
    try:
        answer = predicate(trace)
    except AssertionError as error:
        raise _error(f"{broken}: {error if is_ready else f'it says {error}'}", name, mount, trace) from error
    except Exception as error:
        if is_ready or _is_a_verdict(error):
            raise
        what = f"the law {name!r} raised {shortened(error)} on this call, instead of returning what must be true"
        if trace.exc is not None:
            what += (
                f"; the call itself raised {shortened(trace.exc)}, so trace.result is None: say what must be true of a "
                "call that fails too, for example `trace.exc is not None or trace.result > 0`"
            )
        raise _error(f"{mount.name}: {what}", name, mount, trace) from error
    if answer is None:
        raise HookTypeError(f"the law {name!r} answered None; return what must be true, such as trace.before(a, b)")
    if not answer:
        fails = "" if trace.exc is None else f", on a call that raised {shortened(trace.exc)} and so has no result"
        raise _error(f"{broken}: it answered {shortened(answer)}{fails}", name, mount, trace)


def _is_a_verdict(error: Exception) -> bool:
    """Whether an exception is meant for the test runner: `hypothesis.assume`, `unittest.SkipTest`."""
    from unittest import SkipTest

    from hypothesis.errors import HypothesisException

    return isinstance(error, (HypothesisException, SkipTest))


# Any: a mount point of any sort, and its own arguments.
def run_laws(
    function: Any,
    /,
    *laws: Callable[[Trace], object],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> None:
    """Make one call, and check laws on it: predicates on its trace, marked with `law` or not, or ready-made ones.

    The hooks and the target run once; a coroutine function runs in its own event loop.

    Raises:
        LawError: A law does not hold, or raised an exception other than an AssertionError.
        HookLookupError: A ready law names a hook that is not there.
        HookTypeError: No laws were given.

    Example:
        >>> from aspecthook import hookable
        >>> @hookable
        ... def total(amount, rate=0.2):
        ...     return amount * (1 + rate)
        >>> @total.post
        ... def to_cents(result):
        ...     return round(result, 2)
        >>> run_laws(total, lambda trace: trace.before("total", "to_cents"), args=(10,))
    """
    mount = hooks(function)
    if not laws:
        raise HookTypeError(
            f"{mount.name}: run_laws() checks the laws that it is given, and was given none; name some, for example "
            "run_laws(f, before('auth', 'audit'), args=(1,))"
        )
    for one in laws:
        if isinstance(one, ReadyLaw):
            one.check_names(mount)
    made: Any = trace_of(function)(*args, **(kwargs or {}))
    trace: Trace = made if isinstance(made, Trace) else run_to_end(made)
    for one in laws:
        check_law(one, mount, trace)
