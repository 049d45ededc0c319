"""Mount points of one object: a function of its own, put where the object keeps it; the laws are those of all."""

from __future__ import annotations

import gc
import traceback
import weakref
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aspecthook import Args, HookAnswerError, HookSignatureError, Return, hookable, hooks
from aspecthook._core.law.kinds import Kind
from aspecthook._core.law.signature import Emission
from aspecthook.torch._own import OwnMountPoint


class Tool:
    """Something that can carry hooks of its own."""

    name = "saw"

    def use(self, wood: Any, *more: Any, depth: int = 1, **rest: Any) -> Any:
        return (wood, more, depth, rest)


class InDict:
    """A slot in the `__dict__` of an object."""

    def __init__(self, tool: Tool) -> None:
        self.tool = weakref.ref(tool)
        self.function: FunctionType | None = None
        self.forgotten = 0

    def put(self, function: FunctionType) -> None:
        tool = self.tool()
        if tool is not None:
            self.function = function
            vars(tool)["use"] = MethodType(function, tool)

    def leave(self) -> None:
        tool = self.tool()
        if tool is not None and not self.is_displaced():
            del vars(tool)["use"]
        self.function = None

    def forget(self) -> None:
        self.forgotten += 1

    def is_displaced(self) -> bool:
        now: Any = vars(self.tool() or Tool()).get("use")
        return self.function is not None and getattr(now, "__func__", None) is not self.function


def mounted(tool: Tool, **options: Any) -> OwnMountPoint:
    """Return the mount point of one tool."""
    target: Any = Tool.use
    provides = {"tool": "", "name": "name"}
    return OwnMountPoint(tool, target, "a tool", InDict(tool), target=lambda: target, provides=provides, **options)


def test_hooks_act_on_the_one_object_and_go_without_a_trace() -> None:
    saw, other, code = Tool(), Tool(), Tool.use.__code__
    mount = mounted(saw)
    hook = mount.add("pre", lambda depth: Args(depth=depth + 1))
    assert saw.use("oak", 1, x=2) == ("oak", (1,), 2, {"x": 2}) and other.use("oak") == ("oak", (), 1, {})
    assert hooks(saw.use) is mount and Tool.use.__code__ is code
    hook.remove()
    assert vars(saw) == {} and saw.use("oak") == ("oak", (), 1, {})


def test_hooks_may_ask_for_what_the_mount_point_provides() -> None:
    saw = Tool()
    with mounted(saw).add("post", lambda result, name, tool: (name, tool is saw, result)):
        assert saw.use("oak") == ("saw", True, ("oak", (), 1, {}))
    assert vars(saw) == {}


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["pre", "post", "around", "exception", "always"]),
            st.sampled_from(["look", "change", "raise", "return"]),
            st.integers(0, 100),
        ),
        max_size=40,
    ),
    st.booleans(),
)
def test_a_chain_does_what_it_does_on_any_function(rows: list[tuple[Kind, str, int]], failing: bool) -> None:
    def target(self: object, x: Any) -> Any:
        if failing:
            raise KeyError(x)
        return [x]

    class Owner: ...

    owner, slot = Owner(), Kept()
    plain: Any = hookable(FunctionType(target.__code__, globals(), "target", None, target.__closure__))
    mount = OwnMountPoint(owner, target, "own", slot, target=lambda: target)
    logs: list[list[Any]] = [[], []]
    for log, point in zip(logs, (mount, hooks(plain)), strict=True):
        for number, (kind, act, priority) in enumerate(rows):
            point.add(kind, _hook(kind, act, number, log), priority=priority)
    run = slot.function or target
    results = [_tried(run, owner, log) for log in logs[:1]] + [_tried(plain, owner, logs[1])]
    assert results[0] == results[1] and logs[0] == logs[1]


class Kept:
    """A slot that only keeps the function."""

    function: FunctionType | None = None

    def put(self, function: FunctionType) -> None:
        self.function = function

    def leave(self) -> None:
        self.function = None

    def forget(self) -> None: ...

    def is_displaced(self) -> bool:
        return False


def _tried(run: Callable[..., Any], owner: object, log: list[Any]) -> Any:
    try:
        return run(owner, 1)
    except Exception as error:
        return (type(error), str(error))


def _hook(kind: Kind, act: str, number: int, log: list[Any]) -> Callable[..., Any]:
    def answer() -> Any:
        log.append((kind, number))
        if act == "raise" and kind != "around":
            raise LookupError(f"{kind} {number}")
        if act == "return" and kind in ("pre", "exception", "post"):
            return Return(f"{kind} {number}")
        if act == "change":
            return {"pre": Args(x=number), "post": f"changed by {number}"}.get(kind)
        return None

    def once() -> Any:
        result = yield
        return answer() or [*result, number]

    if kind == "around" and act == "return":
        return once
    if kind == "around":
        return lambda proceed: (answer(), proceed(x=number) if act == "change" else proceed())[1]
    return answer


def test_a_function_that_was_kept_follows_the_chain_and_only_calls_the_target_in_the_end() -> None:
    saw = Tool()
    mount = mounted(saw)
    one = mount.add("post", lambda result: ("one", result))
    kept = saw.use
    two = mount.add("post", lambda result: ("two", result))
    assert kept("oak") == saw.use("oak") == ("two", ("one", ("oak", (), 1, {})))
    one.remove()
    assert kept("oak") == ("two", ("oak", (), 1, {}))
    two.remove()
    assert kept("oak") == ("oak", (), 1, {}) and vars(saw) == {}
    mount.add("post", lambda result: "again")
    assert kept("oak") == ("oak", (), 1, {}) and saw.use("oak") == "again"


def test_a_pin_keeps_the_function_there_without_hooks() -> None:
    saw = Tool()
    mount = mounted(saw)
    mount.pin(1)
    assert "use" in vars(saw) and saw.use("oak") == ("oak", (), 1, {})
    with mount.add("post", lambda result: "hooked"):
        mount.pin(-1)
        assert saw.use("oak") == "hooked"
    assert vars(saw) == {}


def test_a_refused_hook_changes_nothing() -> None:
    saw = Tool()
    mount = mounted(saw)
    with pytest.raises(
        HookSignatureError, match=r"a tool offers self, wood, depth, more, rest, tool, name; .*did you mean 'wood'"
    ):
        mount.add("pre", lambda wod: None)
    assert vars(saw) == {} and len(mount) == 0


def test_neither_the_object_nor_its_hooks_are_kept_alive() -> None:
    saw = Tool()
    mount = mounted(saw)
    mount.add("post", lambda result: (saw, result))
    saw.use("oak")
    tool, hook = weakref.ref(saw), weakref.ref(next(iter(mount)))
    del saw
    del mount
    gc.collect()
    assert (tool(), hook()) == (None, None)


def test_tracebacks_show_the_source_of_the_call() -> None:
    saw = Tool()
    mount = mounted(saw)

    def fail() -> None:
        raise ValueError("no")

    mount.add("pre", fail)
    with pytest.raises(ValueError, match="no") as caught:
        saw.use("oak")
    assert "answer = pre_1()  # fail, test_own.py" in "".join(traceback.format_exception(caught.value))
    assert "def use(self, wood, *more, depth, **rest):" in mount.explain()


def told(self: object, value: Any) -> Any: ...


def test_an_event_may_look_at_answers_and_says_whose_they_are() -> None:
    owner, slot = Tool(), Kept()

    def fits(site: Any, function: Any, answer: Any, before: Any) -> Any:
        if not isinstance(answer, int):
            raise HookAnswerError(f"{site.label}: {function.__name__} answered {answer!r} for {before!r}")
        return answer * 2

    emission = Emission(gives="fold", fold=1, checked=True, word="grind")
    mount = OwnMountPoint(
        owner, told, "a mill", slot, target=lambda: lambda _, value: value, emission=emission, fits=fits
    )
    mount.add("on", lambda value: value + 1)
    mount.add("on", lambda value: value + 10)
    mount.add("on", lambda: None)
    assert slot.function is not None and slot.function(owner, 1) == ((1 + 1) * 2 + 10) * 2
    with mount.add("around", lambda proceed: proceed()):
        assert slot.function(owner, 1) == 28
    assert [hook.who.split()[0] for hook in mount] == ["grind"] * 3

    def bad() -> str:
        return "flour"

    mount.add("on", bad)
    with pytest.raises(HookAnswerError, match="a mill: bad answered 'flour' for 28"):
        slot.function(owner, 1)
    with pytest.raises(HookSignatureError, match="a grind hook may also ask for call, args, kwargs"):
        mount.add("on", lambda vlue: None)
