"""Configs: mappings and TOML files that say what is to be built; what is wrong with one is said here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ._asks import Parameter, parameters
from ._errors import ConfigError, HookTypeError, brief, nearest
from ._hook import inside

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# Any: only who registered a factory knows what it takes and makes, and only who wrote a config what its values are.
Factory: TypeAlias = Callable[..., Any]


def load_toml(path: str | PathLike[str]) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        ConfigError: It is no TOML; the message says in which file and where.
        OSError: It cannot be read.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder, "run.toml")
        ...     _ = path.write_text("seed = 7")
        ...     load_toml(path)
        {'seed': 7}
    """
    import tomllib
    from pathlib import Path

    raw = Path(path).read_bytes()
    try:
        return tomllib.loads(raw.decode("utf-8-sig"))  # some editors put a mark first
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{fspath(path)} is no TOML: line {line} is not UTF-8; save it as UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{fspath(path)} is no TOML: {error}; correct it there") from error


def entries_of(document: dict[str, Any], table: str, who: str) -> list[tuple[str, object]]:
    """Give the configs in a table, each with what it is called in messages."""
    found: Any = document
    for part in table.split("."):
        found = cast("dict[str, Any]", found).get(part) if isinstance(found, dict) else None
    if found is None:
        names = [*_tables(document)]
        raise ConfigError(f"{who}: there is no table {table!r}; what there is: {listed(names)}{nearest(table, names)}")
    if isinstance(found, list):
        return [(f"entry {number} of {table!r}", one) for number, one in enumerate(cast("list[object]", found), 1)]
    rows: list[tuple[str, Any]] = [*found.items()] if isinstance(found, dict) else [("", found)]
    odd = [f"'{table}.{key}'" if key else repr(table) for key, row in rows if not isinstance(row, dict)]
    if odd:
        raise ConfigError(f"{who}: {odd[0]} is no table; write [[{table}]], each with its type, or [{table}.TYPE]")
    return [(f"table '{table}.{key}'", {"type": key, **row}) for key, row in rows]


def _tables(table: dict[str, Any], lead: str = "") -> Iterator[str]:
    for key, value in table.items():
        if isinstance(value, (dict, list)):
            yield lead + key
        if isinstance(value, dict):
            yield from _tables(cast("dict[str, Any]", value), f"{lead}{key}.")


def given_by(config: Any, defaults: dict[str, Any], who: str) -> dict[str, Any]:
    """Put a config over its defaults, in a new dict."""
    own = {"type": config} if isinstance(config, str) else config
    if not isinstance(own, Mapping):
        raise ConfigError(f"{who}: {brief(config)} is no config; give a mapping with a 'type', or a name alone")
    given: dict[Any, Any] = {**defaults, **own}
    for key in given:
        if not isinstance(key, str):
            raise ConfigError(f"{who}: the config has the key {brief(key)}; its keys are names of arguments, strings")
    if "type" not in given:
        raise ConfigError(f"{who}: the config has no 'type'; what it has: {listed(given)}; say what to build")
    return given


def callable_by(value: object, what: str, advice: str) -> Factory:
    if callable(value):
        return value
    raise ConfigError(f"{what} is {brief(value)}, which cannot be called; {advice}")


def takes_of(factory: Factory) -> list[Parameter] | None:
    try:
        return parameters(factory)
    except Exception:  # annotations are evaluated since 3.14, and may name what is not there
        return None


def names_taken(takes: list[Parameter] | None) -> list[str]:
    return [one.name for one in takes or () if one.how in ("positional", "keyword")]


def check_given(takes: list[Parameter] | None, given: dict[str, Any], what: str) -> None:
    """Compare arguments to the parameters, if these can be told."""
    names = names_taken(takes)
    for key in given if takes is not None and all(one.how != "**" for one in takes) else ():
        if key not in names:
            raise ConfigError(f"{what} takes no {key!r}; what it takes: {listed(names)}{nearest(key, names)}")
    for name, how, has_default in takes or ():
        if not has_default and (how == "positional only" or name == "type"):
            raise ConfigError(f"{what} needs {name!r}, which no config can give; register a function that gives it")
        if name in names and not has_default and name not in given:
            raise ConfigError(f"{what} needs {name!r}, which the config does not give; add it")


def set_priority(built: Any, priority: object, what: str) -> None:
    try:
        built.priority = priority
    except Exception as error:
        raise ConfigError(
            f"{what} made {brief(built)}, whose attribute 'priority' cannot be set; take 'priority' out of the config, "
            "or have the constructor take it"
        ) from error


def note(error: Exception, note: str) -> None:
    try:
        error.add_note(note)
    except Exception:  # a frozen exception takes none; it is still what went wrong
        pass


def imported(path: str, who: str) -> Factory:
    """Import what a path ``package.module:Class`` names."""
    from importlib import import_module

    module, _, names = path.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *names.split("."))):
        raise ConfigError(f"{who}: the type {path!r} is not registered, and no import path 'package.module:Class'")
    try:
        found: Any = import_module(module)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is None or not f"{module}.".startswith(f"{missing}."):
            note(error, f"{who}: while importing {path!r}")
            raise
        hint = nearest(missing, _beside(missing))
        raise ConfigError(f"{who}: there is no module {missing!r} for the type {path!r}{hint}") from error
    for name in names.split("."):
        try:
            found = getattr(found, name)
        except AttributeError as error:
            hint = nearest(name, dir(found))
            raise ConfigError(f"{who}: {brief(found)} has no {name!r} for the type {path!r}{hint}") from error
    return callable_by(found, f"{who}: the type {path!r}", "give the path of a class or function")


def _beside(missing: str) -> list[str]:
    """Name the modules that could be meant by one that is not there."""
    from pkgutil import iter_modules

    parent, dot, _ = missing.rpartition(".")
    path = getattr(sys.modules.get(parent), "__path__", ()) if parent else None
    return [f"{parent}{dot}{info.name}" for info in iter_modules(path)]


def loaded(point: EntryPoint, who: str) -> Factory:
    try:
        found = point.load()
    except Exception as error:
        raise ConfigError(
            f"{who}: {shown_point(point)} fails with {brief(error, 200)}; mend or uninstall it"
        ) from error
    return callable_by(found, f"{who}: {shown_point(point)}", "mend or uninstall it")


def shown_point(point: EntryPoint) -> str:
    dist = point.dist
    return f"entry point {point.name} = {point.value} of {f'{dist.name} {dist.version}' if dist else 'no distribution'}"


def place_of(target: object) -> str:
    """Say where a callable is defined, as far as that can be told."""
    import inspect

    inner: Any = inside(target)
    name = f"{getattr(inner, '__module__', None)}.{getattr(inner, '__qualname__', brief(inner))}"
    try:
        return f"{name} ({inspect.getsourcefile(inner)}:{inspect.getsourcelines(inner)[1]})"
    except Exception:  # what is made without a file has no place
        return name


def listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "nothing"


def string(value: object, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise HookTypeError(f"{what} {brief(value)}; give a string that is not empty")
    return str.__str__(value)


def strings(value: Any, what: str) -> list[str]:
    several = [value] if isinstance(value, str) or not isinstance(value, Iterable) else [*cast("Any", value)]
    return [string(one, what) for one in several or [value]]
