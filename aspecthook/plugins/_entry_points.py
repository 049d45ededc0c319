"""Entry points: what installed distributions offer by name."""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType
from typing import TYPE_CHECKING, Any

from aspecthook._errors import PluginError, brief, printable
from aspecthook.weave._aspects import marks_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def shown(point: EntryPoint) -> str:
    """Return an entry point as messages show it."""
    of = f"{point.dist.name} {point.dist.version}" if point.dist is not None else "no distribution"
    return printable(f"entry point {point.name} = {point.value} of {of}")


def plugins_of(group: str, exclude: Iterable[str], known: Iterable[str], label: str) -> list[tuple[EntryPoint, Any]]:
    """Return the entry points of a group whose names are not known yet, each with the plugin that it names.

    They come in the order of their names: they are found in the order of folders on a disk, which differs by machine.
    """
    from importlib import metadata

    left_out = {*([exclude] if isinstance(exclude, str) else exclude), *known}
    try:
        found = metadata.entry_points(group=group)
    except ValueError as error:  # from Python 3.15 on, if any of any distribution is malformed
        raise PluginError(
            f"{label}: Python cannot read the entry points that are installed, since one of them is malformed: "
            f"{brief(error, 200)}; fix or uninstall its distribution"
        ) from error
    points: dict[str, list[EntryPoint]] = {}
    for point in found:
        if point.name not in left_out:
            points.setdefault(point.name, []).append(point)
    for name, several in points.items():
        if len(several) > 1:
            all_of_them = "; ".join(sorted(map(shown, several)))
            raise PluginError(
                f"{label}: {len(several)} entry points have the same name: {all_of_them}; uninstall all but "
                f"one, or leave them out with exclude={name!r} and register one yourself"
            )
    return [(points[name][0], _plugin_of(points[name][0], label)) for name in sorted(points)]


# Any: a plugin may be any object.
def _plugin_of(point: EntryPoint, label: str) -> Any:
    """Return what an entry point names; a class, or a function that makes a plugin, is called."""
    try:
        found = point.load()
        if isinstance(found, type) or (isinstance(found, FunctionType) and not marks_of(found)):
            return found()
        return found
    except Exception as error:
        raise PluginError(
            f"{label}: {shown(point)} fails with {brief(error, 200)}; fix or uninstall it, or leave it out with "
            f"exclude={point.name!r}"
        ) from error
