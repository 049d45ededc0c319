"""The short stories: what a user may expect of hooks in general, and what the machine finds where it is not so."""

from __future__ import annotations

from typing import Any

import pytest

from aspecthook import Hook, MountPoint, hookable, hooks
from aspecthook._core.compile.copies import Attributes
from aspecthook._core.law import guard, options, order
from aspecthook.testing import LawError, before, law
from tests.oracle.candidates import Candidate
from tests.oracle.laws import check_laws
from tests.oracle.machine import OracleMachine
from tests.oracle.short_stories import play_short_stories


def nothing() -> None: ...


class Small(OracleMachine):
    candidates = (Candidate("pre", nothing, name="a"), Candidate("pre", nothing, name="b", before="a"))

    def make(self) -> Any:
        @hookable
        def handle(request: int) -> int:
            return request

        return handle


class OfInstance(Small):
    def make(self) -> Any:
        class Handler:
            @hookable
            def handle(self, request: int) -> int:
                return request

        return Handler().handle


class Guarded(Small):
    candidates = (Candidate("pre", nothing, name="a", reentrant=False), Candidate("post", nothing, name="b"))


count = order.Mentions.count


def forget_all(self: order.Mentions, hook: Hook, step: int) -> None:
    count(self, hook, step)
    for where, keys in (("before", hook.before), ("after", hook.after)):
        for key in keys if step < 0 else ():
            self.pop((where, hook.kind, key), None)


def pause_all(self: MountPoint, _hooks: object, *, paused: bool) -> None:
    def store() -> None:
        for hook in self.members:
            hook.paused = paused

    self._change(store)


def any_run(_guard_of_hook: object) -> bool:
    return any(run._alive for run in guard._running.get())


matching = MountPoint._matching


# What is planted, and the law that it breaks.
PLANTED: list[tuple[object, str, Any, str, type[OracleMachine]]] = [
    (order.Mentions, "count", forget_all, "refusal", Small),
    (MountPoint, "set_paused", pause_all, "pauses", Small),
    (MountPoint, "_matching", lambda self, meant: matching(self, meant)[:1], "members", Small),
    (MountPoint, "_older", lambda *_: None, "members", Small),
    (Attributes, "unwrap", lambda self: None, "no trace", Small),
    (options, "_READERS", {**options._READERS, "priority": lambda *_: 50}, "refusal", Small),
    (Hook, "_hold_weakly", lambda *_: None, "lifetimes", Small),
    (Hook, "__exit__", lambda self, *_: self.remove() if _[0] is None else None, "members", Small),
    (guard.Entry, "is_under_way", staticmethod(any_run), "a call", Guarded),
]


@pytest.mark.parametrize(("owner", "name", "value", "broken", "machine"), PLANTED, ids=[one[1] for one in PLANTED])
def test_a_planted_bug_breaks_a_law_in_a_short_story(
    owner: object, name: str, value: Any, broken: str, machine: type[OracleMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, value)
    with pytest.raises(LawError) as caught:
        play_short_stories(type("Machine", (machine,), {}))
    assert caught.value.law == broken


@pytest.mark.parametrize("machine", [Small, OfInstance])
def test_the_short_stories_pass(machine: type[OracleMachine]) -> None:
    play_short_stories(type("Machine", (machine,), {}))


def test_a_target_that_lives_on_by_itself_is_not_asked_to_die() -> None:
    made: list[object] = []

    class Keeping(Small):
        def make(self) -> Any:
            made.append(super().make())
            return made[-1]

    play_short_stories(Keeping)
    assert made


def test_a_hook_of_the_class_that_is_added_later_runs_behind_one_of_the_instance() -> None:
    method = OfInstance().make()
    hooks(method).add("pre", nothing, name="of the instance")
    hooks(method.__func__).add("pre", nothing, name="of the class")
    check_laws(method, before("of the instance", "of the class"), args=(1,))


def test_a_machine_knows_in_which_order_the_hooks_of_an_instance_and_of_its_class_were_added() -> None:
    # They were taken over as those of the class, and then those of the instance: a law was said to be broken.
    class Hooked(OfInstance):
        candidates = ()

        def make(self) -> Any:
            method = super().make()
            hooks(method).add("pre", nothing, name="of the instance")
            hooks(method.__func__).add("pre", nothing, name="of the class")
            return method

    state = Hooked()
    state.call((1,))
    state.teardown()


def test_a_hook_is_traced_with_what_it_is_given_by_the_names_of_its_own_parameters() -> None:
    seen: list[dict[str, object]] = []

    @law
    def is_named(trace: Any) -> bool:
        seen.append(trace["asks"].given)
        return True

    @hookable
    def handle(request: int, user: str) -> int:
        return request

    def asks(request: int, nobody: None = None, user: str = "") -> None: ...

    handle.pre(asks)
    check_laws(handle, is_named, args=(1, "ann"))
    assert seen == [{"request": 1, "user": "ann"}]


async def of_async(_: object) -> None: ...
