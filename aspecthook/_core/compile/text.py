"""The parts of generated source: names, lines, the call of a target, the call of a hook.

Pure: from shapes to text. The invariant: nothing of a user's object enters the text but parameter names that are plain
identifiers. Every other object is a *pin*: a name in the text for an object that is put in when the code is linked. Its
`Role` says which object.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

from aspecthook._core.law.asks import Asks
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.kinds import Kind
from aspecthook._core.law.order import Chain
from aspecthook._core.law.records import NamedTuple
from aspecthook._core.law.signature import Signature, is_plain

from .words import FACTS, TABLE

# This many neighbours of one shape, or more, are written as a loop (docs/performance.md has the measurement).
LOOP_FROM = 24


class Role(NamedTuple):
    """What a pin stands for: an object of the library or the mount point, or fields of the hooks `first` to `last`."""

    what: str
    kind: Kind = "pre"
    first: int = 0
    last: int = 0
    fields: tuple[str, ...] = ()


class Note(NamedTuple):
    """Which hooks a line of the text calls."""

    line: int
    kind: Kind
    first: int
    last: int


class Group(NamedTuple):
    """A hook, or neighbours in a chain that are of one shape and are written as a loop."""

    hook: Hook
    first: int
    last: int


class Text(NamedTuple):
    """Generated source, what its pins stand for, and which lines call which hooks."""

    source: str
    pins: dict[str, Role]
    notes: tuple[Note, ...]
    # The pins whose objects the code looks up at each call.
    links: tuple[str, ...]
    # The parameters of the function that links the layers, and the pin for its result.
    layer_pins: tuple[str, ...]
    inside: str


_WORD = re.compile(r"\$(\w+)")


def groups(hooks: Sequence[Hook]) -> Iterator[Group]:
    """Split a chain into loops and single hooks."""
    place = 0
    for _, same in groupby(hooks, key=lambda hook: hook.shape):
        neighbours = list(same)
        if len(neighbours) >= LOOP_FROM:
            yield Group(neighbours[0], place, place + len(neighbours) - 1)
        else:
            for step, hook in enumerate(neighbours):
                yield Group(hook, place + step, place + step)
        place += len(neighbours)


class Writer:
    """Writes the lines of one function, for one signature and one chain.

    With `weak`, the code looks up its target at each call, and with `loose` the hooks that may die before their
    modules; else they are constants. Code that is `bound` has a function of its own, which nobody takes it from.
    """

    def __init__(
        self,
        signature: Signature,
        chain: Chain,
        *,
        weak: bool = False,
        loose: bool = False,
        instances: bool = False,
        bound: bool = False,
    ) -> None:
        self.signature = signature
        self.chain = chain
        self.style = signature.style
        # The names of the parameters at this point of the text: a value that is folded has another name there.
        self.idents = list(signature.idents)
        self.weak = weak
        self.loose = loose
        self.bound = bound
        self.instances = instances
        self.awaits = "await " if self.style in ("coroutine", "async generator") else ""
        self.a = "a" if self.awaits else ""
        self.lines: list[str] = []
        self.depth = 0
        self.notes: list[Note] = []
        self.pins: dict[str, Role] = {}
        self.in_layers = False
        self.layer_pins: list[str] = []
        self.flat = ", ".join(signature.idents)
        self.values = f"({self.flat}{',' if len(signature.idents) == 1 else ''})"
        self.unpacked = self.flat if len(signature.idents) > 1 else self.values
        everything = chain.everything()
        self.wants_call = any(what == "call" for hook in everything for what in wanted(hook))
        self.always_wants = any(what in ("exc", "result", "call") for hook in chain.always for what in wanted(hook))

    # Words and lines

    def own(self, word: str) -> str:
        """Return the name of a variable of the generated code, which differs from every parameter of the target."""
        while word in self.signature.index:
            word += "_"
        return word

    def pin(self, word: str, role: Role) -> str:
        """Return the name of an object that is put in when the code is linked."""
        name = self.own(word)
        self.pins[name] = role
        if self.in_layers and name not in self.layer_pins:
            self.layer_pins.append(name)
        return name

    def _name(self, word: re.Match[str]) -> str:
        """Return the name that replaces one ``$word`` of a template."""
        if word[1] in TABLE:
            return self.pin(word[1], Role("library " + word[1]))
        return self.pin(word[1], Role(word[1])) if word[1] in FACTS else self.own(word[1])

    def line(self, template: str) -> None:
        """Write a line, its ``$words`` replaced by names (see `words`)."""
        self.lines.append("    " * self.depth + _WORD.sub(self._name, template))

    @contextmanager
    def block(self, head: str) -> Generator[None]:
        """Write a head line; what is written inside is indented."""
        self.line(head)
        self.depth += 1
        yield
        self.depth -= 1

    @contextmanager
    def optional(self, head: str, *, needed: bool) -> Generator[None]:
        """Write a block, or its body alone where the head is not needed."""
        if needed:
            with self.block(head):
                yield
        else:
            yield

    def hide(self) -> None:
        """Hide this frame from the tracebacks of pytest and IPython; it costs one store, about a nanosecond."""
        if "__tracebackhide__" not in self.signature.index:
            self.line("__tracebackhide__ = True")

    def note(self, kind: Kind, group: Group) -> None:
        """Record that the next line calls these hooks."""
        self.notes.append(Note(len(self.lines), kind, group.first, group.last))

    # Calls

    def passed(self, *, keywords: bool = True) -> str:
        """Return the arguments as the target gets them."""
        signature = self.signature
        parts = self.idents[: signature.positional]
        if signature.varargs is not None:
            parts.append("*" + self.idents[signature.varargs])
        if keywords:
            parts += self._keywords("=", "**{{{}: {}}}")
        return ", ".join(parts)

    def _keywords(self, equals: str, odd: str, left_out: tuple[str, ...] = ()) -> list[str]:
        signature = self.signature
        parts: list[str] = []
        for place in range(signature.positional, signature.regular):
            name, ident = signature.names[place], self.idents[place]
            if name in left_out:
                continue
            key = name if equals == "=" else repr(name)
            parts.append(f"{key}{equals}{ident}" if is_plain(name) else odd.format(self._name_pin(place), ident))
        if signature.varkw is not None:
            extra = self.idents[signature.varkw]
            parts.append(f"**$without({extra}, {self._text_pin(left_out)})" if left_out else f"**{extra}")
        return parts

    def _name_pin(self, place: int) -> str:
        """Pin a parameter's name that may not stand in source."""
        return self.pin(f"name_{place}", Role("name", first=place))

    def _text_pin(self, names: tuple[str, ...]) -> str:
        """Pin names that come from a hook."""
        known = [role.fields for role in self.pins.values() if role.what == "names"]
        number = known.index(names) if names in known else len(known)
        return self.pin(f"names_{number + 1}", Role("names", fields=names))

    def given(self, asks: Asks, kind: Kind, function: str) -> str:
        """Return the arguments that a hook asks for."""
        return ", ".join(part for how, what in asks for part in self._given(how, what, f'"{kind}", {function}'))

    def _given(self, how: str, what: int | str | tuple[str, ...], hook: str) -> list[str]:
        if isinstance(what, tuple):
            return self._keywords("=", "**{{{}: {}}}", what)
        if how == "*":
            return [self.passed(keywords=False)] if self.passed(keywords=False) else []
        if isinstance(what, str) and what[0] in ":?":
            return [self._shown(how, what, hook)]
        if how and not is_plain(how[1:]):
            return [f"**{{{self._text_pin((how[1:],))}[0]: {self._word(what)}}}"]
        return [(how[1:] + "=" if how else "") + self._word(what)]

    def _shown(self, how: str, what: str, hook: str) -> str:
        """Return an argument that a wrapper shows; an optional one is left out if the call does not have it."""
        values = f"({', '.join(self.idents)}{',' if len(self.idents) == 1 else ''})"
        name = f"{self._text_pin((what[1:],))}[0]"
        found = f"$shown($site, {hook}, {values}, {name})"
        if what[0] == "?":
            return f"**$shown_if_there($site, {values}, {name})"
        return f"**{{{name}: {found}}}" if how else found

    def _word(self, what: int | str) -> str:
        """Return the expression for one thing that hooks ask for."""
        if isinstance(what, int):
            return self.idents[what]
        if what[0] == ".":
            return (self.idents[0] + what).removesuffix(".")
        if what == "args":
            inner = self.passed(keywords=False)
            return f"({inner},)" if inner else "()"
        if what == "kwargs":
            return "{" + ", ".join(self._keywords(": ", "{}: {}")) + "}"
        if what == "arguments":
            pairs = zip(self.signature.names, self.idents, strict=True)
            parts = [
                f"{name!r}: {ident}" if is_plain(name) else f"{self._name_pin(place)}: {ident}"
                for place, (name, ident) in enumerate(pairs)
            ]
            return "{" + ", ".join(parts) + "}"
        if what == "shown arguments":
            return f"$site.arguments({self.values})"
        return "$" + what

    def _relay(self, source: str, hooks: Sequence[Hook]) -> None:
        """Write what `yield from` would do; see `Source`."""
        raise NotImplementedError

    def delegate(self, callee: str) -> None:
        """Write the return of what another callable returns for this call."""
        if self.style == "async generator":
            self._relay(f"{callee}({self.passed()})", ())
            self.line("return")
            return
        lead = {"function": "return ", "coroutine": "return await ", "generator": "return (yield from "}[self.style]
        self.line(f"{lead}{callee}({self.passed()}){')' if self.style == 'generator' else ''}")

    def call(self) -> str:
        """Return the call object; where no hook asks for it, one is made on the spot."""
        return "$call" if self.wants_call else f"$Call($site, {self.values})"

    # One hook

    def wrong(self, kind: Kind, function: str) -> str:
        """Return the statement that refuses an answer."""
        return f'raise $wrong($site, "{kind}", {function}, $answer)'

    @contextmanager
    def hook(self, kind: Kind, group: Group, *, stage: str = "", caught: str = "") -> Generator[str]:
        """Write the call of a hook, or a loop that calls many; the body of the `with` writes what reads the answer."""
        hook = group.hook
        names = self.names_of(kind, group)
        function = names["function"]
        # Whether its failure is kept until the other subscribers have run.
        grouped = (
            kind == "on" and not hook.isolate and self.signature.emission is not None and self.signature.emission.group
        )
        conditions = self.conditions(hook, names, caught)
        with self.optional(self._loop(kind, group, names), needed=group.last > group.first):
            if stage and group.last > group.first:
                self.line(f"{stage} += 1")
            with (
                self.optional("try:", needed=hook.isolate or grouped),
                self.optional(f"if {conditions}:", needed=bool(conditions)),
            ):
                with self.optional("try:", needed=hook.leaves):
                    self.note(kind, group)
                    self.ask(hook, names)
                    yield function
                if hook.leaves:
                    with self.block("finally:"):
                        self.line("$run.leave()")
            if hook.isolate:
                with self.block("except $Exception as $slip:"):
                    self.line(f"{names['failed']}($slip)")
                    self._release(hook)
            elif grouped:
                with self.block("except $Exception as $slip:"):
                    self.line("$slips.append($slip)")
                    self._release(hook)

    def ask(self, hook: Hook, names: dict[str, str]) -> None:
        """Write the call that gets a hook's answer."""
        given = self.given(hook.asks, hook.kind, names["function"])
        waits = "await " if hook.flavour == "async" else ""
        if hook.ref is None:
            self.line(f"$answer = {waits}{names['function']}({given})")
        else:
            called = f"$held({given})" if hook.inner is None else f"{names['inner']}($held{given and ', ' + given})"
            self.line(f"$answer = None if ($held := {names['ref']}()) is None else {called}")
            self._release(hook)
        if self.awaits and not waits:
            self.await_answer()

    def await_answer(self) -> None:
        """Write the `await` of an answer of a sync hook on an async target, if the answer is awaitable."""
        with self.block("if $answer is not None and $awaitable($answer):"):
            self.line("$answer = await $answer")

    def _release(self, hook: Hook) -> None:
        """Write what drops the strong reference to a hook that is held weakly."""
        if hook.ref is not None:
            self.line("$held = None")

    def conditions(self, hook: Hook, names: dict[str, str], caught: str = "") -> str:
        """Return the test that decides whether a hook runs; empty if it always does."""
        parts: list[str] = []
        if caught:
            parts.append(f"$isinstance({caught}, {names['types']})")
        if hook.gate_asks is not None:
            parts.append(f"{names['gate']}({self.given(hook.gate_asks, hook.kind, names['function'])})")
        if hook.when_asks is not None:
            parts.append(
                self._due(hook, f"{names['when']}({self.given(hook.when_asks, hook.kind, names['function'])})")
            )
        if hook.leaves:
            parts.append(f"($run := {names['admit']}())")
        elif "admit" in names:
            parts.append(f"{names['admit']}()")
        return " and ".join(parts)

    def _due(self, hook: Hook, asked: str) -> str:
        """Return the answer of a `when`, awaited if it may be awaitable."""
        if hook.when_awaits:
            return f"await {asked}"
        if self.style == "coroutine" or (self.awaits and hook.kind != "around"):
            return f"((await $due) if $awaitable($due := {asked}) else $due)"
        return asked

    def names_of(self, kind: Kind, group: Group) -> dict[str, str]:
        """Return the names for the fields of a hook that the text needs: pins, or in a loop its variables."""
        fields = ["function", *_fields(group.hook, kind)]
        words = {field: f"{kind}_{group.first + 1}" + (f"_{field}" if field != "function" else "") for field in fields}
        if group.last > group.first:
            return {field: self.own(word) for field, word in words.items()}
        return {
            field: self.pin(word, Role("hook", kind, group.first, group.first, (field,)))
            for field, word in words.items()
        }

    def _loop(self, kind: Kind, group: Group, names: dict[str, str]) -> str:
        if group.last == group.first:
            return ""
        role = Role("row", kind, group.first, group.last, tuple(names))
        rows = self.pin(f"{kind}_{group.first + 1}_to_{group.last + 1}", role)
        return f"for {', '.join(names.values())} in {rows}:"


def wanted(hook: Hook) -> list[Any]:
    """Return what a hook, its gate and its `when` ask for."""
    return [what for _, what in (*hook.asks, *(hook.gate_asks or ()), *(hook.when_asks or ()))]


def _fields(hook: Hook, kind: Kind) -> Iterator[str]:
    """Yield the fields of a hook that its conditions and its call need, besides its function."""
    if kind == "exception":
        yield "types"
    if hook.gate_asks is not None:
        yield "gate"
    if hook.when_asks is not None:
        yield "when"
    if hook.guard is not None:
        yield "admit"
    if hook.isolate:
        yield "failed"
    if hook.ref is not None:
        yield "ref"
    if hook.inner is not None:
        yield "inner"
