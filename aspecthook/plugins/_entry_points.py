"""Entry points: what installed distributions offer by name, malformed ones included.

Since Python 3.15 a single malformed entry point, in any group of any distribution, keeps `importlib.metadata` from
returning the others. Here each is read as it is written, and one that is malformed fails when it is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from aspecthook._errors import printable

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
