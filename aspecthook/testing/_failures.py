"""What the report of a failed test shows of hooks: the chains that the test has called or changed, and its tape.

The invariant: it is short, whatever a test has made. The only code of the user that runs is `repr`, through
`shortened`, which catches what it raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import CodeType, FrameType, ModuleType
from typing import TYPE_CHECKING, cast

from ._mount import InstanceMountPoint, MountPoint
from ._trace import draw_chain

if TYPE_CHECKING:
    from aspecthook.record import Tape

_CHAINS, _HOOKS, _CALLS, _WIDTH = 5, 8, 40, 200


def sections(
    error: BaseException | None, mounts: Iterable[MountPoint], changed: Iterable[MountPoint], taped: Tape | None
) -> list[tuple[str, str]]:
    """Return the sections of a report, titles and texts.

    Args:
        error: What the test has raised.
        mounts: All mount points that there are.
        changed: Those whose hooks the test and its fixtures have changed.
        taped: The tape of the test.
    """
    frames = list(_frames(error))
    codes = {frame.f_code for frame in frames}
    held = {id(value) for frame in frames for value in _held(frame)}
    called = {mount for mount in mounts if id(mount.ref()) in held or _has_run(mount, codes)}
    found = [
        ("hook chains", _draw_chains(called | set(filter(_is_lasting, changed)))),
        ("tape", "" if taped is None else "\n".join(map(_fit, _shortened(taped.lines(times=False))))),
    ]
    return [(title, text) for title, text in found if text]


def _has_run(mount: MountPoint, codes: Iterable[CodeType]) -> bool:
    return mount.place is not None and any(map(mount.place.is_own, codes))


def _is_lasting(mount: MountPoint) -> bool:
    """Whether the mount point outlives the test.

    Those of single objects are left out unless a frame refers to them: Hypothesis keeps the exceptions of earlier
    examples alive, and with them the objects of these examples.
    """
    function = mount.ref()
    one = mount.of_object or isinstance(mount, InstanceMountPoint)
    return function is not None and not one and "<locals>" not in function.__qualname__


def _draw_chains(found: set[MountPoint]) -> str:
    """Draw the chains of some mount points, the newest first."""
    mounts = [mount for mount in found if mount.members]
    mounts.sort(key=lambda mount: max(hook.added for hook in mount.members), reverse=True)
    chains = ["\n".join(map(_fit, draw_chain(mount, _HOOKS).split("\n"))) for mount in mounts[:_CHAINS]]
    chains += [f"... and {len(mounts) - _CHAINS} more mount points"] if len(mounts) > _CHAINS else []
    return "\n\n".join(chains)


def _shortened(lines: list[str]) -> list[str]:
    """Return the first and the last lines of a tape, if there are too many."""
    left_out = len(lines) - _CALLS
    half = _CALLS // 2
    return [*lines[:half], f"... {left_out} more calls ...", *lines[-half:]] if left_out > 0 else lines


def _fit(line: str) -> str:
    """Make a line short and printable: one that no encoding can write ends a worker of xdist."""
    shown = line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."
    return "".join([char if char.isprintable() else ascii(char)[1:-1] for char in shown])


def _frames(error: BaseException | None) -> Iterator[FrameType]:
    """Yield the frames in the tracebacks of an exception, and of those that it came of or is a group of."""
    waiting, seen = [error], set[int]()
    for one in waiting:  # which grows meanwhile
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        trace = one.__traceback__
        while trace is not None:
            yield trace.tb_frame
            trace = trace.tb_next
        waiting += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            waiting += cast("BaseExceptionGroup[BaseException]", one).exceptions


def _held(frame: FrameType) -> Iterator[object]:
    """Yield what a frame refers to: its locals, the globals that its code names, and what it names of modules."""
    names = frame.f_code.co_names
    held = [*frame.f_locals.values(), *(frame.f_globals[name] for name in names if name in frame.f_globals)]
    yield from held
    for module in held:
        # By its type, since `isinstance` runs the code of a proxy.
        if type(module) is ModuleType:
            yield from (vars(module)[name] for name in names if name in vars(module))
