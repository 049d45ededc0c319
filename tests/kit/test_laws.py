"""Laws of a user's own: `run_laws` makes one call and says which law is broken, with the call and the chain drawn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aspecthook import HookTypeError, hookable, hooks
from aspecthook.testing import LawError, Trace, before, law, run_laws


@law
def auth_before_audit(trace: Trace) -> bool:
    return trace.before("auth", "audit")


def wrong_order() -> Any:
    @hookable
    def handle(request: int) -> int:
        return request

    handle.pre(lambda: None, name="audit")
    handle.pre(lambda: None, name="auth", priority="LOW")
    return handle


def test_a_broken_law_is_told_with_the_call_and_the_chain_drawn() -> None:
    handle = wrong_order()
    with pytest.raises(LawError) as caught:
        run_laws(handle, auth_before_audit, args=(1,))
    name = hooks(handle).name
    assert str(caught.value).splitlines() == [
        f"{name} breaks the law 'auth_before_audit': it answered False",
        "",
        "the call:",
        f"  {name} → 1",
        "    pre     audit() → None",
        "    pre     auth() → None",
        "    target  handle(request=1) → 1",
        "",
        "the chain:",
        f"  {name}, 2 hooks",
        "    pre  audit",
        "    pre  auth (priority=70)",
    ]
    assert caught.value.law == "auth_before_audit"
    assert caught.value.trace is not None
    assert caught.value.trace.names == ("audit", "auth", "handle")


def test_a_law_may_assert_and_must_answer() -> None:
    def asserts(trace: Trace) -> bool:
        assert trace.ran("audit"), "no audit"
        assert trace.ran("tax"), "no tax"
        return True

    with pytest.raises(LawError, match="breaks the law 'asserts': it says no tax"):
        run_laws(wrong_order(), asserts, args=(1,))
    with pytest.raises(HookTypeError, match="answered None; return"):
        run_laws(wrong_order(), lambda trace: None, args=(1,))
    with pytest.raises(HookTypeError, match="was given none; name some"):
        run_laws(wrong_order())


def test_a_law_that_reads_the_result_of_a_call_that_failed_hears_of_the_failure() -> None:
    @hookable
    def fail() -> int:
        raise KeyError("gone")

    with pytest.raises(LawError, match=r"TypeError.*; the call itself raised KeyError\('gone'\), so trace.result"):
        run_laws(fail, law(lambda trace: trace.result > 3), args=())
    with pytest.raises(LawError, match=r"False, on a call that raised KeyError\('gone'\) and so has no result"):
        run_laws(fail, law(lambda trace: trace.result == 3), args=())


def test_law_gives_the_predicate_back() -> None:
    def predicate(trace: Trace) -> bool:
        return True

    assert law(predicate) is predicate
    static = staticmethod(predicate)
    assert law(static) is static


def test_an_async_target_is_refused_where_an_event_loop_runs() -> None:
    @hookable
    async def fetch(_: object) -> None: ...

    fetch.pre(lambda: None, name="a")
    fetch.pre(lambda: None, name="b")

    async def inside() -> None:
        with pytest.raises(HookTypeError, match="an event loop of their own, but one is running here already"):
            run_laws(fetch, before("a", "b"), args=(1,))
        await asyncio.to_thread(run_laws, fetch, before("a", "b"), args=(1,))

    asyncio.run(inside())
