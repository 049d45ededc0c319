"""Exceptions of subscribers: raised, isolated, grouped."""

from __future__ import annotations

import pytest

from aspecthook import event, hooks
from tests.events.samples import fails, made


def test_isolate_logs_and_counts_failures(caplog: pytest.LogCaptureFixture) -> None:
    said = made(errors="isolate")
    said.on(fails(ValueError("one")), name="bad")
    said.on(lambda: "good")
    said.on(fails(KeyError("strict")), isolate=False, when=lambda: strict, name="strict")
    strict = False
    assert said() == ["good"] and hooks(said)["bad"].failures == 1
    assert "on hook 'bad'" in caplog.text
    strict = True
    with pytest.raises(KeyError):
        said()


def test_group_raises_all_failures_after_all_have_run() -> None:
    said = made(errors="group")
    one, two, heard = ValueError("one"), KeyError("two"), list[int]()
    said.on(fails(one))
    said.on(lambda: heard.append(1))
    said.on(fails(two))
    with pytest.raises(ExceptionGroup, match="said: 2 subscribers failed") as caught:
        said()
    assert caught.value.exceptions == (one, two) and heard == [1]
    with pytest.raises(ExceptionGroup) as again:
        said()
    assert again.value is not caught.value


@event(first=True, errors="group")
def asked() -> str:
    raise KeyError("body")


def test_failures_of_subscriber_and_body_are_both_raised() -> None:
    asked.on(lambda: 1 / 0)
    with pytest.raises((KeyError, ExceptionGroup)) as caught:
        asked()
    seen: list[BaseException | None] = [caught.value, caught.value.__context__, caught.value.__cause__]
    seen += [one for error in seen if isinstance(error, ExceptionGroup) for one in error.exceptions]
    assert {ZeroDivisionError, KeyError} <= {type(one) for one in seen}
