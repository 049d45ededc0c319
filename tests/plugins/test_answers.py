"""Which plugin answered what, of events of every sort."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import Args, HookOrderError, PluginError, Return, always, around, event, hooks, on, pre
from aspecthook.plugins import Plugins
from tests.plugins.shop import Failing, Seller, Shop, fresh_host, message, module_of, trace_left, unchanged


def test_answers_have_the_names_of_the_plugins(shop: Any, plugins: Plugins) -> None:
    class Everywhere:
        def __init__(self, step: int) -> None:
            self.step = step

        @on
        def sold(self, item: str) -> str | None:
            return f"{item} {self.step}" if self.step != 2 else None

        @on
        def quote(self, price: float) -> float:
            return price + self.step

        @on
        def authenticate(self, user: str) -> str | None:
            return f"{user} {self.step}" if self.step > 1 else None

    for step in (1, 2, 3):
        plugins.register(Everywhere(step), name=f"p{step}")
    hooks(shop.sold).on(lambda: Return(None), name="guest")
    assert plugins.answers("sold", "tea") == [("p1", "tea 1"), ("p3", "tea 3"), ("guest", None)]
    assert plugins.answers("quote", "tea", price=10) == [("p1", 11), ("p2", 13), ("p3", 16)]
    assert plugins.answers("authenticate", user="ann") == [("p2", "ann 2")]
    plugins.disable("p2")
    assert plugins.answers("authenticate", "ann") == [("p3", "ann 3")]


def test_nobody_answered_when_nobody_was_asked(shop: Any, plugins: Plugins) -> None:
    done: list[str] = []

    class Host:
        @event
        def sold(self, item: str) -> None:
            done.append(item)

    assert plugins.answers("sold", "tea") == []
    host = Plugins(Host())
    assert host.answers("sold", "tea") == [] and done == ["tea"]
    host.register(Seller())
    assert host.answers("sold", "cake") == [("Seller", "seller")] and done == ["tea"]
    hooks(shop.sold).pre(lambda: Return(["kept"]))
    plugins.register(Seller())
    assert plugins.answers("sold", "tea") == [] and shop.sold("tea") == ["kept"]


def test_looking_at_the_answers_lets_the_event_happen_once_with_all_its_hooks(shop: Any, plugins: Plugins) -> None:
    trail: list[str] = []

    class Kinds:
        @pre("sold")
        def first(self) -> Args:
            trail.append("pre")
            return Args(item="cake")

        @around("sold")
        def second(self) -> Generator[None]:
            trail.append("around")
            yield

        @on(once=True)
        def sold(self, item: str) -> str:
            trail.append("on")
            return item

        @always("sold")
        def last(self) -> None:
            trail.append("always")

    plugin = plugins.register(Kinds())
    assert plugins.answers("sold", "tea") == [("Kinds", "cake")] and trail == ["pre", "around", "on", "always"]
    assert plugins.answers("sold", "tea") == [] and [hook.kind for hook in plugin.hooks] == ["pre", "around", "always"]


def test_answers_takes_what_the_event_takes(plugins: Plugins) -> None:
    class Host:
        @event
        def odd(self, a: int, /, b: int = 2, *rest: int, c: int, event: int = 4, **extra: int) -> None: ...

    class Listens:
        @on
        def odd(self, b: int, rest: Any, c: int, event: int, extra: Any) -> Any:
            return b, rest, c, event, extra

    host: Any = Host()
    odd = Plugins(host)
    odd.register(Listens())
    for args, kwargs in (((1,), {"c": 3}), ((1, 5, 6, 7), {"c": 3, "event": 8, "self": 9, "x": 10})):
        assert [answer for _, answer in odd.answers("odd", *args, **kwargs)] == host.odd(*args, **kwargs)
    for registered in (False, True):
        if registered:
            plugins.register(Seller())
        text = message(TypeError, lambda: plugins.answers("sold"))
        assert text == "Shop.sold() missing 1 required positional argument: 'item'"
    text = message(TypeError, lambda: plugins.answers("sold", "tea", xyz=2))  # Python may suggest a name like it
    assert text == "Shop.sold() got an unexpected keyword argument 'xyz'"


def test_answers_of_an_event_that_says_it_takes_something_else(plugins: Plugins) -> None:
    """It was read from what `inspect` is told, not from what it takes."""

    def stub(item: str, price: float = 2.0) -> None: ...

    stub.__signature__ = "nonsense"  # type: ignore[attr-defined]
    stub.__annotations__ = {"item": "NoSuchType"}
    odd = Plugins(module_of(sold=event(stub)))

    class Listens:
        @on
        def sold(self, item: str, price: float) -> Any:
            return item, price

    odd.register(Listens())
    assert odd.answers("sold", "tea") == [("Listens", ("tea", 2.0))]


def test_answers_of_a_class_are_those_of_the_instance_too() -> None:
    """Subscribers of the instance were left out, though the event asks them."""
    plugins = Plugins(Shop)
    plugins.register(Seller(), name="all")
    mine: Any = Shop()
    Plugins(mine).register(Seller("mine"), name="mine")
    assert plugins.answers("sold", mine, "tea") == [("all", "seller"), ("mine", "mine")]
    assert mine.sold("tea") == ["seller", "mine"]
    assert plugins.answers("sold", item="tea", self=mine) == [("all", "seller"), ("mine", "mine")]
    assert plugins.answers("sold", Shop(), "tea") == [("all", "seller")]
    plugins.unregister("all")


def test_answers_name_the_right_one_of_two_plugins_with_one_function(plugins: Plugins) -> None:
    class Every:
        @staticmethod
        @on(every=2)
        def sold(item: str) -> str:
            return item

    plugins.register(Every(), name="first")
    assert plugins.answers("sold", "tea") == []
    plugins.register(Every(), name="second")
    named = [[name for name, _ in plugins.answers("sold", "tea")] for _ in range(3)]
    assert named == [["first"], ["second"], ["first"]]


def test_answers_of_a_plain_function_are_refused(shop: Any, plugins: Plugins) -> None:
    """It was called, and gave an empty list."""
    called: list[str] = []
    hooks(shop.restock).pre(lambda item: called.append(item))
    assert message(PluginError, lambda: plugins.answers("restock", "tea")) == (
        "Shop: 'restock' is hookable but not an event, so nobody answers; call it instead"
    )
    assert not called


def test_answers_raises_what_the_event_raises(shop: Any, plugins: Plugins) -> None:
    plugins.register(Failing(ValueError("one")))
    for act in (partial(plugins.answers, "sold"), shop.sold):
        with pytest.raises(ValueError, match="one"):
            act("tea")


ORDERS = st.fixed_dictionaries(
    {},
    optional={
        "priority": st.integers(0, 100),
        "before": st.lists(st.sampled_from("abcdef"), max_size=2),
        "after": st.lists(st.sampled_from("abcdef"), max_size=2),
        "enabled": st.booleans(),
    },
)


class Answering:
    def __init__(self, answer: int | None) -> None:
        self.answer = answer

    @on
    def sold(self) -> Any:
        return self.answer

    @on
    def quote(self, price: float) -> Any:
        return price * 7 + self.answer if self.answer is not None else None

    @on
    def authenticate(self) -> Any:
        return self.answer


@given(st.lists(st.tuples(ORDERS, st.none() | st.integers(0, 5)), max_size=6), st.booleans(), st.data())
def test_answers_are_what_the_event_gives_and_order_is_who_gives_them(
    rows: list[tuple[dict[str, Any], int | None]], of_class: bool, data: st.DataObject
) -> None:
    cls = fresh_host()
    host: Any = cls()
    with unchanged(cls):
        plugins = Plugins(cls if of_class else host)
        first = (host,) if of_class else ()
        for name, (options, answer) in zip("abcdef", rows, strict=False):
            before = trace_left(cls)
            try:
                plugins.register(Answering(answer), name=name, **options)
            except HookOrderError:
                assert trace_left(cls) == before and name not in plugins
        for plugin in plugins:
            match data.draw(st.sampled_from(["keep", "keep", "disable", "enable", "unregister"])):
                case "keep":
                    pass
                case act:
                    getattr(plugin, act)()
        enabled = {one.name: one.object.answer for one in plugins if one.enabled}  # type: ignore[attr-defined]
        order = plugins.order("sold")
        assert set(order) == set(enabled) and len(order) == len(enabled)
        assert order == plugins.order("quote") == plugins.order("authenticate")
        expected = [(name, enabled[name]) for name in order if enabled[name] is not None]
        assert plugins.answers("sold", *first, "tea") == expected
        assert host.sold("tea") == [answer for _, answer in expected]
        firsts = plugins.answers("authenticate", *first, "ann")
        assert firsts == expected[:1] and host.authenticate("ann") == next((answer for _, answer in firsts), None)
        folded = plugins.answers("quote", *first, "tea", 1)
        assert [name for name, _ in folded] == [name for name, _ in expected]
        assert host.quote("tea", 1) == ([1] + [answer for _, answer in folded])[-1]
        for plugin in plugins:
            for constraint, sign in (("before", 1), ("after", -1)):
                options = rows["abcdef".index(plugin.name)][0]
                for other in options.get(constraint, ()):
                    if plugin.name in order and other in order:
                        assert sign * (order.index(other) - order.index(plugin.name)) > 0
        for plugin in plugins:
            plugin.unregister()


# Async events


class Late:
    def __init__(self, answer: str) -> None:
        self.answer = answer

    @on
    async def closing(self, reason: str) -> str:
        await asyncio.sleep(0)
        return f"{self.answer} {reason}"

    @on
    async def closed(self, reason: str) -> str:
        return f"{self.answer} {reason}"


class Sync:
    @on
    def closing(self) -> str:
        return "sync"

    @on
    def closed(self) -> str:
        return "sync"


def test_plugins_of_async_events_are_awaited_in_order(shop: Any, plugins: Plugins) -> None:
    plugins.register(Late("one"), name="one")
    plugins.register(Sync(), name="sync")
    plugins.register(Late("first"), name="first", before="one")
    for name in ("closing", "closed"):
        answers = asyncio.run(getattr(shop, name)("now"))
        assert answers == ["sync", "first now", "one now"] and plugins.order(name) == ("sync", "first", "one")
        pairs: Any = plugins.answers(name, "now")
        assert not isinstance(pairs, list)
        assert asyncio.run(pairs) == [("sync", "sync"), ("first", "first now"), ("one", "one now")]


# Plugins that fail


@pytest.mark.parametrize("errors", ["raise", "isolate", "group"])
def test_a_plugin_that_fails_does_what_the_event_says(errors: Any, caplog: pytest.LogCaptureFixture) -> None:
    @event(errors=errors)
    def sold(item: str) -> None: ...

    plugins = Plugins(module_of(sold=sold))
    error = ValueError("broken")
    plugins.register(Failing(error), name="bad")
    plugins.register(Seller("good"), name="good")
    acts: list[tuple[Any, list[Any]]] = [(sold, ["good"]), (partial(plugins.answers, "sold"), [("good", "good")])]
    for act, answers in acts:
        caplog.clear()
        if errors == "isolate":
            assert act("tea") == answers and "on hook 'bad'" in caplog.text
            continue
        with pytest.raises(ExceptionGroup if errors == "group" else ValueError) as caught:
            act("tea")
        raised: BaseException = caught.value
        assert (raised.exceptions[0] if isinstance(raised, ExceptionGroup) else raised) is error
    if errors == "isolate":
        (hook,) = plugins["bad"].hooks
        assert hook.failures == 2


def test_a_mark_may_isolate_one_method(shop: Any, plugins: Plugins, caplog: pytest.LogCaptureFixture) -> None:
    class Careful:
        @on(isolate=True)
        def sold(self) -> None:
            raise ValueError("broken")

    plugins.register(Careful())
    with caplog.at_level(logging.ERROR, logger="aspecthook"):
        assert shop.sold("tea") == []
    assert "Shop.sold of one Shop: on hook 'Careful'" in caplog.text
