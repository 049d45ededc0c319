"""Events and subscribers that the tests share. The module-level events are cleared after each test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aspecthook import event


@event
def rang(who: str, times: int = 1) -> None:
    """Somebody rang."""


@event(first=True)
def found(name: str) -> str | None:
    return None


@event(fold="text")
def cleaned(text: str, *, strict: bool = False) -> None: ...


@event
async def arrived(who: str) -> None: ...


def made(**options: Any) -> Any:
    """Make an event of one parameter."""

    def said(n: Any = 1) -> None: ...

    return event(**options)(said)


def amade(**options: Any) -> Any:
    """Make an async event of one parameter."""

    async def said(n: Any = 1) -> None: ...

    return event(**options)(said)


class Listener:
    """What subscribes with its methods."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def hear(self, n: Any) -> None:
        self.seen.append(n)

    async def hear_later(self, n: Any) -> None:
        self.seen.append(n)

    def __call__(self, n: Any) -> None:
        self.seen.append(n)

    def is_ready(self) -> bool:
        return True


def failing(n: Any) -> None:
    raise ValueError("failing")


def fails(error: BaseException) -> Callable[[], object]:
    def fail() -> object:
        raise error

    return fail
