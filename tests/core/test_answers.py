"""Law 1's table, cell by cell: what a hook may answer, and what follows from it.

A cell reads: the hook `it` of this kind answers this; then this happens, and the caller gets that. Besides `it` there
is, behind it, one hook of each other kind which notes what it sees: ``pre(x)``, ``f(x)``, ``post(result)``,
``exception(exc)``, ``always(result or exc)``. T is what the target gives. Every cell holds for the four styles of
target, for plain and for async hooks, and for chains that are written out flat or, being long, as a loop.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import Args, Call, HookAnswerError, Return, hookable, hooks
from aspecthook._core.compile.text import LOOP_FROM

T = "T"
STYLES = ("function", "coroutine", "generator", "async generator")
FORMS = {  # a style; are the hooks async; does the hook stand in a row that is long enough to be written as a loop
    f"{style}{', async hooks' * is_async}{', loop' * is_looped}": (style, is_async, is_looped)
    for style in STYLES
    for is_async in ((False, True) if "async" in style or style == "coroutine" else (False,))
    for is_looped in (False, True)
}


class Boom(Exception):
    """What fails in these tests."""


class Suspend:
    """An awaitable that suspends once, as any that waits for something does."""

    def __await__(self) -> Generator[Any, Any, None]:
        yield self


def finish(running: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end, as an event loop would."""
    try:
        while True:
            running.send(None)
    except StopIteration as stop:
        return stop.value


def show(value: object) -> str:
    return type(value).__name__ if isinstance(value, BaseException) else str(value)


class Case:
    """A target of one style, and what happens in a call of it."""

    def __init__(self, style: str, is_async: bool = False, is_looped: bool = False) -> None:
        self.style, self.is_async, self.neighbours = style, is_async, LOOP_FROM * is_looped
        self.result = None if style == "async generator" else T
        self.log: list[Any] = []
        self.failure: BaseException | None = None
        self.f: Any = hookable(self._target())

    def _target(self) -> Any:
        def ran(x: object) -> object:
            return self.act(f"f({x})", self.failure or T)

        def function(x: object) -> object:
            return ran(x)

        async def coroutine(x: object) -> object:
            await Suspend()
            return ran(x)

        def generator(x: object) -> Generator[str, None, object]:
            result = ran(x)
            yield "item"
            return result

        async def async_generator(x: object) -> Any:
            ran(x)
            await Suspend()
            yield "item"

        by_style = {"coroutine": coroutine, "generator": generator, "async generator": async_generator}
        return by_style.get(self.style, function)

    # Hooks

    def act(self, note: str, answer: object = None) -> object:
        """Note something, and give the answer, or raise it if it is an exception."""
        self.log.append(note)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def add(self, kind: str, answer: object, *types: type[BaseException], name: str = "it") -> None:
        """Add the hook of this kind that answers this (or raises it, if it is an exception)."""
        if kind == "around":
            hooks(self.f).add("around", self._around(answer))
        elif kind == "one yield":
            hooks(self.f).add("around", self._one_yield(answer))
        else:
            row = [self._plain(lambda: None) for _ in range(self.neighbours)]
            for hook in [*row, self._plain(lambda: self.act(name, answer)), *row]:
                hooks(self.f).add(kind, hook, *types)  # type: ignore[arg-type]

    def _plain(self, act: Callable[[], object]) -> Any:
        async def waiting() -> object:
            await Suspend()
            return act()

        return waiting if self.is_async else act

    def _around(self, answer: object) -> Any:
        def plain(proceed: Any) -> object:
            return self.act("it", answer)

        async def waiting(proceed: Any) -> object:
            return self.act("it", answer)

        def stream(proceed: Any) -> Any:
            return self.act("it", answer)
            yield

        async def async_stream(proceed: Any) -> Any:
            self.act("it", answer)
            return
            yield

        streams = {"generator": stream, "async generator": async_stream}
        return streams.get(self.style, waiting if self.style.startswith("coroutine") else plain)

    def _one_yield(self, answer: object) -> Any:
        def hook() -> Any:
            yield
            return self.act("it", answer)

        async def waiting() -> Any:
            yield
            self.act("it", answer)

        return waiting if self.is_async else hook

    def watch(self) -> None:
        """Add, behind what is there, a hook of each kind that notes what it sees."""
        mount = hooks(self.f)
        mount.add("pre", lambda x: self.act(f"pre({x})"), priority=100)
        mount.add("exception", lambda exc: self.act(f"exception({show(exc)})"), BaseException, priority=100)
        mount.add("post", lambda result: self.act(f"post({result})"), priority=100)
        mount.add("always", lambda result, exc: self.act(f"always({self.ended(result, exc)})"), priority=100)

    def ended(self, result: object, exc: BaseException | None) -> str:
        assert None in (result, exc)  # a call that has failed has no result
        return show(exc or result)

    # Calls

    def call(self) -> Any:
        """Call the target to its end: its result; of an async generator, which has none, what `always` hooks see."""
        if self.style == "function":
            return self.f(1)
        if self.style == "coroutine":
            return finish(self.f(1))
        if self.style == "generator":
            return self._drained(self.f(1))
        seen: list[Any] = []
        hooks(self.f).add("always", lambda result: seen.append(result) or None, priority=100)
        finish(self._adrained(self.f(1)))
        return seen[-1]

    def _drained(self, stream: Generator[Any, Any, Any]) -> Any:
        try:
            while True:
                self.log.append(next(stream))
        except StopIteration as stop:
            return stop.value

    async def _adrained(self, stream: Any) -> None:
        async for item in stream:
            self.log.append(item)

    def story(self, expected: str) -> list[str]:
        """Say what the log must be: only generators have items, and async generators no result."""
        words = [word for word in expected.split() if word != "item" or "generator" in self.style]
        return [word.replace("T", str(self.result)) for word in words]


@pytest.fixture(params=FORMS)
def case(request: pytest.FixtureRequest) -> Case:
    return Case(*FORMS[request.param])


# The table: what `it` answers, what happens, what the caller gets (an exception: it is raised).
TABLE: dict[str, list[tuple[object, str, object]]] = {
    "pre": [
        (None, "it pre(1) f(1) item post(T) always(T)", T),
        (Args(x=2), "it pre(2) f(2) item post(T) always(T)", T),
        (Return("v"), "it post(v) always(v)", "v"),
        (Return(None), "it post(None) always(None)", None),
        ("v", "it exception(HookAnswerError) always(HookAnswerError)", HookAnswerError("write Args(x=...)")),
        (Args(y=2), "it exception(HookAnswerError) always(HookAnswerError)", HookAnswerError("takes x")),
        (Boom(), "it exception(Boom) always(Boom)", Boom()),
    ],
    "around": [
        (None, "pre(1) it post(None) always(None)", None),
        (Args(x=2), "pre(1) it exception(HookAnswerError) always(HookAnswerError)", HookAnswerError("the result")),
        (Return("v"), "pre(1) it post(v) always(v)", "v"),
        (Return(None), "pre(1) it post(None) always(None)", None),
        ("v", "pre(1) it post(v) always(v)", "v"),
        (Boom(), "pre(1) it exception(Boom) always(Boom)", Boom()),
    ],
    "one yield": [
        (None, "pre(1) f(1) item it post(T) always(T)", T),
        (Args(x=2), "pre(1) f(1) item it exception(HookAnswerError) always(HookAnswerError)", HookAnswerError()),
        (Return("v"), "pre(1) f(1) item it post(v) always(v)", "v"),
        (Return(None), "pre(1) f(1) item it post(None) always(None)", None),
        ("v", "pre(1) f(1) item it post(v) always(v)", "v"),
        (Boom(), "pre(1) f(1) item it exception(Boom) always(Boom)", Boom()),
    ],
    "post": [
        (None, "pre(1) f(1) item it post(T) always(T)", T),
        (Args(x=2), "pre(1) f(1) item it always(HookAnswerError)", HookAnswerError("the new result")),
        (Return("v"), "pre(1) f(1) item it post(v) always(v)", "v"),
        (Return(None), "pre(1) f(1) item it post(None) always(None)", None),
        ("v", "pre(1) f(1) item it post(v) always(v)", "v"),
        (Boom(), "pre(1) f(1) item it always(Boom)", Boom()),
    ],
    "always": [
        (None, "pre(1) f(1) item post(T) it always(T)", T),
        (Args(x=2), "pre(1) f(1) item post(T) it always(HookAnswerError)", HookAnswerError("may answer None")),
        (Return("v"), "pre(1) f(1) item post(T) it always(HookAnswerError)", HookAnswerError("may answer None")),
        ("v", "pre(1) f(1) item post(T) it always(T)", T),
        (Boom(), "pre(1) f(1) item post(T) it always(Boom)", Boom()),
    ],
    # Here, the target raises KeyError.
    "exception": [
        (None, "pre(1) f(1) it exception(KeyError) always(KeyError)", KeyError()),
        (Args(x=2), "pre(1) f(1) it exception(HookAnswerError) always(HookAnswerError)", HookAnswerError("Return(")),
        (Return("v"), "pre(1) f(1) it always(v)", "v"),
        (Return(None), "pre(1) f(1) it always(None)", None),
        ("v", "pre(1) f(1) it exception(HookAnswerError) always(HookAnswerError)", HookAnswerError("write Return(")),
        (Boom(), "pre(1) f(1) it exception(Boom) always(Boom)", Boom()),
    ],
}
CELLS = {f"{kind}: {show(row[0])}": (kind, *row) for kind, rows in TABLE.items() for row in rows}


def is_possible(form: str, cell: str) -> bool:
    """Say whether there is such a hook: what an async generator returns is never a value."""
    (style, is_async, _), (kind, answer, *_) = FORMS[form], CELLS[cell]
    is_silent = (kind == "one yield" and is_async) or (kind in ("around", "one yield") and style == "async generator")
    return not is_silent or answer is None or isinstance(answer, Boom)


@pytest.mark.parametrize(("form", "cell"), [(f, c) for f in FORMS for c in CELLS if is_possible(f, c)])
def test_the_table(form: str, cell: str) -> None:
    case, (kind, answer, story, outcome) = Case(*FORMS[form]), CELLS[cell]
    case.failure = KeyError() if kind == "exception" else None
    case.add(kind, answer)
    case.watch()
    if isinstance(outcome, BaseException):
        with pytest.raises(type(outcome)) as caught:
            case.call()
        assert str(outcome) in str(caught.value)
        if not isinstance(outcome, HookAnswerError):
            assert caught.value in (answer, case.failure)  # the same object, not a copy
    else:
        assert case.call() == (case.result if outcome is T else outcome)
    assert case.log == case.story(story)


def test_an_exception_hook_handles_every_type_that_it_names_and_no_other() -> None:
    @hookable
    def fail(error: Exception) -> str:
        raise error

    fail.exception(KeyError, ValueError)(lambda: Return("handled"))
    assert [fail(KeyError()), fail(ValueError())] == ["handled", "handled"]
    with pytest.raises(TypeError):
        fail(TypeError())


def test_a_post_hook_sees_in_the_call_the_result_as_earlier_post_hooks_left_it() -> None:
    seen: list[object] = []

    @hookable
    def double(n: int) -> int:
        return 2 * n

    double.post(lambda call: seen.append(call.result), name="first")
    double.post(lambda result: result + 1, name="more")
    double.post(lambda call: seen.append(call.result), name="last")
    assert double(2) == 5
    assert seen == [4, 5]


# What the table says of more than one hook


def test_the_rest_of_the_exception_hooks_see_the_new_exception_and_may_handle_it(case: Case) -> None:
    case.failure = KeyError()
    case.add("exception", new := Boom(), KeyError, name="first")
    case.add("exception", None, KeyError, name="for the old one")
    case.add("exception", Return("v"), Boom, name="for the new one")
    case.add("exception", None, Boom, name="too late")
    seen: list[object] = []
    hooks(case.f).add("always", lambda exc, result, call: seen.extend([exc, result, call.exc, call.result]))
    assert case.call() == "v"
    assert case.log == ["f(1)", "first", "for the new one"]
    assert seen == [None, "v", None, "v"]  # it is over
    assert new.__context__ is case.failure


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", ["exception", "always"])
@pytest.mark.parametrize("count", [1, 2, LOOP_FROM + 1])
def test_each_hook_runs_though_all_before_it_have_raised(style: str, kind: str, count: int) -> None:
    case, booms = Case(style), [Boom(number) for number in range(count)]
    case.failure = KeyError()
    for boom in booms:
        case.add(kind, boom, name=show(boom.args))
    seen: list[object] = []
    hooks(case.f).add("always", lambda exc, result: seen.extend([exc, result]))
    with pytest.raises(Boom) as caught:
        case.call()
    assert case.log == ["f(1)", *[show(boom.args) for boom in booms]]
    assert caught.value is booms[-1]
    assert [boom.__context__ for boom in booms] == [case.failure, *booms[:-1]]
    assert seen == [booms[-1], None]


# Around hooks


def test_the_first_around_hook_is_the_outermost_and_proceed_runs_what_is_inside_it(case: Case) -> None:
    def outer(proceed: Any, x: int) -> Any:
        case.log.append(f"outer({x})")
        return proceed(x=2)

    def inner(proceed: Any, x: int) -> Any:
        case.log.append(f"inner({x})")
        return proceed()

    async def async_outer(proceed: Any, x: int) -> Any:
        return await outer(proceed, x)

    async def async_inner(proceed: Any, x: int) -> Any:
        return await inner(proceed, x)

    # A sync hook that asks for `proceed` is refused on an async function.
    for hook in (async_outer, async_inner) if case.style == "coroutine" else (outer, inner):
        hooks(case.f).add("around", hook)
    case.watch()
    case.call()
    assert case.log == case.story("pre(1) outer(1) inner(2) f(2) item post(T) always(T)")


@pytest.mark.parametrize("answer", [None, "v"])
def test_a_one_yield_hook_may_swallow_an_exception_if_it_returns_a_value(case: Case, answer: object) -> None:
    def swallow() -> Any:
        try:
            yield
        except Boom:
            case.log.append("swallowed")
        return answer

    case.failure = Boom()
    hooks(case.f).add("around", swallow)
    if answer is None:
        with pytest.raises(Boom) as caught:
            case.call()
        assert caught.value is case.failure
    else:
        assert case.call() == (None if case.result is None else answer)
    assert case.log == ["f(1)", "swallowed"]


# Items


@pytest.mark.parametrize("style", ["generator", "async generator"])
@pytest.mark.parametrize(("answer", "error"), [(Args(x=2), HookAnswerError), (Boom(), Boom)])
def test_an_item_hook_that_raises_or_answers_args_is_as_if_the_target_had_raised(
    style: str, answer: object, error: type[Exception]
) -> None:
    case = Case(style)
    case.add("item", answer)
    case.watch()
    with pytest.raises(error):
        case.call()
    assert case.log == ["pre(1)", "f(1)", "it", f"exception({error.__name__})", f"always({error.__name__})"]


@pytest.mark.parametrize("style", ["coroutine", "async generator"])
def test_an_awaitable_that_a_sync_hook_answers_is_awaited_and_what_it_gives_is_the_answer(style: str) -> None:
    async def later(answer: object) -> object:
        await Suspend()
        return answer

    case = Case(style)
    case.watch()
    hooks(case.f).add("pre", lambda: later(Args(x=2)))
    hooks(case.f).add("post", lambda: later("v"))
    assert case.call() == "v"
    assert case.log == case.story("pre(2) f(2) item post(v) always(v)")


@given(st.sampled_from(STYLES[:2]), st.lists(st.booleans(), min_size=1, max_size=LOOP_FROM + 2))
def test_behind_a_failed_always_hook_a_call_has_its_exception_and_no_result(style: str, failing: list[bool]) -> None:
    held: list[Call] = []
    seen: list[object] = []
    case = Case(style, is_async=False, is_looped=False)

    def note(number: int) -> Callable[[Call], None]:
        def hook(call: Call) -> None:
            held.append(call)
            seen.append((call.result, call.exc and str(call.exc)))
            if failing[number]:
                raise Boom(number)

        return hook

    state: tuple[object, object] = (T, None)
    expected = []
    for number, fails in enumerate(failing):
        hooks(case.f).add("always", note(number))
        expected.append(state)
        state = (None, str(number)) if fails else state
    with contextlib.suppress(Boom):
        case.call()
    assert seen == expected
    assert {call.result for call in held} == {state[0]}
    assert {call.exc for call in held} == {None}


Changed = Args  # hooks that say `Changed` do not have the name `Args` in their code

REPLACING: dict[str, tuple[Callable[..., object], Callable[..., object], object]] = {
    "what it asks for": (lambda a: Args(a=10), lambda a: Changed(a=10), (10, 2, (), 3, {})),
    "one of two that it asks for": (lambda b, k: Args(k=b), lambda b, k: Changed(k=b), (1, 2, (), 2, {})),
    "both that it asks for": (lambda b, k: Args(k=b, b=k), lambda b, k: Changed(k=b, b=k), (1, 3, (), 2, {})),
    "what it does not ask for": (lambda a: Args(b=a), lambda a: Changed(b=a), (1, 1, (), 3, {})),
    "one that it asks for and another": (lambda a: Args(a=5, k=6), lambda a: Changed(a=5, k=6), (5, 2, (), 6, {})),
    "*args": (lambda rest: Args(rest=[7]), lambda rest: Changed(rest=[7]), (1, 2, (7,), 3, {})),
    "what is in **kwargs": (lambda a: Args(z=a), lambda a: Changed(z=a), (1, 2, (), 3, {"z": 1})),
    "nothing": (lambda a: Args(), lambda a: Changed(), (1, 2, (), 3, {})),
}


@pytest.mark.parametrize(("named", "unnamed", "expected"), REPLACING.values(), ids=REPLACING)
def test_a_pre_hook_replaces_arguments_whether_or_not_its_code_has_the_name_args(
    named: Callable[..., object], unnamed: Callable[..., object], expected: object
) -> None:
    for hook in (named, unnamed):

        @hookable
        def f(a: int, /, b: int, *rest: int, k: int = 3, **extra: int) -> object:
            return a, b, rest, k, extra

        seen: list[object] = []
        f.pre(hook)
        f.pre(lambda call, seen=seen: seen.append(dict(call.arguments)))
        a, b, rest, k, extra = f(1, 2, y=0)
        assert seen == [{"a": a, "b": b, "k": k, "rest": rest, "extra": extra}]
        assert extra.pop("y") == 0 and (a, b, rest, k, extra) == expected


@pytest.mark.parametrize("hook", [lambda a: Args(a=5, aa=6), lambda a: Changed(a=5, aa=6), lambda a: Args(aa=6)])
def test_arguments_are_replaced_all_or_none(hook: Callable[..., object]) -> None:
    @hookable
    def f(a: int, b: int = 2) -> object:
        return a, b

    seen: list[object] = []
    f.pre(hook)
    f.always(lambda a, b: seen.append((a, b)))
    with pytest.raises(HookAnswerError, match=r"replaces the argument 'aa', but .* takes a, b; did you mean 'a'\?"):
        f(1)
    assert seen == [(1, 2)]


def test_answers_are_equal_to_their_like() -> None:
    assert Args(qty=1) == Args(qty=1) != Args(qty=2)
    assert Return(1) == Return(1) != Return(2)
    assert Return(1) != 1 and Return(Args(qty=1)) != Args(qty=1)
    assert (repr(Args(qty=1)), repr(Return("tea"))) == ("Args(qty=1)", "Return('tea')")


# One-yield hooks and the exceptions that end generators


@pytest.mark.parametrize(
    ("style", "error"),
    [
        ("function", StopIteration("end")),
        ("function", StopAsyncIteration("end")),
        ("coroutine", StopAsyncIteration("end")),
    ],
)
@pytest.mark.parametrize("hook_is_async", [False, True], ids=["sync hook", "async hook"])
def test_an_exception_that_ends_a_generator_passes_a_one_yield_hook_as_it_is(
    style: str, error: Exception, hook_is_async: bool
) -> None:
    # Python makes a RuntimeError of what leaves the hook at its yield (PEP 479).
    if hook_is_async and style == "function":
        pytest.skip("refused")
    case = Case(style, hook_is_async)
    case.failure = error

    def hook() -> Any:
        yield

    async def async_hook() -> Any:
        yield

    hooks(case.f).add("around", async_hook if hook_is_async else hook)
    with pytest.raises(type(error)) as caught:
        case.call()
    assert caught.value is error
