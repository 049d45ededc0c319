"""Calling one hook: whether it is due, what it is given, and what it may answer."""

from __future__ import annotations

from operator import attrgetter
from types import CoroutineType, GeneratorType

from aspecthook._errors import HookSignatureError
from aspecthook._hints import Any, TypeAlias, cast

from .answers import Args, Return, Values, hook_at, wrong
from .asks import Asks
from .call import Call, Site
from .callables import type_of
from .hook import Hook, Predicate
from .kinds import RULES, Form
from .signature import ABSENT, ITERABLE_COROUTINE, Sought

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

Hooks: TypeAlias = tuple[Hook, ...]


_FORMS: dict[type[Any], Form] = {Args: "Args", Return: "Return"}


def checked(hook: Hook, call: Call, answer: Any) -> Any:
    """Return an answer, if a hook of this kind may give it.

    Raises:
        HookAnswerError: It may not.
    """
    form = _FORMS.get(type_of(answer), "value")
    if answer is not None and form not in RULES[hook.kind].answers:
        raise wrong(call._site, hook.kind, hook.function, answer)
    return answer


def invoke(hook: Hook, call: Call, values: Values, item: object = None, proceed: object = None) -> Any:
    """Call a hook with what it asks for: return its answer, or the generator if it yields."""
    args, kwargs = given_to(hook, hook.asks, call, values, item, proceed)
    return hook.function(*args, **kwargs)


def is_due(hook: Hook, call: Call, values: Values, item: object = None) -> Any:
    """Whether the hook acts in this call: its gate is open and its `when` answers true.

    The answer of an async `when` is returned as it is, to be awaited.
    """
    if hook.gate is not None and not _holds(hook.gate, hook, call, values, item):
        return False
    return hook.when is None or _holds(hook.when, hook, call, values, item)


def _holds(predicate: Predicate, hook: Hook, call: Call, values: Values, item: object) -> Any:
    args, kwargs = given_to(hook, predicate.asks, call, values, item)
    return predicate.holds(*args, **kwargs)


def awaitable(answer: object) -> bool:
    """Whether an object can be awaited; the same answer as `inspect.isawaitable`, faster for common types."""
    kind = type(answer)
    if kind is CoroutineType or kind is bool:
        return kind is not bool
    if isinstance(answer, GeneratorType):
        return bool(answer.gi_code.co_flags & ITERABLE_COROUTINE)
    return hasattr(type(answer), "__await__")


def without(extra: dict[str, object], names: tuple[str, ...]) -> dict[str, object]:
    """Return the keyword arguments that a hook does not ask for by name."""
    return {name: value for name, value in extra.items() if name not in names}


def shown(site: Site, kind: str, function: object, values: Values, name: str) -> object:
    """Return an argument that a wrapper shows, for a hook that cannot do without it.

    Raises:
        HookSignatureError: This call does not have it.
    """
    value = _shown_argument(site, values, name)
    if value is ABSENT:
        raise HookSignatureError(
            f"{hook_at(site, kind, function)} asks for {name!r}, which {site.label} shows as a parameter, but this "
            f"call has no such argument; give the hook's parameter a default"
        )
    return value


def shown_if_there(site: Site, values: Values, name: str) -> dict[str, object]:
    """Return an argument that a wrapper shows as a keyword argument, if this call has it."""
    value = _shown_argument(site, values, name)
    return {} if value is ABSENT else {name: value}


def _shown_argument(site: Site, values: Values, name: str) -> Any:
    parameters = site.shown()
    return ABSENT if parameters is None else parameters.get(name, values)


def given_to(
    hook: Hook, asks: Asks, call: Call, values: Values, item: object = None, proceed: object = None
) -> tuple[list[object], dict[str, object]]:
    """Return the positional and the keyword arguments that a hook asks for."""
    positional: list[object] = []
    keywords: dict[str, object] = {}
    args, kwargs = call._site.signature.split(values)
    words: dict[str, Any] = {
        "call": call,
        "args": args,
        "kwargs": kwargs,
        "result": call.result,
        "exc": call.exc,
        "proceed": proceed,
        "item": item,
        "arguments": call._site.signature.arguments(values),
        "shown arguments": call._site.arguments(values),
    }

    def pass_on(how: str, value: object) -> None:
        if how == "":
            positional.append(value)
        else:
            keywords[how[1:]] = value

    for how, what in asks:
        if isinstance(what, Sought):
            if what.optional:
                keywords.update(shown_if_there(call._site, values, what.name))
            else:
                pass_on(how, shown(call._site, hook.kind, hook.function, values, what.name))
        elif how == "**":
            names, left_out = call._site.signature.names, cast("tuple[int | str, ...]", what)
            keywords.update(without(kwargs, tuple([names[one] if isinstance(one, int) else one for one in left_out])))
        elif how == "*":
            positional.extend(args)
        else:
            pass_on(how, values[what] if isinstance(what, int) else _word(cast("str", what), words))
    return positional, keywords


def _word(what: str, words: dict[str, Any]) -> object:
    """Return what a reserved word stands for, or an attribute of the first argument."""
    if what[0] != ".":
        return words[what]
    return attrgetter(what[1:])(words["args"][0]) if what[1:] else words["args"][0]
