"""Events of classes and of single instances."""

from __future__ import annotations

import gc
import weakref

import pytest

from aspecthook import Args, event, hooks
from tests.events.samples import failing


def test_event_of_a_class_acts_for_one_instance_and_for_all() -> None:
    class Sensor:
        name = "kitchen"

        @event
        def changed(self, celsius: float) -> None: ...

    kitchen, cellar = Sensor(), Sensor()
    cellar.name = "cellar"
    Sensor.changed.on(lambda self, celsius: ("all", self.name, celsius))
    hooks(kitchen.changed).on(lambda celsius: ("kitchen", celsius), priority="HIGH")
    assert kitchen.changed(20.0) == [("kitchen", 20.0), ("all", "kitchen", 20.0)]
    assert cellar.changed(8.0) == [("all", "cellar", 8.0)]
    assert [hook.kind for hook in hooks(kitchen.changed)] == ["on"] and "changed" not in vars(kitchen)
    gone = weakref.ref(kitchen)
    del kitchen
    gc.collect()
    assert gone() is None and cellar.changed(8.0) == [("all", "cellar", 8.0)]
    hooks(Sensor.changed).clear()
    assert cellar.changed(8.0) == []


@pytest.mark.usefixtures("no_logging")
def test_hooks_of_every_kind_on_the_events_of_one_instance() -> None:
    class Sensor:
        @event
        def listed(self, n: int) -> None: ...

        @event(fold="n")
        def folded(self, n: int) -> None: ...

        @event(errors="isolate")
        def safe(self, n: int) -> None: ...

    one, other = Sensor(), Sensor()
    mount = hooks(one.listed)
    mount.pre(lambda n: Args(n=n + 1))
    mount.around(lambda proceed: [*proceed(), "around"])
    mount.post(lambda result: [*result, "post"])
    mount.add("on", lambda self, n: (self is one, n))
    assert one.listed(1) == [(True, 2), "around", "post"] and other.listed(1) == []
    hooks(one.folded).on(lambda n: n * 2)
    Sensor.folded.on(lambda n: n + 1)
    assert one.folded(3) == 7 and other.folded(3) == 4  # type: ignore[comparison-overlap]
    hooks(one.safe).on(failing)
    assert one.safe(1) == []
