"""Tracing one call: which hooks ran, in which order, what each was given and what it answered.

The call runs the compiled chain itself, on clones of the hooks that note what happens to them; nothing that others
see is changed, and no call of theirs is noted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from aspecthook._errors import HookTypeError, nearest, plural
from aspecthook._values import shortened

from ._calls import Given, bound_of, values_of
from ._mount import Chain, Hook, MountPoint, hooks, members_of
from ._recording import Recorder
from ._repeat import copy_of, kept_of
from ._steps import Trace

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


# Any: the traced function takes what the function takes, and an async one returns an awaitable of the trace.
def trace_of(function: Any, /) -> Callable[..., Any]:
    """Return a function that makes one call and returns its `Trace`, whatever the call returns or raises.

    For a coroutine function it returns an awaitable of the trace. A generator is run to its end, and the list of its
    items is the result.

    Raises:
        HookLookupError: The function is not a mount point.

    Example:
        >>> from aspecthook import Args, hookable
        >>> @hookable
        ... def price(item, qty=1):
        ...     return 2.0 * qty
        >>> @price.pre
        ... def at_least_one(qty):
        ...     return Args(qty=max(qty, 1))
        >>> print(trace_of(price)("tea", 0))
        aspecthook.testing._trace:price → 2.0
          pre     at_least_one(qty=0) → Args(qty=1)
          target  price(item='tea', qty=1) → 2.0
    """
    mount = hooks(function)

    def traced(*args: Any, **kwargs: Any) -> Any:
        return make_call(mount, Given(args, kwargs, bound_of(function)))

    traced.__dict__["function"] = function  # mount points do not keep their functions alive
    return traced


def make_call(mount: MountPoint, given: Given, chain: Chain | None = None) -> Trace | Awaitable[Trace]:
    """Make one call with the hooks that act now, or with those of a chain, which then do not count their runs.

    The order of that chain need not be that of law 2.
    """
    trace = untraced(Trace(mount.name), mount, given)
    begin = Recorder(mount, trace).call_of(chain)
    style = mount.site().signature.style
    if style == "coroutine":
        return _awaited(trace, begin, given)
    if style == "async generator":
        return _read(trace, begin, given)
    with held(trace):
        made = begin(*given.bound, *given.args, **given.kwargs)
        trace.result = list(made) if style == "generator" else made
    return trace


async def _awaited(trace: Trace, begin: Callable[..., Any], given: Given) -> Trace:
    with held(trace):
        trace.result = await begin(*given.bound, *given.args, **given.kwargs)
    return trace


async def _read(trace: Trace, begin: Callable[..., Any], given: Given) -> Trace:
    with held(trace):
        trace.result = [item async for item in begin(*given.bound, *given.args, **given.kwargs)]
    return trace


@contextmanager
def held(trace: Trace) -> Generator[None]:
    """Hold what a call raises in its trace."""
    try:
        yield
    except BaseException as error:
        trace.exc = error


def untraced(trace: Trace, mount: MountPoint, given: Given) -> Trace:
    """Put into a trace what is known of its call before that is made; return the trace."""
    trace._target = mount.function.__name__
    trace.args, trace.kwargs = given.args, given.kwargs
    values = values_of(mount, given)
    if values is not None:  # else the call itself raises a TypeError
        trace.arguments = mount.site().arguments(values)
    kept = kept_of(given)

    def again(other: Chain) -> Trace | Awaitable[Trace]:
        return make_call(mount, copy_of(kept), other)

    again.__dict__["function"] = mount.function  # mount points do not keep their functions alive
    trace._again = again
    return trace


def draw_chain(mount: MountPoint, most: int | None = None) -> str:
    """Draw the first ``most`` hooks of a mount point, one per line, in the order in which a call may run them."""
    chain, acting = Chain(members_of(mount)).hooks, set(mount.chain().hooks)
    rows = [(hook.kind, hook.name, _conditions(hook, paused=hook not in acting)) for hook in chain[:most]]
    width = max((len(kind) for kind, _, _ in rows), default=0)
    lines = [f"  {kind:<{width}}  {name}{conditions}" for kind, name, conditions in rows]
    lines += [f"  ... and {len(chain) - len(rows)} more"] if len(rows) < len(chain) else []
    return "\n".join([f"{mount.name}, {plural(len(chain), 'hook')}", *lines])


def _conditions(hook: Hook, *, paused: bool) -> str:
    parts = [f"priority={hook.priority}"] if hook.priority != 50 else []
    given = {name: value for name, value in hook.options.items() if value is not None}  # `after=None` is no condition
    parts += [f"{name}={shortened(value)}" for name, value in given.items() if name not in ("name", "priority")]
    parts += ["paused"] if paused else []
    return f" ({', '.join(parts)})" if parts else ""


def assert_order(function: Any, /, *names: str) -> None:
    """Assert that the current chain runs hooks in this order; the function's own name stands for the target.

    Raises:
        AssertionError: The order is different, or a hook is missing or paused; the message shows the chain.
        HookTypeError: No names were given.

    Example:
        >>> from aspecthook import hookable
        >>> @hookable
        ... def save(order): ...
        >>> @save.pre(before="validate")
        ... def authenticate(): ...
        >>> @save.pre
        ... def validate(order): ...
        >>> assert_order(save, "authenticate", "validate", "save")
    """
    mount = hooks(function)
    if not names:
        raise HookTypeError(f"{mount.name}: assert_order() was given no names of hooks, and would always pass")
    chain = mount.chain()
    order = [hook.name for hook in chain.hooks]
    order.insert(len(chain.pre + chain.around + chain.on), mount.function.__name__)
    for name in names:
        if name not in order:
            raise AssertionError(f"no hook {name!r}{nearest(name, order)}\n{draw_chain(mount)}")
    for first, second in pairwise(names):
        last = len(order) - 1 - order[::-1].index(first)
        if last > order.index(second):
            raise AssertionError(f"{first!r} does not run before {second!r}\n{draw_chain(mount)}")
