"""Which plugin answered what, of events of every sort."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aspecthook import HookOrderError, PluginError, Return, hooks, on, post, pre
from aspecthook.plugins import Plugins
from tests.plugins.shop import Seller, fresh_host, message, trace_left, unchanged


def test_answers_of_a_plain_function_are_refused(shop: Any, plugins: Plugins) -> None:
    """It was called, and gave an empty list."""
    called: list[str] = []
    hooks(shop.restock).pre(lambda item: called.append(item))
    assert message(PluginError, lambda: plugins.answers("restock", "tea")) == (
        "Shop: 'restock' is hookable but not an event, so nobody answers; call it instead"
    )
    assert not called


def test_none_that_is_returned_and_false_are_answers_and_the_first_of_them_is_the_first(
    shop: Any, plugins: Plugins
) -> None:
    class Answers(Seller):
        @on
        def authenticate(self) -> Any:
            return self.answer

    for name, answer in (("silent", None), ("none", Return(None)), ("false", False)):
        plugins.register(Answers(answer), name)
    assert plugins.answers("sold", "tea") == [("none", None), ("false", False)]
    assert shop.sold("tea") == [None, False]
    assert shop.authenticate("tea") is None
    plugins.unregister("none")
    assert shop.authenticate("tea") is False


ORDERS = st.fixed_dictionaries(
    {},
    optional={
        "priority": st.integers(0, 100),
        "before": st.lists(st.sampled_from("abcdef"), max_size=2),
        "after": st.lists(st.sampled_from("abcdef"), max_size=2),
        "enabled": st.booleans(),
    },
)


class Sale:
    """An answer that could be awaited, which the event does not do."""

    def __await__(self) -> Any:
        raise AssertionError("awaited")


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
        return None if self.answer is None else Return(self.answer)

    # One method with two marks, and one method with two names.
    @pre("sold")
    @post("quote")
    def watch(self) -> None: ...

    again = sold

    def __eq__(self, other: object) -> bool:  # plugins are told apart by identity
        return True

    __hash__ = None  # type: ignore[assignment]


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
        for plugin in plugins:
            assert plugins[plugin.object] is plugins[plugin] is plugin
            assert plugin.implements == ("sold", "quote", "authenticate")
            assert sorted(hook.kind for hook in plugin.hooks) == ["on", "on", "on", "post", "pre"]
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
        # A subscriber of the one instance, which is no plugin; and arguments by name.
        alone = hooks(host.sold).add("on", lambda: Sale(), name="alone")
        own = {"self": host} if of_class else {}
        for given in (((*first, "tea"), {}), ((), {**own, "item": "tea"})):
            pairs = plugins.answers("sold", *given[0], **given[1])
            assert [name for name, _ in pairs if name != "alone"] == [name for name, _ in expected]
            assert [type(answer) for _, answer in pairs] == [type(answer) for answer in host.sold("tea")]
        alone.remove()
        for plugin in plugins:
            for constraint, sign in (("before", 1), ("after", -1)):
                options = rows["abcdef".index(plugin.name)][0]
                for other in options.get(constraint, ()):
                    if plugin.name in order and other in order:
                        assert sign * (order.index(other) - order.index(plugin.name)) > 0
        for plugin in plugins:
            plugin.unregister()
