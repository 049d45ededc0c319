"""`Args` on wrappers that `functools.wraps` made, as a property: the call becomes the one with that argument."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import assume, example, given, note
from hypothesis import strategies as st

from aspecthook import Args, HookAnswerError, hookable

KEYWORDS = ("e", "f")


@dataclass(frozen=True)
class Shape:
    """A function, and how many of its arguments its wrapper takes by parameters of its own."""

    positional_only: int
    positional: int
    defaults: int
    varargs: bool
    keyword_only: int
    varkw: bool
    own: int

    @property
    def names(self) -> list[str]:
        return [*"abcd"[: self.positional_only + self.positional]]

    def inner(self) -> Callable[..., Any]:
        """Return a function that returns the arguments that it is given."""
        names = self.names
        plain = max(len(names) - self.defaults, 0)
        parts = [name if place < plain else f"{name}='{name}!'" for place, name in enumerate(names)]
        if self.positional_only:
            parts.insert(self.positional_only, "/")
        if self.varargs or self.keyword_only:
            parts.append("*va" if self.varargs else "*")
        parts += [f"{name}='{name}!'" for name in KEYWORDS[: self.keyword_only]]
        if self.varkw:
            parts.append("**vk")
        space: dict[str, Any] = {}
        exec(f"def inner({', '.join(parts)}): return dict(locals())", space)
        made: Callable[..., Any] = space["inner"]
        return made

    def wrapper(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        """Return a wrapper around the function, which passes all that it is given on."""

        def none(*args: Any, **kw: Any) -> Any:
            return inner(*args, **kw)

        def one(first: Any, /, *args: Any, **kw: Any) -> Any:
            return inner(first, *args, **kw)

        def two(first: Any, second: Any, /, *args: Any, **kw: Any) -> Any:
            return inner(first, second, *args, **kw)

        return functools.wraps(inner)((none, one, two)[self.own])


SHAPES = st.builds(
    Shape,
    st.integers(0, 2),
    st.integers(0, 2),
    st.integers(0, 4),
    st.booleans(),
    st.integers(0, 2),
    st.booleans(),
    st.integers(0, 2),
)
CALLS = st.tuples(
    st.lists(st.integers(1, 9), max_size=6).map(tuple),
    st.dictionaries(st.sampled_from(["a", "b", "c", "d", "e", "f", "x"]), st.integers(10, 19), max_size=3),
)
NEW: dict[str, Any] = {
    "va": st.lists(st.integers(20, 29), max_size=3).map(tuple),
    "vk": st.dictionaries(st.sampled_from(["y", "z"]), st.integers(20, 29), max_size=2),
}


@given(SHAPES, CALLS, st.data())
@example(Shape(0, 0, 0, True, 0, False, 1), ((1, 2), {}), None)
@example(Shape(0, 2, 0, True, 0, False, 0), ((), {"a": 10, "b": 11}), None)
def test_args_on_a_wrapper_makes_the_call_with_that_argument(
    shape: Shape, call: tuple[tuple[int, ...], dict[str, int]], data: st.DataObject | None
) -> None:
    args, kwargs = call
    inner = shape.inner()
    wrapper = shape.wrapper(inner)
    signature = inspect.signature(inner)
    note(f"{signature} in {inspect.signature(wrapper, follow_wrapped=False)}")
    try:
        plain = wrapper(*args, **kwargs)
    except TypeError:
        plain = None
    assume(plain is not None and signature.parameters)  # a call that fails by itself is no subject here
    assert plain is not None
    name = "va" if data is None else data.draw(st.sampled_from(list(signature.parameters)))
    same = data is None or data.draw(st.booleans())
    value = plain[name] if same or data is None else data.draw(NEW.get(name, st.integers(20, 29)))
    space: dict[str, Any] = {"Args": Args, "value": value, "seen": []}
    exec(f"def hook({name}): seen.append({name}); return Args({name}=value)", space)
    hookable(wrapper).pre(space["hook"])
    try:
        result = wrapper(*args, **kwargs)
    except HookAnswerError:
        # There is no place for it only where a parameter of the wrapper's own is left without an argument.
        assert name == "va"
        assert len(shape.names) + len(value) < shape.own
        return
    assert space["seen"] == [plain[name]]
    assert result == {**plain, name: value}
