"""What the report of a failed test shows of hooks: the chains that the test has called or changed, and its tape.

The invariant: it is short, whatever a test has made, and no code of the user runs but `repr`, through `brief`. So
objects are looked at by their types and namespaces alone: `getattr` and `isinstance` run properties and proxies.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, cast

from ._mount import MARK, InstanceMountPoint, MountPoint, callables_of, mount_of, type_of
from ._trace import chain_lines

if TYPE_CHECKING:
    import pytest

    from aspecthook.record import Tape

_CHAINS, _HOOKS, _CALLS, _WIDTH = 5, 8, 40, 200
_ERRORS = 20  # an exception, its causes, and those of its group
_FAR = 4  # `shop.cart.Cart.add` is that far from a frame
_THINGS = 1_000  # that are looked at for each of these steps
_BOXES = (list, tuple, set, frozenset, dict)
_METHODS = (classmethod, staticmethod, property, cached_property)
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
        ("tape", "" if taped is None else "\n".join(map(_fit, taped.lines(_CALLS, times=False)))),
    ]
    return [(title, text) for title, text in found if text]


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
    """Yield the mount points whose calls have failed, and those that the project's own frames and fixtures refer to."""
    frames = [frame for one in _errors(error) for frame in _frames(one)]
    codes = {frame.f_code for frame in frames}
    for mount in list(mounts):
        if any(mount.place_of(code) is not None for code in codes):
            yield mount
    fixtures = cast("dict[str, object]", getattr(item, "funcargs", None) or {})  # None when the test has ended
    yield from _reached(fixtures.values(), frozenset())
    root = f"{item.config.rootpath}{os.sep}"
    for frame in frames:
        file = frame.f_code.co_filename
        if file.startswith(root) and _NOT_THE_PROJECTS.isdisjoint(file.split(os.sep)):
            names = frozenset(_names(frame.f_code))
            known = [frame.f_globals[name] for name in names if name in frame.f_globals]
            yield from _reached([*frame.f_locals.values(), *known], names)


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


def _reached(things: Iterable[object], names: frozenset[str]) -> Iterator[MountPoint]:
    """Yield the mount points among some things, what they hold, and their members of these names."""
    seen: set[int] = set()
    level: list[Any] = list(things)
    for _ in range(_FAR):
        fresh = {id(thing): thing for thing in level[:_THINGS] if id(thing) not in seen}
        seen.update(fresh)
        level = []
        for thing in fresh.values():
            yield from _mounts_of(thing)
            members = list(_members(thing, names))
            level += members
            for member in members:  # one may be a method that carries hooks for this object alone
                yield from _of_instance(_mounts_of(member), thing)


def _mounts_of(thing: Any) -> Iterator[MountPoint]:
    kind = type_of(thing)
    if issubclass(kind, MountPoint):
        yield thing
    elif _is_weaving(kind):
        yield from thing.mounts
    elif kind is FunctionType:
        mount = mount_of(thing)
        if mount is not None:
            yield mount
    elif kind is MethodType:
        yield from _mounts_of(thing.__func__)
        yield from _of_instance(_mounts_of(thing.__func__), thing.__self__)
    elif kind in _METHODS:
        for function in callables_of(thing):
            yield from _mounts_of(function)
    else:
        carried = next((vars(base)[MARK] for base in kind.__mro__ if MARK in vars(base)), None)
        # A proxy takes the place of what has no Python code; whatever else carries hooks by itself has our mark.
        found: Any = carried.__get__(thing) if type(carried) is property else namespace_of(thing).get(MARK)
        main = getattr(found, "main", found)
        if isinstance(main, MountPoint):
            yield main


def _of_instance(mounts: Iterable[MountPoint], thing: object) -> Iterator[MountPoint]:
    for mount in mounts:
        if id(thing) in mount.instances:
            yield mount.instances[id(thing)]


def _is_weaving(kind: type[Any]) -> bool:
    module = sys.modules.get("aspecthook.weave._weaving")  # if it is not loaded, there are none
    return module is not None and kind is module.Weaving


def _members(thing: Any, names: frozenset[str]) -> Iterator[object]:
    kind = type_of(thing)
    if kind in _BOXES:
        yield from list(thing.values() if kind is dict else thing)[:_THINGS]
        return
    spaces: list[Mapping[str, object]] = [namespace_of(thing)]
    if not issubclass(kind, ModuleType):
        owner: type[Any] = thing if issubclass(kind, type) else kind
        spaces += [vars(base) for base in owner.__mro__]
    for space in spaces:
        yield from [space[name] for name in names if name in space]


def namespace_of(thing: object) -> dict[str, Any]:
    """Return what an object holds by name, without running code of its own."""
    try:
        return cast("dict[str, Any]", object.__getattribute__(thing, "__dict__"))
    except AttributeError:
        return {}
