"""Variables of a task or thread, that threads do not inherit."""

from __future__ import annotations

import asyncio
from contextvars import copy_context

import pytest

from aspecthook._core.law.variables import ThreadsOwn, Variable, variable
from tests.threads import at_once

VARIABLES = [variable("test_variable", "default"), ThreadsOwn("test_threads_own", "default")]
both = pytest.mark.parametrize("one", VARIABLES, ids=["variable", "threads own"])


@both
def test_a_value_is_seen_by_tasks_that_are_started_where_it_was_set(one: Variable[str]) -> None:
    async def look() -> str:
        return one.get()

    async def main() -> str:
        one.set("mine")
        return await asyncio.create_task(look())

    assert asyncio.run(main()) == "mine"


@both
def test_a_value_is_not_seen_by_a_thread_that_is_started_where_it_was_set(one: Variable[str]) -> None:
    seen: list[str] = []

    def work() -> None:
        one.set("mine")
        at_once(lambda: seen.append(one.get()))

    copy_context().run(work)
    assert seen == ["default"]


def test_another_thread_sees_the_default_in_a_context_that_it_has_inherited_and_what_it_sets_there() -> None:
    one = ThreadsOwn("test_inherited", "default")
    seen: list[str] = []

    def work() -> None:
        seen.append(one.get())
        one.set("its own")
        seen.append(one.get())

    def begin() -> None:
        one.set("mine")
        inherited = copy_context()
        at_once(lambda: inherited.run(work))
        assert (one.get(), inherited.run(one.get)) == ("mine", "default")

    copy_context().run(begin)
    assert seen == ["default", "its own"]
