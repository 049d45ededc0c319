"""Factories: the classes and functions that a registry calls, and the arguments that they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from aspecthook._core.law.callables import Parameter, parameters, unwrap
from aspecthook._errors import ConfigError, brief, described, nearest, printable

from ._configs import listed

# Any: only whoever registered a factory knows what it takes and makes.
Factory: TypeAlias = Callable[..., Any]


def check_callable(value: object, what: str, advice: str) -> Factory:
    """Return a value as a factory, or raise a `ConfigError` that ends with the advice if it is not callable."""
    if callable(value):
        return value
    raise ConfigError(f"{what} is {described(value)}, which is not callable; {advice}")


def parameters_of(factory: Factory) -> list[Parameter] | None:
    """Return the parameters of a factory, or None if they cannot be read."""
    try:
        return parameters(factory)
    except Exception:  # annotations are evaluated since 3.14, and may name what does not exist
        return None


def names_of(takes: list[Parameter] | None) -> list[str]:
    """Return the names of the parameters that a config can give."""
    return [one.name for one in takes or () if one.how in ("positional", "keyword")]


def check_arguments(takes: list[Parameter] | None, given: dict[str, Any], what: str) -> None:
    """Raise a `ConfigError` if an argument is unknown or missing, as far as the parameters are known."""
    names = names_of(takes)
    for key in given if takes is not None and all(one.how != "**" for one in takes) else ():
        if key not in names:
            raise ConfigError(f"{what} takes no {key!r}; what it takes: {listed(names)}{nearest(key, names)}")
    for name, how, has_default in takes or ():
        if not has_default and (how == "positional only" or name == "type"):
            raise ConfigError(f"{what} needs {name!r}, which a config cannot give; register a function that passes it")
        if name in names and not has_default and name not in given:
            raise ConfigError(f"{what} needs {name!r}, which the config does not give; add it")


def set_priority(built: Any, priority: object, what: str) -> None:
    """Set the priority that a config gives on what was built, or raise a `ConfigError` if it cannot be set."""
    try:
        built.priority = priority
    except Exception as error:
        raise ConfigError(
            f"{what} made {described(built)}, whose attribute 'priority' cannot be set; remove 'priority' from the "
            "config, or have the constructor take it"
        ) from error


def defined_at(target: object) -> str:
    """Return the name of a callable, with its file and line if it has them."""
    import inspect

    inner: Any = unwrap(target)
    name = printable(f"{getattr(inner, '__module__', None)}.{getattr(inner, '__qualname__', brief(inner))}")
    try:
        return f"{name} ({inspect.getsourcefile(inner)}:{inspect.getsourcelines(inner)[1]})"
    except Exception:  # what is made without a file has no place
        return name
