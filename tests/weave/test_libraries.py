"""Libraries whose objects take hooks in a way of their own, as those of PyTorch do: here one that stands in for it."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from aspecthook import HookTypeError, WeaveError, event, pre, weave
from aspecthook.weave import _libraries, _plans
from aspecthook.weave._spots import Chosen, Spot, spot_of_object


class Toy:
    """An object whose `play` carries its hooks; those of the word `wound` are told when it is."""

    def play(self, tune: str) -> str:
        return tune

    def wind(self, turns: int) -> int:
        self.wound(turns)
        return turns

    @event
    def wound(self, turns: int) -> None: ...

    def name(self) -> str:
        return "toy"


class Toys:
    """What knows how to weave toys."""

    def __init__(self) -> None:
        self.warned: list[object] = []

    def takes(self, target: object) -> bool:
        return type(target) is Toy

    def choose(
        self, target: Any, names: Any, words: Iterable[str], where: Callable[[Any], object] | None
    ) -> dict[str, Chosen]:
        methods = {"call": target.play, "wound": target.wound}
        return {word: Chosen(f"{word} of a toy", [spot(methods[word])]) for word in words}

    def spot_of_method(self, method: types.MethodType) -> Spot | None:
        return spot(method.__self__.play) if method.__name__ == "name" else None

    def warn_of(self, function: object) -> None:
        self.warned.append(function)


def spot(method: Any) -> Spot:
    found = spot_of_object(method)
    assert found is not None
    return found


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> Iterator[Toys]:
    library = Toys()
    home, ours = types.ModuleType("ahw_toys"), types.ModuleType("ahw_toys_of_ours")
    setattr(ours, "library", library)
    for module in (home, ours):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    entry = _libraries.KnownLibrary(ours.__name__, "toys", ("wound", "sold"), frozenset({"play"}))
    monkeypatch.setitem(_libraries.TABLE, "ahw_toys", entry)
    monkeypatch.setattr(_plans, "WORDS", ("wound", "sold"))
    monkeypatch.setattr(Toy, "__module__", "ahw_toys.small")
    yield library
    for function in (Toy.play, Toy.wind, Toy.name):
        assert vars(function) == {}


def test_hooks_of_each_word_go_where_the_library_says(toys: Toys) -> None:
    toy, other, seen = Toy(), Toy(), list[Any]()
    with weave(toy, pre=lambda tune: seen.append(tune), wound=lambda turns: seen.append(turns)) as weaving:
        assert (toy.play("la"), toy.wind(2), other.play("lo")) == ("la", 2, "lo")
        assert len(weaving.mounts) == 2
    toy.play("la")
    assert seen == ["la", 2]


def test_a_method_has_its_hooks_where_the_library_says(toys: Toys) -> None:
    toy, seen = Toy(), list[str]()
    with weave(toy.name, pre=lambda tune: seen.append(tune)):
        toy.name()
        toy.play("la")
    with weave(toy.wind, pre=lambda turns: seen.append(str(turns))):  # the library leaves it to the method itself
        toy.wind(3)
    assert seen == ["la", "3"]


def test_the_marked_methods_of_an_aspect_go_on_an_object_of_a_library(toys: Toys) -> None:
    seen: list[Any] = []

    class Listens:
        @pre
        def here(self, tune: str) -> None:
            seen.append(tune)

        @pre("tests.weave.test_libraries:Toy.wind")
        def there(self, turns: int) -> None:
            seen.append(turns)

    toy = Toy()
    with weave(toy, aspect=Listens()):
        toy.play("la")
        toy.wind(2)
    assert seen == ["la", 2]


def test_a_library_is_asked_to_warn_of_the_methods_that_it_calls_itself(toys: Toys) -> None:
    with weave(Toy.play, pre=lambda: None), weave(Toy.wind, pre=lambda: None):
        pass
    assert toys.warned == [Toy.play]


def test_an_object_that_the_library_does_not_take_is_woven_as_any_other(toys: Toys) -> None:
    class Tiny(Toy):
        def __call__(self) -> int:
            return 1

    tiny = Tiny()
    with weave(tiny, post=lambda result: result * 2):
        assert (tiny(), Tiny()()) == (2, 1)


def refusal(*args: Any, **options: Any) -> str:
    with pytest.raises(WeaveError) as caught:
        weave(*args, **options)
    return str(caught.value)


def test_hooks_that_come_to_nothing_are_refused(toys: Toys) -> None:
    said = "no hooks are given for an object of type Toy; name them, as in weave(target, post=hook)"
    assert refusal(Toy(), wound=[]) == refusal(Toy(), "play") == said
    assert refusal(Toy(), wound=3).startswith(
        "wound=3 is not callable, and cannot be a hook on an object of type Toy, "
    )
    with pytest.raises(WeaveError, match="has no methods marked with pre, post"):
        weave(Toy())


def test_what_only_the_objects_of_a_library_take_is_refused_for_others(toys: Toys) -> None:
    def price() -> None: ...

    everybody = "modules and tensors of PyTorch, toys"
    assert refusal(price, wound=print).startswith("wound= is for toys, and <function ")
    assert refusal(price, sold=print).endswith(" is of type function")
    assert refusal(price, "layer1", pre=print).startswith(f"'layer1' is for {everybody}, and <function ")
    with pytest.raises(
        HookTypeError, match=r"^weave takes hooks by name, as in weave\(target, pre=hook\): .* has none$"
    ):
        weave(price, print)
