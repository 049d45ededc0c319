"""What a callable is: its parameters, its code, its name and identity, what is inside it, what calling it returns."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import BuiltinFunctionType, BuiltinMethodType, CodeType, FunctionType, MethodType

from aspecthook._errors import article, printable
from aspecthook._hints import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from .signature import VARARGS, VARKEYWORDS, Style, style_of_code

if TYPE_CHECKING:
    import inspect

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

# The attribute by which a function that stands in for another says whose code it runs, for messages.
CODE = "__aspecthook_code__"

# `unittest.mock` and `inspect.markcoroutinefunction` mark functions whose calls return coroutines.
COROUTINE_MARKS = ("_is_coroutine", "_is_coroutine_mark")


def identity(function: object) -> object:
    """Return a key for a callable; two accesses of one bound method have the same key."""
    if type(function) is FunctionType:
        return id(function)
    if isinstance(function, MethodType):
        return (id(function.__self__), id(function.__func__))
    if isinstance(function, BuiltinMethodType):
        return (id(function.__self__), function.__name__)
    return id(function)


def type_of(value: object) -> type[Any]:
    """Return the type of an object, whatever its `__class__` says."""
    return type(value)


def unwrap(function: object) -> object:
    """Return the function inside a bound method, a partial or a static method; else the object itself."""
    if type(function) is FunctionType:
        return function
    # Any: isinstance cannot tell what such a wrapper takes and returns.
    inner: Any = function
    while isinstance(inner, (partial, MethodType, staticmethod)):
        inner = cast("Any", inner).func if isinstance(inner, partial) else cast("Any", inner).__func__
    return cast("object", inner)


def code_of(function: object) -> CodeType | None:
    """Return the code that a callable runs, as its author wrote it; None if it is not Python code.

    What `contextmanager`, `lru_cache` and other decorators make runs the function that it names by `__wrapped__`.
    """
    if type(function) is FunctionType and not hasattr(function, CODE) and not hasattr(function, "__wrapped__"):
        return function.__code__
    inner = unwrap(function)
    seen = [inner]
    while (wrapped := _wrapped(inner)) is not None and not any(wrapped is one for one in seen):
        inner = wrapped
        seen.append(inner)
    if type(inner) is not FunctionType:
        if CODE in getattr(inner, "__dict__", ()):
            return cast("CodeType | None", getattr(inner, CODE))
        owner: Any = inner if isinstance(inner, type) else type(inner)
        inner = owner.__init__ if isinstance(inner, type) else getattr(owner, "__call__", None)  # noqa: B004
        if type(inner) is not FunctionType:
            return None
    return cast("CodeType | None", getattr(inner, CODE)) if hasattr(inner, CODE) else inner.__code__


def _wrapped(function: object) -> object | None:
    """Return what a decorator says that it has wrapped, unless the wrapper knows the code that it runs."""
    if type(function) is FunctionType:
        # Not by its `__dict__`, which a function has only once somebody has asked for it.
        inner = None if hasattr(function, CODE) else getattr(function, "__wrapped__", None)
    else:
        # By nothing but its `__dict__`: other objects may answer any name.
        space = getattr(function, "__dict__", {})
        inner = None if isinstance(function, type) or CODE in space else space.get("__wrapped__")
    return None if inner is None else unwrap(inner)


def name_of(function: object) -> str:
    """Return the `__name__` of a callable or of the function inside it, or else the name of its type."""
    inner = function if type(function) is FunctionType else unwrap(function)
    name = getattr(inner, "__name__", None)
    name = name if isinstance(name, str) else type(function).__name__
    return name if name.isprintable() else printable(name)


def who_is(kind: str, name: str, function: object) -> str:
    """Return a hook as messages describe it: kind, name, file and line."""
    code = code_of(function)
    return f"{kind} hook {name!r}" + (f" ({printable(code.co_filename)}:{code.co_firstlineno})" if code else "")


# Parameters.


class Parameter(NamedTuple):
    """One parameter of a callable: its name, its kind as in `inspect.Parameter`, and whether it has a default."""

    name: str
    how: Literal["positional only", "positional", "*", "keyword", "**"]
    has_default: bool


def parameters(function: Callable[..., object]) -> list[Parameter] | None:
    """Return the parameters of a callable; None if it has no signature (some builtins)."""
    inner: object = function.__func__ if isinstance(function, MethodType) else function
    # A function made by functools.wraps asks for what the function inside it asks for; only inspect knows that.
    if type(inner) is FunctionType and not hasattr(inner, "__wrapped__") and not hasattr(inner, "__signature__"):
        own = _from_code(inner)
        return own if inner is function or (own[:1] and own[0].how == "*") else own[1:]
    return _from_inspect(function)


def _from_code(function: FunctionType) -> list[Parameter]:
    """Read a Python function's parameters; `inspect.signature` finds the same, thirty times slower."""
    code = function.__code__
    names, count = code.co_varnames, code.co_argcount
    regular = count + code.co_kwonlyargcount
    without_default = count - len(function.__defaults__ or ())
    keyword_defaults = function.__kwdefaults__ or {}
    found = [
        Parameter(
            name, "positional only" if place < code.co_posonlyargcount else "positional", place >= without_default
        )
        for place, name in enumerate(names[:count])
    ]
    if code.co_flags & VARARGS:
        found.append(Parameter(names[regular], "*", has_default=False))
    found += [Parameter(name, "keyword", name in keyword_defaults) for name in names[count:regular]]
    if code.co_flags & VARKEYWORDS:
        found.append(Parameter(names[regular + bool(code.co_flags & VARARGS)], "**", has_default=False))
    return found


def _from_inspect(function: Callable[..., object]) -> list[Parameter] | None:
    import inspect

    signature = signature_of(function)
    if signature is None:
        return None
    how: dict[Any, Any] = {
        inspect.Parameter.POSITIONAL_ONLY: "positional only",
        inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional",
        inspect.Parameter.VAR_POSITIONAL: "*",
        inspect.Parameter.KEYWORD_ONLY: "keyword",
        inspect.Parameter.VAR_KEYWORD: "**",
    }
    return [Parameter(p.name, how[p.kind], p.default is not p.empty) for p in signature.parameters.values()]


def signature_of(function: Callable[..., object]) -> inspect.Signature | None:
    """Return the signature of any callable; None if it has none."""
    import inspect

    module: Any = sys.modules.get(str(getattr(function, "__module__", None)))
    space: dict[str, Any] = getattr(module, "__dict__", {})
    bare = "__builtins__" not in space
    try:
        if sys.version_info >= (3, 14):
            from annotationlib import Format

            # Annotations may name what only a type checker imports; those names must not be looked up.
            return inspect.signature(function, annotation_format=Format.FORWARDREF)
        return inspect.signature(function)
    except (ValueError, TypeError):
        return None
    finally:
        if bare:  # evaluating the defaults of a C function puts it into the module
            space.pop("__builtins__", None)


# Styles: what calling it returns.

# Marks a sync around hook that returns what `proceed()` returns, awaitable or not: those of the kit serve every target.
HANDS_ON = "__aspecthook_hands_on__"


def style_of(function: Callable[..., object]) -> Style:
    """Return whether calling this returns a value, an awaitable, a generator or an async generator."""
    inner = function if type(function) is FunctionType else unwrap(function)
    if type(inner) is not FunctionType:
        return "function" if isinstance(inner, (type, BuiltinFunctionType)) else _style_of_object(inner)
    if hasattr(inner, COROUTINE_MARKS[0]) or hasattr(inner, COROUTINE_MARKS[1]):
        return "coroutine"
    return style_of_code(inner.__code__)


def a_function(style: Style) -> str:
    """Return a style as messages call such a function."""
    word = "plain" if style == "function" else style
    return f"{article(word)} {word} function"


def _style_of_object(value: Any) -> Style:
    import inspect

    if inspect.iscoroutinefunction(value):  # an AsyncMock is marked as one, and so is what wrapt makes
        return "coroutine"
    call: Any = getattr(cast("type[object]", type(value)), "__call__", None)  # noqa: B004  # the function, not whether there is one
    if type(call) is not FunctionType and hasattr(value, "__wrapped__"):
        return style_of(value.__wrapped__)  # a `functools.lru_cache` returns what the function inside it returns
    known = isinstance(call, (FunctionType, MethodType, partial, staticmethod))
    return style_of(cast("Callable[..., object]", call)) if known else "function"


def hands_on(function: Any) -> bool:
    """Whether a sync hook may return the coroutine of `proceed()`: it is marked, or wraps an async function."""
    inner: Any = function.__func__ if isinstance(function, MethodType) else function
    if HANDS_ON in getattr(inner, "__dict__", {}):
        return True
    while "__wrapped__" in (attributes := getattr(function, "__dict__", {})):
        function = attributes["__wrapped__"]
    return callable(function) and style_of(function) == "coroutine"
