"""What the report of a failed test shows of hooks: the chains that the test has called or changed, and its tape.

The invariant: it is short, whatever a test has made, and no code of the user runs but `repr`, through `brief`. So
objects are looked at by their types and namespaces alone: `getattr` and `isinstance` run properties and proxies.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FrameType, ModuleType
from typing import TYPE_CHECKING, Any, cast

from ._mount import InstanceMountPoint, MountPoint, callables_of, type_of
from ._trace import chain_lines

if TYPE_CHECKING:
    import pytest

    from aspecthook.record import Tape

_CHAINS, _HOOKS, _CALLS, _WIDTH = 5, 8, 40, 200
_ERRORS = 20  # an exception, its causes, and those of its group
_FAR = 4  # `shop.cart.Cart.add` is that far from a frame
_NOT_THE_PROJECTS = {"site-packages", "dist-packages"}


def sections(
    item: pytest.Item,
    error: BaseException | None,
    mounts: Iterable[MountPoint],
    changed: Iterable[MountPoint],
    taped: Tape | None,
) -> list[tuple[str, str]]:
    """Return the sections of a report, titles and texts: the chains that a test has called or changed, and its tape."""
    called = {*_called(item, error, mounts)}
    found = [
        ("hook chains", _draw_chains(called, {mount for mount in changed if _is_lasting(mount)})),
        ("tape", "" if taped is None else "\n".join(map(_fit, _shortened(taped.lines(times=False))))),
    ]
    return [(title, text) for title, text in found if text]


def _shortened(lines: list[str]) -> list[str]:
    """Return the first and the last lines of a tape, if there are too many."""
    left_out = len(lines) - _CALLS
    half = _CALLS // 2
    return [*lines[:half], f"... {left_out} more calls ...", *lines[-half:]] if left_out > 0 else lines


def _is_lasting(mount: MountPoint) -> bool:
    """Whether this is the mount point of a function that a module or a class holds.

    What a test makes for itself is shown if its frames refer to it, and not because it is alive: Hypothesis keeps the
    exceptions of earlier examples, and so what they have made.
    """
    function = mount.ref()
    one = mount.of_object or isinstance(mount, InstanceMountPoint)
    return function is not None and not one and "<locals>" not in function.__qualname__


def _draw_chains(called: set[MountPoint], changed: set[MountPoint]) -> str:
    def newest(mount: MountPoint) -> int:
        return max(hook.added for hook in mount.members)

    mounts = [mount for mount in called | changed if mount.members]
    # Those that were called matter more, if there are too many.
    chosen = sorted(mounts, key=lambda mount: (mount in called, newest(mount)), reverse=True)[:_CHAINS]
    chosen.sort(key=newest, reverse=True)
    chains = ["\n".join(map(_fit, chain_lines(mount, _HOOKS))) for mount in chosen]
    chains += [f"... and {len(mounts) - _CHAINS} more mount points"] if len(mounts) > _CHAINS else []
    return "\n\n".join(chains)


def _fit(line: str) -> str:
    """Make a line short and printable: one that no encoding can write ends a worker of xdist."""
    shown = line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."
    return "".join([char if char.isprintable() else ascii(char)[1:-1] for char in shown])


# What was called


def _called(item: pytest.Item, error: BaseException | None, mounts: Iterable[MountPoint]) -> Iterator[MountPoint]:
    """Yield the mount points whose calls have failed, and those that the project's own frames name or hold.

    A frame holds its locals, the globals that its code names, and the attributes of both that it names.
    """
    frames = [frame for one in _errors(error) for frame in _frames(one)]
    codes = {frame.f_code for frame in frames}
    fixtures = cast("dict[str, object]", getattr(item, "funcargs", None) or {})  # None when the test has ended
    names: set[str] = set()
    held = list(fixtures.values())
    root = f"{item.config.rootpath}{os.sep}"
    for frame in frames:
        file = frame.f_code.co_filename
        if file.startswith(root) and _NOT_THE_PROJECTS.isdisjoint(file.split(os.sep)):
            names.update(_names(frame.f_code))
            held += [*frame.f_locals.values(), *(frame.f_globals[name] for name in names & frame.f_globals.keys())]
    known = _known(held, names)
    for mount in list(mounts):
        mounted = mount.instance() if isinstance(mount, InstanceMountPoint) else mount.ref()
        ours = (mounted, getattr(mount, "proxy", None))
        is_known = any(one is not None and id(one) in known for one in ours)
        if is_known or (mount.place is not None and any(map(mount.place.is_own, codes))):
            yield mount


def _known(things: list[Any], names: set[str]) -> set[int]:
    """Return the ids of some things, and of their members of these names."""
    known: set[int] = set()
    for _ in range(_FAR):
        known.update(map(id, things))
        members = [space[name] for thing in things for space in _spaces(thing) for name in names & space.keys()]
        things = [one for member in members for one in (member, *callables_of(member)) if id(one) not in known]
    return known


def _spaces(thing: object) -> Iterator[Mapping[str, Any]]:
    """Yield the namespaces in which a thing finds its members."""
    kind = type_of(thing)
    yield namespace_of(thing)
    if not issubclass(kind, ModuleType):
        yield from [vars(base) for base in (cast("type", thing) if issubclass(kind, type) else kind).__mro__]


def _errors(error: BaseException | None) -> list[BaseException]:
    """Return an exception and those that it came of, or is a group of."""
    found: list[BaseException] = []
    waiting = [error]
    while waiting and len(found) < _ERRORS:
        one = waiting.pop(0)
        if one is not None and not any(one is other for other in found):
            found.append(one)
            waiting += [one.__cause__, one.__context__]
            if isinstance(one, BaseExceptionGroup):
                waiting += cast("BaseExceptionGroup[BaseException]", one).exceptions
    return found


def _frames(error: BaseException) -> Iterator[FrameType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes in code, and in the functions that are written in it."""
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _names(const)


def namespace_of(thing: object) -> dict[str, Any]:
    """Return what an object holds by name, without running code of its own."""
    try:
        return cast("dict[str, Any]", object.__getattribute__(thing, "__dict__"))
    except AttributeError:
        return {}
