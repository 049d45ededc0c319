"""Events, as a type checker sees them."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, assert_type

from aspecthook import Hook, event, hooks, on
from aspecthook.plugins import Plugin, Plugins


@event
def changed(celsius: float, place: str = "here") -> None: ...


@event
def listed(celsius: float) -> list[str]:
    return []


@event(first=True)
def found(name: str) -> str | None:
    return None


@event(fold="text")
def cleaned(text: str) -> str:
    return text


@event(errors="group")
def closing() -> None: ...


@event
async def arrived(who: str) -> None: ...


@event(gather=True, errors="isolate")
async def leaving(who: str) -> None: ...


@changed.on
def alarm(celsius: float) -> str | None:
    return "hot" if celsius > 30 else None


@changed.on(priority="HIGH", weak=True, when=lambda: True)
def note(celsius: float) -> None: ...


assert_type(alarm(31.0), str | None)
assert_type(changed(20.0), list[Any])
assert_type(changed(20.0, place="there"), list[Any])
assert_type(listed(20.0), list[str])
assert_type(found("a"), str | None)
assert_type(cleaned("a"), str)
assert_type(closing(), list[Any])

changed.pre(lambda: None)


def wrong() -> None:
    """Never called."""
    changed("hot")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    changed()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    changed(20.0, where="there")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    changed.on(3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    sensor.changed("hot")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(len(changed.history), int)


async def main() -> None:
    assert_type(await arrived("ann"), list[Any])
    assert_type(await leaving("ann"), list[Any])
    coroutine: Coroutine[Any, Any, list[Any]] = arrived("ann")
    await coroutine


class Sensor:
    @event
    def changed(self, celsius: float) -> None: ...

    @staticmethod
    @event
    def opened(hour: int) -> None: ...


sensor = Sensor()
assert_type(sensor.changed(20.0), list[Any])
assert_type(Sensor.opened(8), list[Any])
assert_type(hooks(sensor.changed).add("on", alarm), Hook)
hooks(sensor.changed).on(alarm)
Sensor.changed.on(alarm)
plugins = Plugins(sensor)


class Shown:
    @on
    def changed(self, celsius: float) -> None: ...


assert_type(plugins.register(Shown(), name="shown"), Plugin)
assert_type(list(plugins), list[Plugin])
plugins.unregister("shown")
