"""What a library is, for law 4 to be held against: by identity what it consists of, by value what it says of itself."""

from __future__ import annotations

import inspect
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import wrapt

_SHELLS = (staticmethod, classmethod)
# Everything of a function that a weaving could reach.
_PARTS = ("__code__", "__defaults__", "__kwdefaults__", "__dict__", "__doc__", "__name__", "__qualname__", "__module__")


class Snapshot:
    """The named packages as they are now, with all that they have imported of themselves.

    `differences` tells what has changed since; `looks` tells which functions do not answer as before when they are
    asked what they are, which law 4 promises of hooked functions too.
    """

    def __init__(self, *packages: str) -> None:
        self.packages = packages
        self.meta_path = list(sys.meta_path)
        self.modules = _modules(packages)
        self.spaces: dict[str, list[tuple[str, Any]]] = {}
        self.functions: dict[int, tuple[str, FunctionType]] = {}
        self.callables: dict[str, Any] = {}
        for name, module in self.modules.items():
            self._take(name, module, packages)
        self.parts = {key: _parts(function) for key, (_, function) in self.functions.items()}
        self.entries = {key: list(function.__dict__.items()) for key, (_, function) in self.functions.items()}
        self.faces = dict(self._faces())

    def _take(self, label: str, owner: Any, packages: tuple[str, ...]) -> None:
        if label in self.spaces:
            return
        self.spaces[label] = list(vars(owner).items())
        for name, value in self.spaces[label]:
            path = f"{label}.{name}"
            if isinstance(value, type):
                if _within(getattr(value, "__module__", ""), packages) and not isinstance(value, wrapt.ObjectProxy):
                    self._take(f"{value.__module__}:{value.__qualname__}@{id(value)}", value, packages)
                continue
            for function in _inside(value):
                self.functions.setdefault(id(function), (path, function))
            if isinstance(owner, ModuleType) and isinstance(value, (FunctionType, BuiltinFunctionType)):
                self.callables[path] = (owner, name)

    def _faces(self) -> Iterator[tuple[str, object]]:
        for path, function in self.functions.values():
            kinds = inspect.iscoroutinefunction(function), inspect.isasyncgenfunction(function)
            yield path, (type(function), _signature(function), inspect.isgeneratorfunction(function), *kinds)
        for path, (owner, name) in self.callables.items():
            held = vars(owner).get(name)
            yield f"{path}, as it is found there", (_signature(held), _pickle(held), getattr(held, "__class__", None))

    def looks(self) -> list[str]:
        """Return which functions answer otherwise than before when asked what they are, hooked or not."""
        now = dict(self._faces())
        return [f"{path}: {told} was {self.faces[path]}" for path, told in now.items() if told != self.faces[path]]

    def differences(self) -> list[str]:
        """Return what is not what it was, by identity; empty: no trace is left."""
        found = list(self._in_spaces())
        for key, (path, function) in self.functions.items():
            for part, before in self.parts[key].items():
                now = getattr(function, part)
                # A text may be another object: from 3.13 on attrs writes the same ones anew into its own `evolve`.
                if now is not before and not (type(now) is type(before) is str and now == before):
                    found.append(f"{path}.{part}: {now!r} was {before!r}")
            found += _changed(f"{path}.__dict__", self.entries[key], list(function.__dict__.items()))
        found += [f"a proxy is left at {name}.{word}" for name, word in proxies()]
        found += self.looks()
        if sys.meta_path != self.meta_path:
            found.append(f"sys.meta_path: {sys.meta_path!r}")
        return found

    def _in_spaces(self) -> Iterator[str]:
        now = Spaces(self.packages).spaces
        for label, before in self.spaces.items():
            yield from _changed(label, before, now.get(label, []))


class Spaces(Snapshot):
    """Only what the modules and classes have, without what it says of itself."""

    def __init__(self, packages: tuple[str, ...]) -> None:
        self.packages = packages
        self.spaces = {}
        self.functions = {}
        self.callables = {}
        for name, module in _modules(packages).items():
            self._take(name, module, packages)


def proxies() -> list[tuple[str, str]]:
    """Return every place of an imported module where a proxy of ours is."""
    found: list[tuple[str, str]] = []
    for name, module in list(sys.modules.items()):
        if issubclass(type(module), ModuleType) and name.partition(".")[0] not in ("aspecthook", "wrapt"):
            space = object.__getattribute__(module, "__dict__")
            found += [
                (name, word)
                for word, held in list(space.items())
                if type(held).__module__ == "aspecthook._foreign.proxy"
            ]
    return found


def _modules(packages: tuple[str, ...]) -> dict[str, ModuleType]:
    return {
        name: module
        for name, module in sorted(sys.modules.items())
        if issubclass(type(module), ModuleType) and _within(name, packages)
    }


def _within(name: object, packages: tuple[str, ...]) -> bool:
    return isinstance(name, str) and any(name == one or name.startswith(f"{one}.") for one in packages)


def _inside(value: Any) -> Iterator[FunctionType]:
    """Return the Python functions that an entry is made of."""
    if isinstance(value, wrapt.ObjectProxy):
        return
    if isinstance(value, FunctionType):
        yield value
    elif isinstance(value, (*_SHELLS, MethodType)):
        yield from _inside(value.__func__)
    elif isinstance(value, property):
        for accessor in (value.fget, value.fset, value.fdel):
            yield from _inside(accessor)
    elif type(value).__name__ == "cached_property" and isinstance(getattr(value, "func", None), FunctionType):
        yield value.func


def _parts(function: FunctionType) -> dict[str, object]:
    return {part: getattr(function, part) for part in _PARTS}


def _signature(value: Any) -> object:
    """Return the signature, or what kind of error comes instead: C functions may have none."""
    module = vars(sys.modules.get(str(getattr(value, "__module__", None)), sys))
    bare = "__builtins__" not in module
    try:
        signature = inspect.signature(value)
    except Exception as error:
        return type(error)
    finally:
        if bare:  # it evaluates the defaults of C functions there, which leaves this behind
            module.pop("__builtins__", None)
    if not isinstance(value, FunctionType):
        return str(signature)  # made anew each time, of its text
    # By identity: what the defaults of a library mean by `==` is its own affair.
    parts = [
        (one.name, one.kind, id(one.default), _annotation(one.annotation)) for one in signature.parameters.values()
    ]
    return (*parts, _annotation(signature.return_annotation))


def _annotation(value: object) -> object:
    """Return what tells annotations apart: from Python 3.14 on, `int | None` is another object in each copy."""
    return id(value) if isinstance(value, (type, str)) else repr(value)


def _pickle(value: Any) -> object:
    """Return the pickle of what is pickled by its name, or what kind of error comes instead."""
    owner = getattr(value, "__self__", None)
    if owner is not None and not isinstance(owner, ModuleType):
        return None  # a method of an object, and pickled with it
    try:
        return pickle.dumps(value)
    except Exception as error:
        return type(error)


# What CPython itself puts into classes and modules as they are used.
_OF_CPYTHON = frozenset(
    ("__annotations__", "__annotations_cache__", "__annotate_func__", "__slotnames__", "__warningregistry__")
)


def _changed(label: str, before: list[tuple[str, Any]], now: list[tuple[str, Any]]) -> list[str]:
    before = [(name, value) for name, value in before if name not in _OF_CPYTHON]
    now = [(name, value) for name, value in now if name not in _OF_CPYTHON]
    old, new = dict(before), dict(now)
    found = [f"{label}.{name} is gone" for name in old if name not in new]
    found += [f"{label}.{name} is new: {new[name]!r}" for name in new if name not in old]
    found += [
        f"{label}.{name}: {new[name]!r} was {value!r}"
        for name, value in old.items()
        if name in new and new[name] is not value and not _counts(value, new[name])
    ]
    if not found and [name for name, _ in before] != [name for name, _ in now]:
        found.append(f"{label}: the same entries in another order")
    return found


def _counts(before: object, now: object) -> bool:
    """Whether a library keeps a number or a text there, and has written another one."""
    return type(before) is type(now) and isinstance(now, (int, float, str))


@contextmanager
def no_trace_left(*packages: str) -> Iterator[Snapshot]:
    """Check at the end of the block that these packages are what they were at its beginning."""
    before = Snapshot(*packages)
    yield before
    differences = before.differences()
    assert not differences, "\n".join(differences)
