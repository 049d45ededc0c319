"""What is let go: a call leaves nothing to collect, and targets, instances and their hooks die when nobody has them."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any

import pytest

from aspecthook import hookable, hooks
from aspecthook._core.compile.show import FREE_THREADED
from aspecthook._core.law.kinds import KINDS
from tests.garbage import no_collector
from tests.oracle.guests import Guest, PlannedError, PlannedStop, function_of, guests_of


class Owner:
    """Something with methods, one of which is hooked."""

    @hookable
    def act(self, qty: int = 0) -> int:
        if qty:
            raise PlannedError(qty)
        return qty

    def note(self) -> None:
        """Do nothing, as a hook."""


def passing() -> Any:
    """Make a function that may die before its module does."""

    @hookable
    def target(qty: int = 0) -> int:
        if qty:
            raise PlannedError(qty)
        return qty

    return target


def lasting() -> Any:
    """Return a function that lives as long as its module."""
    return Owner.act


def added(target: Any, guest: Guest) -> Any:
    """Add a guest that only fails, answers or proceeds."""
    function = function_of(guest, style="function", changes={}, act=lambda: None)
    return hooks(target).add(guest.kind, function, **guest.options)


@pytest.mark.parametrize("make", [passing, lasting])
def test_a_call_leaves_nothing_to_collect(make: Callable[[], Any]) -> None:
    target, own = make(), [Owner()] if make is lasting else []
    for guest in [guest for guest in guests_of(hooks(target)) if guest.place == ""]:
        for other in ("exception", "always"):
            with added(target, guest), hooks(target).add(other, lambda call, exc: None):  # type: ignore[arg-type]
                if FREE_THREADED:  # there only the collector frees code that another chain has replaced
                    with suppress(Exception, PlannedStop):
                        target(*own, 0)
                    gc.collect()
                for qty in (0, 1):
                    for _ in range(2):
                        with no_collector():
                            with suppress(Exception, PlannedStop):
                                target(*own, qty)
                            assert gc.collect() == 0, (guest, other, qty)


def hooked(kind: Any) -> tuple[list[weakref.ref[Any]], object]:
    """Return what should die, of which a hook refers to the target; and a handle that somebody keeps."""
    target, big = passing(), Owner()

    def hook() -> object:
        return target, big

    def noting() -> None:
        hook()

    def around(proceed: Any) -> Any:
        hook()
        return proceed()

    mount = hooks(target)
    mount.add(kind, around if kind == "around" else noting)
    handle = mount.add("always", nothing)
    target()
    return [weakref.ref(one) for one in (target, mount, big)], handle


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("on", "item")])
def test_a_target_dies_with_what_it_has(kind: Any) -> None:
    dying, handle = hooked(kind)
    gc.collect()
    assert [one() for one in dying] == [None, None, None]
    assert handle is not None


def nothing() -> None: ...


def test_a_module_that_is_unloaded_dies_with_the_hooks_of_its_functions() -> None:
    module = ModuleType("oracle_unloaded")
    sys.modules[module.__name__] = module
    exec("from aspecthook import hookable\n@hookable\ndef act(): ...\n@act.pre\ndef hook(): ...\nact()", vars(module))
    dying = weakref.ref(module.act)
    del sys.modules[module.__name__], module
    gc.collect()
    assert dying() is None


def test_an_instance_dies_with_its_hooks_and_leaves_no_mount_point_to_another() -> None:
    owner = Owner()
    mount = hooks(owner.act)
    assert hooks(owner.act) is mount
    mount.add("pre", owner.note)
    owner.act()
    died, parent = weakref.ref(owner), mount.parent
    with no_collector():
        del owner
        assert died() is None and not parent.instances
    kept = [Owner() for _ in range(50)]  # one of them has the `id` of the first
    assert all(len(hooks(one.act)) == 0 and hooks(one.act) is not mount for one in kept)
