"""What is hooked in the whole process: the table that `hooks()` is, which keeps nothing alive."""

from __future__ import annotations

import gc
import json
import weakref
from typing import Any

import pytest

from aspecthook import around, event, hookable, hooks, weave


@pytest.fixture
def till_class() -> Any:
    class Till:  # not in the module: pytest has frozen what was there before the tests, and hidden it from `hooks()`
        @hookable
        def ring(self, amount: int) -> int:
            return amount

    return Till


def note() -> None: ...


def listed() -> list[tuple[str, int]]:
    """Return what is hooked by this file, as other tests may have left something."""
    gc.collect()
    found = [mount for mount in hooks() if mount.name.startswith((__name__, "json"))]
    return sorted([(mount.name.rpartition(".")[2], len(mount)) for mount in found])


def test_the_table_names_each_hook_of_the_process_with_its_mount_point(till_class: Any) -> None:
    till = till_class()

    @event
    def sold(item: str) -> None: ...

    sold.on(note)
    hooks(till.ring).pre(note)
    with weave(json.loads, post=note), hooks(till_class.ring).add("pre", note):
        expected = [("json:loads", 1), ("ring", 1), ("ring of one Till", 1), ("sold", 1)]
        assert listed() == expected
        names = [mount.name for mount in hooks()]
        assert len(hooks()) == len(names) >= len(expected) and names == sorted(names)
        lines = [line.split() for line in str(hooks()).splitlines()]
        assert lines[0][1:] == ["hooks", "on", str(len(hooks())), "mount", "points"]
        assert ["json:loads", "post", "note", "NORMAL"] in [line[1:5] for line in lines]
        assert repr(hooks()) == str(hooks())
    assert listed() == [("ring of one Till", 1), ("sold", 1)]
    hooks(till.ring).clear()
    assert listed() == [("sold", 1)]


def test_a_function_without_hooks_and_the_copy_that_a_decorator_is_given_are_not_listed() -> None:
    @hookable
    def idle() -> None: ...

    @hookable
    def wrapped() -> None: ...

    wrapped.around(around.wrap(lambda function: function))
    assert listed() == [("wrapped", 1)]


def test_the_table_keeps_no_target_alive() -> None:
    def make() -> Any:
        @hookable
        def closure() -> Any:
            return closure

        closure.pre(note)
        return closure

    closure, everything = make(), hooks()
    assert [name for name, _ in listed()] == ["closure"]
    gone = weakref.ref(closure)
    del closure
    gc.collect()
    assert gone() is None
    assert [mount for mount in everything if mount.name.startswith(__name__)] == []


def test_a_mount_point_of_a_class_says_how_many_hooks_its_instances_have(till_class: Any) -> None:
    # It said 0 hooks, while an instance had one.
    one, two = till_class(), till_class()
    for till in (one, one, two):
        hooks(till.ring).pre(lambda: None)
    name = f"{__name__}:{till_class.ring.__qualname__}"
    assert repr(hooks(till_class.ring)) == f"<mount point {name}, 0 hooks, and 3 on 2 instances>"
    hooks(one.ring).clear()
    assert str(hooks(till_class.ring)) == f"{name}, 0 hooks, and 1 on 1 instance"
    hooks(two.ring).clear()
    assert repr(hooks(till_class.ring)) == f"<mount point {name}, 0 hooks>"
