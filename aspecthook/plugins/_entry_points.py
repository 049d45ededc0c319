"""Entry points: what installed distributions offer by name, malformed ones included.

Since Python 3.15 a single malformed entry point, in any group of any distribution, keeps `importlib.metadata` from
returning the others. Here each is read as it is written, and one that is malformed fails when it is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from aspecthook._errors import PluginError, brief, printable
from aspecthook.weave._aspects import marks_of

if TYPE_CHECKING:
    from importlib.metadata import Distribution


class EntryPoint(NamedTuple):
    """One entry point, and the name and version of its distribution."""

    name: str
    value: str
    group: str
    distribution: str

    # Any: an entry point may be any object.
    def load(self) -> Any:
        """Import and return what it names, or raise a `ValueError` if it is malformed."""
        from importlib import metadata

        try:
            point = metadata.EntryPoint(self.name, self.value, self.group)
            _ = point.module
        except Exception:
            # Python names the entry point only since 3.15, and its message for a line without "=" does not help.
            raise ValueError(f"{self.value!r} is not of the form 'package.module:name'") from None
        return point.load()

    def __str__(self) -> str:
        return printable(f"entry point {self.name} = {self.value} of {self.distribution}")


def entry_points_of(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, each once."""
    from importlib import metadata

    try:
        points = metadata.entry_points(group=group)
    except Exception:  # one of them is malformed
        first: dict[str, Distribution] = {}  # the first one on the path hides others of its name
        for one in metadata.distributions():
            first.setdefault(str(one.name).lower().replace("_", "-").replace(".", "-"), one)
        found = [point for one in first.values() for point in _written(one, group)]
    else:
        found = [EntryPoint(point.name, point.value, group, _shown(point.dist)) for point in points]
    return [*dict.fromkeys(found)]


def _written(distribution: Distribution, group: str) -> Iterator[EntryPoint]:
    section = None
    for line in map(str.strip, (distribution.read_text("entry_points.txt") or "").splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
        elif section == group and line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield EntryPoint(name.strip(), value.strip(), group, _shown(distribution))


def _shown(distribution: Distribution | None) -> str:
    return f"{distribution.name} {distribution.version}" if distribution is not None else "no distribution"


def plugins_of(group: str, exclude: Iterable[str], known: Iterable[str], label: str) -> list[tuple[EntryPoint, Any]]:
    """Return the entry points of a group whose names are not known yet, each with the plugin that it names.

    They come in the order of their names: they are found in the order of folders on a disk, which differs by machine.
    """
    left_out = {*([exclude] if isinstance(exclude, str) else exclude), *known}
    points: dict[str, list[EntryPoint]] = {}
    for point in entry_points_of(group):
        if point.name not in left_out:
            points.setdefault(point.name, []).append(point)
    for name, several in points.items():
        if len(several) > 1:
            shown = "; ".join(sorted(map(str, several)))
            raise PluginError(
                f"{label}: {len(several)} entry points have the same name: {shown}; uninstall all but "
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
            f"{label}: {point} fails with {brief(error, 200)}; fix or uninstall it, or leave it out with "
            f"exclude={point.name!r}"
        ) from error
