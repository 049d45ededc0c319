"""Plugins from entry points and configs; all of a group are made before the first one is registered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from aspecthook._errors import ConfigError, PluginError, brief, described, printable
from aspecthook.weave._aspects import marks_of

from ._config import outline, read_entry, string
from ._import_paths import import_path

if TYPE_CHECKING:
    from ._entry_points import EntryPoint
    from ._registry import Registry

# What a config says about a plugin; all other keys go to its constructor.
_OPTIONS = ("name", "priority", "before", "after", "enabled")


class Found(NamedTuple):
    """A plugin, the options to register it with, and where it was found."""

    plugin: Any
    options: dict[str, Any]
    source: str


def from_entry_points(group: str, exclude: Iterable[str], known: Iterable[str], label: str) -> list[Found]:
    """Load the entry points of a group whose names are not known yet.

    They come in the order of their names: they are found in the order of folders on a disk, which differs by machine.
    """
    from ._entry_points import entry_points_of

    group = string(group, f"{label}: load_entry_points is given the group")
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
    return [_made(points[name][0], label) for name in sorted(points)]


def _made(point: EntryPoint, label: str) -> Found:
    try:
        found = point.load()
        if isinstance(found, type) or (isinstance(found, FunctionType) and not marks_of(found)):
            found = found()
    except Exception as error:
        raise PluginError(
            f"{label}: {point} fails with {brief(error, 200)}; fix or uninstall it, or leave it out with "
            f"exclude={point.name!r}"
        ) from error
    return Found(found, {"name": point.name}, f"{label}: while registering {point}")


def numbered(given: object, who: str) -> list[tuple[str, object]]:
    """Return the entries of a list of configs, each with its name for messages."""
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, Mapping)):
        what = described(cast("Any", given))
        raise ConfigError(f"{who}: {what} is not a list of configs; give a list, with one mapping for each plugin")
    return [(f"entry {number}", one) for number, one in enumerate(cast("Iterable[object]", given), 1)]


def named(rows: list[tuple[str, object]], document: dict[str, Any], table: str) -> list[tuple[str, object]]:
    """Return the entries of a table, each plugin named by its own table where that gives a type: ``[plugins.sale]``."""
    found: Any = document
    for part in table.split("."):
        found = found[part]
    if not isinstance(found, dict):
        return rows
    tables = zip(rows, cast("dict[str, dict[str, Any]]", found).items(), strict=True)
    return [(place, {"name": key, **row} if "type" in row else given) for (place, given), (key, row) in tables]


def from_configs(rows: Iterable[tuple[str, object]], registry: Registry | None, who: str) -> list[Found]:
    """Build the plugins that configs list."""
    return [_configured(config, registry, f"{who}, {place}") for place, config in rows]


def _configured(config: object, registry: Registry | None, who: str) -> Found:
    given = read_entry(config, {}, who)
    options = {key: given.pop(key) for key in _OPTIONS if key in given}
    return Found(_built(given, registry, who), options, f"{who}: while registering {outline(config)}")


def _built(given: dict[str, Any], registry: Registry | None, who: str) -> Any:
    from ._registry import Registry, build

    kind: object = given["type"]
    if registry is None:
        if isinstance(kind, str):
            raise ConfigError(
                f"{who}: the type {brief(kind)} is a name, and there is no registry to look it up in; give registry="
            )
        return build(Registry("plugins"), given, {}, who)
    if isinstance(kind, str) and kind.endswith(":") and kind not in registry:
        more = [key for key in given if key != "type"]
        if more:
            raise ConfigError(
                f"{who}: {brief(kind)} is a module, which takes no {brief(more[0])}; remove that, or write "
                f"'{printable(kind)}Class'"
            )
        return import_path(kind, registry.imports, who)
    return build(registry, given, {}, who)
