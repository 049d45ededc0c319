"""Configs: mappings and TOML files that say what is to be built; what is wrong with one is said here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from aspecthook._core.law.callables import Parameter, parameters, unwrap
from aspecthook._errors import ConfigError, HookTypeError, brief, described, nearest, printable

if TYPE_CHECKING:
    from ._entry_points import EntryPoint

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

    raw = read_config(path)
    try:
        document = tomllib.loads(raw.decode("utf-8-sig"))  # some editors put a mark first
        check_depth(document)
        return document
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{shown_path(path)} is no TOML: line {line} is not UTF-8; save it as UTF-8") from error
    except RecursionError:  # its traceback has a thousand lines of the parser
        raise ConfigError(f"{shown_path(path)} is no TOML: its values are nested too deeply; correct it") from None
    except ValueError as error:
        raise ConfigError(f"{shown_path(path)} is no TOML: {printable(str(error))}; correct it there") from error


# What builds from a document, or writes it down again, goes through it by recursion.
_DEEPEST = 100


def check_depth(document: object) -> None:
    """Refuse a document that is nested deeper than anybody writes by hand.

    Raises:
        RecursionError: It is.
    """
    # Any: whatever TOML and JSON have.
    level: list[Any] = [document]
    for _ in range(_DEEPEST):
        level = [inner for one in level for inner in _values_of(one)]
        if not level:
            return
    raise RecursionError


# Any: likewise.
def _values_of(value: Any) -> Iterable[Any]:
    given: Any = value
    return given.values() if isinstance(value, dict) else given if isinstance(value, list) else ()


def shown_path(path: str | PathLike[str]) -> str:
    """Return a path as messages show it."""
    return printable(fspath(path))


def read_config(path: str | PathLike[str]) -> bytes:
    """Read the file of a config.

    Raises:
        ConfigError: No file can have such a path.
        OSError: It cannot be read.
    """
    from pathlib import Path

    try:
        return Path(path).read_bytes()
    except ValueError as error:  # a NUL in it, or a lone surrogate
        raise ConfigError(f"{brief(path)} is no path of a file: {error}; correct it") from None


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
        raise ConfigError(f"{who}: {described(config)} is no config; give a mapping with a 'type', or a name alone")
    given: dict[Any, Any] = {**defaults, **own}
    for key in given:
        if not isinstance(key, str):
            raise ConfigError(f"{who}: the config has the key {brief(key)}; its keys are names of arguments, strings")
    if "type" not in given:
        raise ConfigError(f"{who}: the config has no 'type'; what it has: {listed(given)}; say what to build")
    return given


def outline(config: object) -> str:
    """Show a config in a message: its type and its keys. What it gives for them may be a secret, or large."""
    if not isinstance(config, Mapping):
        return brief(config) if isinstance(config, str) else described(config)
    items = [*cast("Mapping[object, object]", config).items()]
    rows = [
        f"{brief(key, 40)}: {brief(value) if key == 'type' and isinstance(value, str) else _kind(value)}"
        for key, value in items[:_MOST_KEYS]
    ]
    return f"{{{', '.join([*rows, '...'] if len(items) > _MOST_KEYS else rows)}}}"


_MOST_KEYS = 10


def _kind(value: object) -> str:
    return described(value).partition(" of ")[0]


def callable_by(value: object, what: str, advice: str) -> Factory:
    if callable(value):
        return value
    raise ConfigError(f"{what} is {described(value)}, which cannot be called; {advice}")


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
            f"{what} made {described(built)}, whose attribute 'priority' cannot be set; take 'priority' out of the "
            "config, "
            "or have the constructor take it"
        ) from error


def note(error: Exception, note: str) -> None:
    try:
        error.add_note(note)
    except Exception:  # a frozen exception takes none; it is still what went wrong
        pass


# What a registry may import: everything, nothing, or what is in some packages.
Imports: TypeAlias = bool | tuple[str, ...]


def imports_of(value: object, who: str) -> Imports:
    """Read what somebody lets a registry import."""
    if isinstance(value, bool):
        return value
    return tuple([name.removesuffix(".") for name in strings(value, f"{who}: imports has the package")])


def _is_within(module: object, packages: tuple[str, ...]) -> bool:
    return isinstance(module, str) and any(f"{module}.".startswith(f"{name}.") for name in packages)


# Any: a path may name any object.
def imported(path: str, imports: Imports, who: str) -> Any:
    """Import what a path ``package.module:Class`` names, or the module that ``package.module:`` names.

    Where only some packages may be imported, what is named must be defined in one of them too: every module has
    attributes that it has only imported, such as ``os``.
    """
    from importlib import import_module

    module, _, names = path.partition(":")
    parts = names.split(".") if names else []
    if not all(part.isidentifier() for part in (*module.split("."), *parts)):
        raise ConfigError(f"{who}: the type {brief(path)} is not registered, and no import path 'package.module:Class'")
    _check_allowed(module, path, imports, who)
    try:
        found: Any = import_module(module)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is None or not f"{module}.".startswith(f"{missing}."):
            note(error, f"{who}: while importing {brief(path)}")
            raise
        hint = nearest(missing, _beside(missing))
        raise ConfigError(f"{who}: there is no module {missing!r} for the type {brief(path)}{hint}") from error
    for name in parts:
        try:
            found = getattr(found, name)
        except AttributeError as error:
            hint = nearest(name, dir(found))
            raise ConfigError(f"{who}: {brief(found)} has no {name!r} for the type {brief(path)}{hint}") from error
    if parts:
        _check_allowed(getattr(found, "__module__", None), path, imports, who)
    return found


def _check_allowed(module: object, path: str, imports: Imports, who: str) -> None:
    if imports is False:
        raise ConfigError(
            f"{who}: the type {brief(path)} is an import path, and what is not registered is not imported; register "
            "it, or allow it: Registry(..., imports=('package',)), or imports=True if its configs are trusted as code"
        )
    if imports is not True and not _is_within(module, imports):
        raise ConfigError(
            f"{who}: the type {brief(path)} is of {brief(module)}, and only what is defined in {listed(imports)} "
            "may be "
            "imported; register it, or add its package to imports"
        )


def _beside(missing: str) -> list[str]:
    """Name the modules that could be meant by one that is not there."""
    from pkgutil import iter_modules

    parent, dot, _ = missing.rpartition(".")
    path = getattr(sys.modules.get(parent), "__path__", ()) if parent else None
    there = [f"{parent}{dot}{info.name}" for info in iter_modules(path)]
    # Some have no file of their own, as `sys` and `collections.abc`.
    return [*there, *[name for name in tuple(sys.modules) if name.rpartition(".")[0] == parent]]


def loaded(point: EntryPoint, who: str) -> Factory:
    try:
        found = point.load()
    except Exception as error:
        raise ConfigError(f"{who}: {point} fails with {brief(error, 200)}; mend or uninstall it") from error
    return callable_by(found, f"{who}: {point}", "mend or uninstall it")


def place_of(target: object) -> str:
    """Say where a callable is defined, as far as that can be told."""
    import inspect

    inner: Any = unwrap(target)
    name = printable(f"{getattr(inner, '__module__', None)}.{getattr(inner, '__qualname__', brief(inner))}")
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
