"""Law 4 for what has no Python code: its proxy and the work of others come and go in any order, under many names.

The model knows what is under each name. While there are hooks, each change puts the proxy wherever the original is;
the last removal puts the original wherever the proxy is. What others have put there is left alone, and displaces us.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from aspecthook import Hook
from aspecthook._foreign.point import mount_in_place, proxied

PLACES = st.sampled_from([("oracle_places", "a"), ("oracle_places", "b"), ("oracle_elsewhere", "c")])
Place = tuple[str, str]


class Places(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []
        self.original: Any = partial(int)
        self.modules = {name: ModuleType(name) for name in ("oracle_places", "oracle_elsewhere")}
        sys.modules.update(self.modules)
        # What is under each name; a name that was dropped has None.
        self.now: dict[Place, Any] = {("oracle_places", "a"): self.original}
        self.write()
        self.mount = mount_in_place(self.original, "oracle_places:a")
        self.over: dict[int, Any] = {}  # what each of their functions was put over
        self.kept: list[Any] = [self.original, self.mount.proxy]
        self.hooks: list[Hook] = []
        self.known: dict[Place, bool] = {}  # where the proxy was put, and whether it was displaced when it had to leave

    def write(self) -> None:
        for (module, name), value in self.now.items():
            vars(self.modules[module]).pop(name, None) if value is None else setattr(self.modules[module], name, value)

    def expected(self, value: Any) -> list[str]:
        """Return what a call notes."""
        if id(value) in self.over:
            return ["theirs", *self.expected(self.over[id(value)])]
        return [hook.name for hook in self.hooks] if value is self.mount.proxy else []

    def is_theirs(self, place: Place) -> bool:
        return self.now.get(place) is not self.original and self.now.get(place) is not self.mount.proxy

    def heal(self) -> None:
        """Record that without hooks the original is wherever the proxy was."""
        if not self.hooks:
            self.known = {place: was and self.is_theirs(place) for place, was in self.known.items()}
            self.now.update({place: self.original for place, one in self.now.items() if one is self.mount.proxy})

    def change(self, act: Callable[[], object]) -> None:
        """Add or remove a hook, and check what is under each name."""
        was_open = bool(self.hooks)
        act()
        if self.hooks:
            self.known = dict.fromkeys(self.known if was_open else (), False)
            for place in [place for place, one in self.now.items() if one is self.original]:
                self.now[place], self.known[place] = self.mount.proxy, False
        elif was_open:
            self.known = {place: self.is_theirs(place) for place in self.known}
            self.heal()
        self.look()

    def look(self) -> None:
        for (module, name), value in self.now.items():
            assert vars(self.modules[module]).get(name) is value
        assert (proxied(self.original) is self.mount) == bool(self.hooks)

    # Steps of ours

    @rule()
    def add(self) -> None:
        name = f"hook {len(self.hooks)}"
        self.change(lambda: self.hooks.append(self.mount.add("pre", lambda: self.log.append(name), name=name)))

    @precondition(lambda self: self.hooks)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        place = data.draw(st.integers(0, len(self.hooks) - 1))
        self.change(lambda: self.hooks.pop(place).remove())

    @rule()
    def is_displaced(self) -> None:
        self.heal()
        ours = (self.mount.proxy, None) if self.hooks else (self.mount.proxy, self.original, None)
        others = [one for one, was in self.known.items() if (was or self.hooks) and self.now[one] not in ours]
        assert self.mount.displaced == bool(others)
        self.look()

    # Steps of others

    @rule(place=PLACES, data=st.data())
    def put(self, place: Place, data: st.DataObject) -> None:
        self.now[place] = data.draw(st.sampled_from(self.kept))
        self.write()

    @rule(place=PLACES)
    def wrap(self, place: Place) -> None:
        before = self.now.get(place)
        if before is not None:

            def theirs(x: int) -> object:
                self.log.append("theirs")
                return before(x)

            self.over[id(theirs)] = before
            self.kept.append(theirs)
            self.now[place] = theirs
            self.write()

    @rule(place=PLACES)
    def drop(self, place: Place) -> None:
        self.now[place] = None
        self.write()

    @rule(name=st.sampled_from(["oracle_places", "oracle_elsewhere"]))
    def reload(self, name: str) -> None:
        """Give a module new objects, but under the names that have our proxy, as weaving does."""
        for place in self.now:
            if place[0] == name and self.is_theirs(place) and self.now[place] is not None:
                self.now[place] = partial(int)
        self.write()
        self.mount.moved_on(self.modules[name])
        self.known = {one: was for one, was in self.known.items() if one[0] != name or not self.is_theirs(one)}

    @rule(data=st.data())
    def call(self, data: st.DataObject) -> None:
        value = data.draw(st.sampled_from([*self.kept, *filter(None, self.now.values())]))
        expected, inner = self.expected(value), value
        self.log.clear()
        assert value("5") == 5
        assert self.log == expected
        while id(inner) in self.over:
            inner = self.over[id(inner)]
        if inner is self.mount.proxy:
            self.heal()
        self.look()

    def teardown(self) -> None:
        while self.hooks:
            self.change(lambda: self.hooks.pop().remove())
        self.is_displaced()
        for name in self.modules:
            del sys.modules[name]


TestPlaces = Places.TestCase
# Shrinking would only cost time here.
PHASES = [Phase.explicit, Phase.generate]
TestPlaces.settings = settings(max_examples=2 * settings().max_examples, stateful_step_count=20, phases=PHASES)
