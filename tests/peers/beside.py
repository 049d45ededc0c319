"""A peer beside a mount point of ours: the same members come and go on both, and each call of the two is compared.

The machine is the kit's own. A member is a hook on the mount point, which does nothing and keeps the place that the
options give it, and whatever the peer calls it: a receiver, a plugin, a wrapper, a middleware. The documentation of the
peer, read aloud, says what a call does with members in the order of the mount point.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import settings

from aspecthook import Hook, hookable
from aspecthook.testing import Candidate, HookMachine, LawError, Trace, law

PAGE = Path(__file__).parents[2] / "docs" / "contributing" / "peers.md"


class Boom(Exception):
    """What a member raises; its argument says which."""


class BesidePeer(HookMachine):
    """Subclasses say how a member joins and leaves the peer, what the peer does, and what it should do."""

    members: ClassVar[dict[str, dict[str, Any]]] = {}  # by name: the options of its hook

    vary = ()
    disturb = ()
    # What no peer can do.
    clear = move = pause = pause_all = rebuild = resume = resume_all = None

    def make(self) -> Any:
        self.ran: list[str] = []
        self.joined: dict[int, Any] = {}
        self.start()

        @hookable
        def spot() -> None: ...

        return spot

    @property
    def candidates(self) -> list[Candidate]:
        return [Candidate("pre", lambda: None, name=name, **options) for name, options in self.members.items()]

    def attach(self, candidate: Candidate) -> Hook:
        hook = super().attach(candidate)
        self.joined[id(hook)] = self.join(candidate.name)
        return hook

    def detach(self, hook: Hook) -> None:
        super().detach(hook)
        self.leave(self.joined.pop(id(hook)))

    # To be overridden

    def start(self) -> None:
        """Make what members join."""

    def join(self, name: str) -> Any:
        """Have the peer call a member, and give what `leave` needs."""

    def leave(self, joined: Any) -> None:
        """Have the peer no longer call it."""

    def act(self) -> Any:
        """Make one call of the peer; members note in `ran` what they do."""

    def documented(self, names: list[str]) -> Any:
        """Do what the documentation says of these members, in the order of the mount point."""

    def result(self, act: Callable[[], Any]) -> list[str]:
        self.ran.clear()
        try:
            made = act()
        except Boom as error:
            return [*self.ran, f"raises {error}"]
        return [*self.ran, *([] if made is None else [f"gives {made}"])]

    @law
    def as_documented(self, trace: Trace) -> bool:
        names = [name for name in trace.names if name != "spot"]
        due = self.result(lambda: self.documented(names))
        done = self.result(self.act)
        assert done == due, f"{', '.join(done)}, and not {', '.join(due)}"
        return True


class Layers(BesidePeer):
    """Members lie around one another. A name says what a layer does; ``a`` only passes the call on."""

    members: ClassVar[dict[str, dict[str, Any]]] = {
        "a": {},
        "answers": {},  # in place of what it lies around
        "raises": {},  # before what it lies around has begun
        "fails": {},  # after that has ended
        "recovers": {},  # from what that has raised
    }

    def spot(self) -> str:
        self.ran.append("spot")
        return self.answer("spot")

    def answer(self, name: str) -> str:
        """Return what the spot, or a layer in its place, answers."""
        return name

    def layer(self, name: str, proceed: Callable[[], Any]) -> Any:
        """Do what one layer does: note its beginning, and its end or what it sees raised."""
        self.ran.append(f"{name} begins")
        if name == "answers":
            return self.answer(name)
        if name == "raises":
            raise Boom(name)
        try:
            made = proceed()
        except Boom as error:
            self.ran.append(f"{name} sees {error}")
            if name == "recovers":
                return self.answer(name)
            raise
        self.ran.append(f"{name} ends")
        if name == "fails":
            raise Boom(name)
        return made

    def nested(self, names: Iterable[str]) -> Any:
        """Call the spot in these layers, the first one outermost: Python's own `try` and `return`."""
        first, *rest = [*names, ""]
        return self.layer(first, lambda: self.nested(rest[:-1])) if first else self.spot()


def peer_test(machine: type[BesidePeer]) -> Any:
    """Return the test case of a machine."""
    case: Any = machine.TestCase
    case.settings = settings(max_examples=20, stateful_step_count=15, deadline=None)
    return case


def story_of(machine: type[BesidePeer]) -> str:
    """Run a machine that believes too much, and give the shortest story that the kit tells, which the page shows too.

    Its last two lines are what the peer does, and what the machine believes.
    """
    with pytest.raises(LawError) as caught:
        peer_test(machine)().runTest()
    [note] = [note for note in caught.value.__notes__ if note.startswith("To see it again")]
    steps = [line.strip() for line in note.splitlines() if line.strip().startswith(("state.add", "state.remove"))]
    story = "\n".join([*steps, *(f"# {line}" for line in re.split(", (?=and not )", str(caught.value.__cause__)))])
    assert story in PAGE.read_text(), f"docs/contributing/peers.md does not show this story:\n{story}"
    return story
