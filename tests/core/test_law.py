"""The law is written once: its sync text is made of the async one."""

from __future__ import annotations

from tests.law_sync import LAW, derive


def test_law_of_sync_functions_is_the_law_of_async_functions() -> None:
    assert (LAW / "law_sync.py").read_text() == derive((LAW / "law.py").read_text()), "run `make law`"
