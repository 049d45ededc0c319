"""`weave`, its handle, and the marks of aspects."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, assert_type

from aspecthook import Args, Call, Hook, MountPoint, Return, Weaving, always, around, exception, item, post, pre, weave


def price(item: str, qty: int = 1) -> float:
    return qty * 2.0


def at_least_one(qty: int) -> Args:
    return Args(qty=max(qty, 1))


def same(result: object) -> object:
    return result


def same_call(call: Call) -> None: ...


def nothing(exc: Exception) -> Return[None]:
    return Return(None)


weaving = weave(price, pre=at_least_one, post=[same, lambda: None], priority="HIGH", when=lambda: True)
assert_type(weaving, Weaving)
assert_type(weaving.mounts, tuple[MountPoint, ...])
assert_type(weaving.hooks, tuple[Hook, ...])
state: str = weaving.state
weaving.check()
weaving.pause()
weaving.resume()
weaving.remove()
with weave("json:dumps", exception={KeyError: nothing, (OSError, ValueError): [nothing]}) as woven:
    assert_type(woven, Weaving)
with weave("json:*, !json:load*", always=same_call, scope="context", where=callable):
    pass


def wrong() -> None:
    weave(price, pre=at_least_one, scope="here")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    weave(price, pre=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    weave(price, prio=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


class Audit:
    @pre("json:dumps", priority=10)
    @post("json:loads")
    def first(self) -> int:
        return 1

    @pre
    def second(self) -> None: ...

    @exception("json:*", KeyError, ValueError, name="third")
    def third(self, exc: Exception) -> Return[None]:
        return Return(None)

    @around("json:dump")
    def fourth(self, proceed: Callable[[], object]) -> object:
        return proceed()

    @always(once=True)
    @item("os:fwalk")
    def fifth(self) -> None: ...


assert_type(Audit().first(), int)
with weave("json:dumps", aspect=Audit()):
    pass


# Modules and tensors of PyTorch, whose types this file need not know.
def clip(grad_input: tuple[object, ...], name: str) -> tuple[object, ...] | None:
    return None


if TYPE_CHECKING:  # there may be no PyTorch
    model: object = object()
    assert_type(weave(model, "conv*, !conv1", post=same, backward=clip, grad=[same, at_least_one]), Weaving)
    assert_type(weave(model, int, backward_pre=same, priority="LOW"), Weaving)
    assert_type(weave(model, [int, "conv*"], backward=clip, once=True), Weaving)
    weave(model, 3, post=same)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    weave(model, bakward=same)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
