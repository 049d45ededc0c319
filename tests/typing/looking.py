"""`hooks` and `explain`, and the hooks that are added with what `hooks` gives."""

from __future__ import annotations

import io
from typing import assert_type

from aspecthook import Args, Hook, HookOptionError, MountPoint, Priority, explain, hookable, hooks


@hookable
def price(item: str, qty: int = 1) -> float:
    return qty * 2.0


mount = hooks(price)
assert_type(mount, MountPoint)
assert_type(hooks(mount), MountPoint)
assert_type(len(mount), int)
assert_type(list(mount), list[Hook])
assert_type(mount.name, str)
assert_type(mount.displaced, bool)
assert_type(mount.explain(), str)
assert_type(explain(price, file=io.StringIO()), None)
explain(mount, file=io.StringIO())


# They too give the function back as it was.
@mount.pre
def at_least_one(qty: int) -> Args:
    return Args(qty=max(qty, 1))


@mount.exception(KeyError, (OSError, ValueError), priority=Priority.HIGH)
def report(exc: Exception) -> None:
    pass


@mount.post(priority="LOW", name="tax", after=at_least_one, when=lambda: True, isolate=True)
def with_tax(result: float) -> float:
    return result * 2


assert_type(at_least_one(3), Args)
assert_type(with_tax(3.0), float)
assert_type(mount.pre[0], Hook)
assert_type(mount.post[0].name, str)
assert_type(mount["tax"], Hook)
assert_type([hook.name for hook in mount.exception], list[str])
assert "tax" in mount
assert mount["tax"] in mount.post
assert price("tea", 0) == 4.0

# Every option, and none but these
price.pre(
    at_least_one,
    name="again",
    priority=60,
    before="tax",
    after=["first", "second"],
    when=lambda: True,
    once=False,
    again=True,
    times=2,
    every=2,
    isolate=False,
    reentrant=False,
)


def options_that_are_wrong() -> None:
    price.always(prio=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    price.always(times="3")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    mount.post(prio=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    mount.add("post", with_tax, prio=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    mount.add("posts", with_tax)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    hookable(name=3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


handle = mount.add("always", print, priority=Priority.LOWEST, name="show")
assert_type(handle, Hook)
assert_type(handle.remove(), None)
with mount.paused():
    assert price("tea", 0) == 0.0
mount.remove(with_tax)
mount.remove("report")
mount.clear()
assert len(mount) == 0

try:
    price.pre(priority=101)(at_least_one)
except HookOptionError as error:
    assert_type(error, HookOptionError)
