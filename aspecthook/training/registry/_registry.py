"""Registries: they give names to classes and functions, so that configs (mappings, TOML files) can refer to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar, final, overload

from aspecthook._core.law.callables import Parameter, parameters
from aspecthook._core.law.options import priority_of
from aspecthook._errors import ConfigError, HookLookupError, HookTypeError, add_note, brief, described, nearest

from ._configs import import_path, listed, outline, read_entry

# Any: a factory may take and return values of any type.
Factory: TypeAlias = Callable[..., Any]
Registered = TypeVar("Registered", bound=Factory)


@final
class Registry(dict[str, Factory]):
    """A dict of classes and functions by the names that configs use, in the order of registration.

    Args:
        name: The name of the registry, for messages.
        imports: Whether a config may also name any class or function by an import path, ``"package.module:Class"``.
            Such a config can run any code: trust it only as you would trust a script.

    Example:
        >>> MINE = Registry("hooks")
        >>> @MINE.register
        ... class Ema:
        ...     def __init__(self, momentum=0.1):
        ...         self.momentum = momentum
        >>> ema = MINE.build_from_config({"type": "Ema", "momentum": 0.2, "priority": "LOW"})
        >>> ema.momentum, ema.priority, MINE
        (0.2, 'LOW', <Registry 'hooks': 'Ema'>)
    """

    def __init__(self, name: str, *, imports: bool = False) -> None:
        super().__init__()
        self.name: str = name
        self._who = f"registry {name!r}"
        self.imports: bool = imports

    @overload
    def register(self, target: Registered, /, *, name: str | Iterable[str] | None = ...) -> Registered: ...
    @overload
    def register(self, /, *, name: str | Iterable[str] | None = ...) -> Callable[[Registered], Registered]: ...
    def register(self, target: Any = None, /, *, name: Any = None) -> Any:
        """Register a class or function, as a decorator or by a call, and return it unchanged.

        Args:
            target: The class or function; leave it out to use the method as a decorator with options.
            name: Its name in the registry, or several names; by default its own name.

        Raises:
            HookTypeError: The target is not callable, or it has no name of its own and you gave none.
            ConfigError: Another object already has one of the names. Then none of them is registered.

        Example:
            >>> MINE = Registry("hooks")
            >>> @MINE.register(name=("early_stop", "EarlyStopping"))
            ... class Stop: ...
            >>> MINE.register(dict)
            <class 'dict'>
            >>> list(MINE)
            ['early_stop', 'EarlyStopping', 'dict']
        """

        def add(target: Any) -> Any:
            if not callable(target):
                hint = f"; to give a name, write name={brief(target)}" if isinstance(target, str) else ""
                raise HookTypeError(
                    f"{self._who}: {brief(target)} is not callable; register a class or a function{hint}"
                )
            own = getattr(target, "__name__", "")
            if name is None and not own.isidentifier():  # a lambda is called "<lambda>"
                raise HookTypeError(f"{self._who}: {brief(target)} has no name of its own; give one by name=")
            names = [own] if name is None else [name] if isinstance(name, str) else [*name]
            for one in names:
                holder = self.get(one, target)
                if holder != target:
                    raise ConfigError(
                        f"{self._who}: {brief(target)} cannot have the name {one!r}: {brief(holder)} has it; give "
                        "another by name=, or replace that one, as in a dict: registry[name] = ..."
                    )
            self.update(dict.fromkeys(names, target))
            return target

        return add if target is None else add(target)

    def build_from_config(self, config: Mapping[str, Any] | str, /, **defaults: Any) -> Any:
        """Build the object that a config describes.

        Args:
            config: A mapping, or a string that is its type alone. Its ``"type"`` is a registered name, a callable or,
                if ``imports`` allows it, an import path ``"package.module:Class"``; its other keys are keyword
                arguments. A ``"priority"`` that the constructor does not take is set as an attribute of the object.
            **defaults: Arguments for keys that the config does not have.

        Raises:
            ConfigError: The type or an argument is missing, unknown or unusable.
            Exception: The constructor failed. Its exception gets a note that shows the type and the keys of the config.
            HookTypeError: The priority is neither an int nor a string.
            HookOptionError: The priority is out of range, or no priority has that name.

        Example:
            >>> Registry("numbers", imports=True).build_from_config(
            ...     {"type": "fractions:Fraction", "numerator": 1}, denominator=3
            ... )
            Fraction(1, 3)
        """
        given = read_entry(config, defaults, self._who)
        kind = given.pop("type")
        what = f"{self._who}: the type {brief(kind)}"
        factory = self._factory(kind, what)
        takes = _parameters_of(factory)
        later: dict[str, Any] = {}
        if "priority" in given and "priority" not in _names_of(takes):
            later["priority"] = given.pop("priority")
            priority_of(later["priority"], what)
        check_arguments(takes, given, what)
        try:
            built = factory(**given)
            for name, value in later.items():
                setattr(built, name, value)
        except Exception as error:
            add_note(error, f"{self._who}: while building {outline(config)}")
            raise
        return built

    def _factory(self, kind: object, what: str) -> Factory:
        if not isinstance(kind, str):
            found, advice = kind, "give a registered name, a class or function, or an import path"
        elif kind in self:
            return self[kind]
        elif ":" not in kind:
            raise ConfigError(self._unknown(kind))
        elif not self.imports:
            raise ConfigError(
                f"{what} is an import path, not registered, and this registry imports nothing; register it, or allow "
                "it: Registry(..., imports=True), if you trust its configs as code"
            )
        else:
            found, advice = import_path(kind, self._who), "give the path of a class or function"
        if not callable(found):
            raise ConfigError(f"{self._who}: the type is {described(found)}, which is not callable; {advice}")
        return found

    def _unknown(self, name: str) -> str:
        # If there is a near name, a list of all names would only hide it.
        hint = nearest(name, list(self)) or f"; registered are: {listed(self)}"
        return f"{self._who}: {brief(name)} is not registered{hint}"

    def __missing__(self, name: str) -> Factory:
        raise HookLookupError(self._unknown(name))

    def __repr__(self) -> str:
        return f"<Registry {self.name!r}: {listed(self)}>"


def _parameters_of(factory: Factory) -> list[Parameter] | None:
    try:
        return parameters(factory)
    except Exception:  # annotations are evaluated since 3.14, and may contain unknown names
        return None


def _names_of(takes: list[Parameter] | None) -> list[str]:
    """Return the names of the parameters that a config can give."""
    return [one.name for one in takes or () if one.how in ("positional", "keyword")]


def check_arguments(takes: list[Parameter] | None, given: dict[str, Any], what: str) -> None:
    """Raise a `ConfigError` if an argument is unknown or missing, as far as the parameters are known."""
    names = _names_of(takes)
    if takes is not None and all(one.how != "**" for one in takes):
        check_keys(names, given, what)
    for name, _, has_default in takes or ():
        if name in names and not has_default and name not in given:
            raise ConfigError(f"{what} needs {name!r}, which the config does not give; add it")


def check_keys(known: Iterable[str], given: Iterable[str], what: str) -> None:
    """Raise a `ConfigError` if a key of a config is unknown."""
    names = [*known]
    for key in given:
        if key not in names:
            raise ConfigError(f"{what} takes no {key!r}; what it takes: {listed(names)}{nearest(key, names)}")
