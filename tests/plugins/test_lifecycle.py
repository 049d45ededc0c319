"""Plugins that are disabled, enabled and unregistered at any moment, and that leave no trace."""

from __future__ import annotations

import gc
import inspect
import itertools
import os
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

import aspecthook
from aspecthook import HookLookupError, on, pre
from aspecthook.plugins import Plugin, Plugins
from tests.plugins.shop import Seller, Shop, fresh_host, message, trace_left
from tests.threads import at_once


def test_a_plugin_is_found_by_its_name_its_object_and_its_handle(plugins: Plugins) -> None:
    seller = Seller()
    plugin = plugins.register(seller, name="seller")
    assert [type(plugin), plugin.object, plugin.name] == [Plugin, seller, "seller"]
    for key in ("seller", seller, plugin):
        assert key in plugins and plugins[key] is plugin
    other = Plugins(Shop())
    assert plugin not in other and list(plugins) == [plugin] and len(plugins) == 1
    assert message(HookLookupError, lambda: plugins["sellr"]) == (
        "Shop has no plugin 'sellr'; its plugins: seller; did you mean 'seller'?"
    )
    assert message(HookLookupError, lambda: other.unregister(plugin)) == (
        "Shop has no plugin 'seller'; its plugins: none at all"
    )
    for act in (plugins.disable, plugins.enable, plugins.unregister):
        with pytest.raises(HookLookupError):
            act("nobody")


# Interrupted


def strike_at(entry: int) -> Callable[..., Any]:
    """Return a trace function that interrupts the library as it enters a function for the so-manieth time.

    There Python itself looks for signals; at the lines around a lock it does not. What strikes in a generator that is
    being closed is swallowed.
    """
    left = entry

    def trace(frame: FrameType, what: str, _: object) -> None:
        nonlocal left
        code = frame.f_code
        if (
            code.co_filename.startswith(os.path.dirname(aspecthook.__file__) + os.sep)
            and not code.co_flags & inspect.CO_GENERATOR
        ):
            left -= 1
            if not left:
                sys.settrace(None)
                raise KeyboardInterrupt

    return trace


class Thrice:
    @on
    def sold(self) -> int:
        return 1

    @pre("sold")
    def first(self) -> None: ...

    @on
    def authenticate(self) -> int:
        return 3


@pytest.mark.parametrize("of_class", [True, False])
@pytest.mark.parametrize("act", ["register", "unregister", "disable"])
def test_an_interrupt_leaves_a_plugin_on_or_off_and_what_can_be_done_again(act: str, of_class: bool) -> None:
    """Hooks stayed that nobody could take off, or code that waited for some."""
    cls = fresh_host()
    outcomes: set[tuple[bool, bool]] = set()
    gc.collect()  # what strikes in a finalizer is swallowed too
    for entry in itertools.count(1):
        host: Any = cls()
        plugins = Plugins(cls if of_class else host)
        before, traced = trace_left(cls), sys.gettrace()
        work = partial(plugins.register, Thrice())
        if act != "register":
            work()
            work = partial(getattr(plugins, act), "Thrice")
        struck = False
        sys.settrace(strike_at(entry))
        try:
            work()
        except KeyboardInterrupt:
            struck = True
        finally:
            sys.settrace(traced)
        there = "Thrice" in plugins
        if act == "register":
            assert (host.sold("tea"), host.authenticate("ann")) == (([1], 3) if there else ([], None))
        if act == "disable":
            plugins.disable("Thrice")
            assert host.sold("tea") == []
            plugins.enable("Thrice")
            assert (host.sold("tea"), host.authenticate("ann")) == ([1], 3)
        outcomes.add((struck, there))
        if there:
            plugins.unregister("Thrice")
        assert (host.sold("tea"), host.authenticate("ann")) == ([], None) and trace_left(cls) == before
        if not struck:
            break
    at_once(lambda: Plugins(cls()).register(Thrice()))  # no lock is held
    assert (
        outcomes
        == {
            "register": {(True, False), (False, True)},
            "unregister": {(True, True), (False, False)},
            "disable": {(True, True), (False, True)},
        }[act]
    )


def test_a_handle_does_not_take_off_another_of_its_name(shop: Any, plugins: Plugins) -> None:
    first = plugins.register(Seller("first"), name="seller")
    first.unregister()
    plugins.register(Seller("second"), name="seller")
    first.unregister()
    assert shop.sold("tea") == ["second"] and "seller" in plugins
