"""What generated source is made of: names, lines, the call of a target, the call of a hook.

Pure: from shapes to text. Nothing of a user's object enters the text but parameter names that are plain identifiers.
Every other object is a *pin*: a name in the text that stands for something which is put in when the code is linked.
What a pin stands for is said by a `Role`.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

from aspecthook._core.law.asks import Asks, Kind
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.order import Chain
from aspecthook._core.law.records import NamedTuple
from aspecthook._core.law.signature import Signature, is_plain

from .words import FACTS, TABLE

# From so many neighbours of one shape on, they are written as a loop (see docs/performance.md for the measurement).
LOOP_FROM = 24


class Role(NamedTuple):
    """What a pin stands for: something of the mount point, or the fields of the hooks from `first` to `last`."""

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
    """Neighbours in a chain that share one shape, and so one piece of text."""

    hook: Hook
    first: int
    last: int


class Text(NamedTuple):
    """Generated source, what its pins stand for, and which lines call which hooks."""

    source: str
    pins: dict[str, Role]
    notes: tuple[Note, ...]
    links: tuple[str, ...]
    layer_pins: tuple[str, ...]
    inside: str


_WORD = re.compile(r"\$(\w+)")


def groups(hooks: Sequence[Hook]) -> Iterator[Group]:
    """Split a chain into its loops and its single hooks."""
    place = 0
    for _, same in groupby(hooks, key=lambda hook: hook.shape):
        row = list(same)
        if len(row) >= LOOP_FROM:
            yield Group(row[0], place, place + len(row) - 1)
        else:
            for step, hook in enumerate(row):
                yield Group(hook, place + step, place + step)
        place += len(row)


class Writer:
    """Writes lines; knows the words of one signature and one chain."""

    def __init__(self, signature: Signature, chain: Chain, *, weak: int = 0, instances: bool = False) -> None:
        self.signature = signature
        self.chain = chain
        self.style = signature.style
        # How the parameters are called where the text is: a value that is folded has another name.
        self.idents = list(signature.idents)
        self.weak = weak
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
        """Return the name of a variable of the generated code; no parameter of the target has it."""
        while word in self.signature.index:
            word += "_"
        return word

    def pin(self, word: str, role: Role) -> str:
        """Return the name of something that is put in when the code is linked."""
        name = self.own(word)
        self.pins[name] = role
        if self.in_layers and name not in self.layer_pins:
            self.layer_pins.append(name)
        return name

    def _name(self, word: re.Match[str]) -> str:
        """Return what stands for one ``$word`` of a template."""
        if word[1] in TABLE:
            return self.pin(word[1], Role("library " + word[1]))
        return self.pin(word[1], Role(word[1])) if word[1] in FACTS else self.own(word[1])

    def line(self, template: str) -> None:
        """Write a line, with names in place of its words (see `words`)."""
        self.lines.append("    " * self.depth + _WORD.sub(self._name, template))

    @contextmanager
    def block(self, head: str) -> Generator[None]:
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
        """Tell pytest and IPython to leave this frame out of tracebacks; it costs one store, about a nanosecond."""
        if "__tracebackhide__" not in self.signature.index:
            self.line("__tracebackhide__ = True")

    def note(self, kind: Kind, group: Group) -> None:
        self.notes.append(Note(len(self.lines), kind, group.first, group.last))

    # Calls

    def passed(self, *, keywords: bool = True) -> str:
        """Write the arguments as the target gets them."""
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
        """Pin names that a hook has given."""
        known = [role.fields for role in self.pins.values() if role.what == "names"]
        number = known.index(names) if names in known else len(known)
        return self.pin(f"names_{number + 1}", Role("names", fields=names))

    def given(self, asks: Asks, kind: Kind, function: str) -> str:
        """Write the arguments that a hook asks for."""
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
        """Write an argument that a wrapper shows; one that the hook can do without is left out if the call has none."""
        values = f"({', '.join(self.idents)}{',' if len(self.idents) == 1 else ''})"
        name = f"{self._text_pin((what[1:],))}[0]"
        found = f"$shown($site, {hook}, {values}, {name})"
        if what[0] == "?":
            return f"**$shown_if_there($site, {values}, {name})"
        return f"**{{{name}: {found}}}" if how else found

    def _word(self, what: int | str) -> str:
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
            return f"$site.signature.arguments({self.values})"
        return "$" + what

    def _relay(self, source: str, hooks: Sequence[Hook]) -> None:
        """Write what `yield from` would do; the layer above knows how."""
        raise NotImplementedError

    def delegate(self, callee: str) -> None:
        """Leave the whole call to another callable."""
        if self.style == "async generator":
            self._relay(f"{callee}({self.passed()})", ())
            self.line("return")
            return
        lead = {"function": "return ", "coroutine": "return await ", "generator": "return (yield from "}[self.style]
        self.line(f"{lead}{callee}({self.passed()}){')' if self.style == 'generator' else ''}")

    def call(self) -> str:
        """Write the call object; where no hook asks for it, one is made."""
        return "$call" if self.wants_call else f"$Call($site, {self.values})"

    # One hook

    def wrong(self, kind: Kind, function: str) -> str:
        """Write the refusal of an answer."""
        return f'raise $wrong($site, "{kind}", {function}, $answer)'

    @contextmanager
    def hook(self, kind: Kind, group: Group, *, stage: str = "", caught: str = "") -> Generator[str]:
        """Write the call of a hook, or of a row of them; inside, what to do with its answer is written."""
        hook = group.hook
        names = self.row(kind, group)
        function = names["function"]
        # Its failure waits for those of the others.
        waits = (
            kind == "on" and not hook.isolate and self.signature.emission is not None and self.signature.emission.group
        )
        conditions = self.conditions(hook, names, caught)
        with self.optional(self._loop(kind, group, names), needed=group.last > group.first):
            if stage and group.last > group.first:
                self.line(f"{stage} += 1")
            with (
                self.optional("try:", needed=hook.isolate or waits),
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
                    self._let_go_of_weak(hook)
            elif waits:
                with self.block("except $Exception as $slip:"):
                    self.line("$slips.append($slip)")
                    self._let_go_of_weak(hook)

    def ask(self, hook: Hook, names: dict[str, str]) -> None:
        given = self.given(hook.asks, hook.kind, names["function"])
        waits = "await " if hook.flavour == "async" else ""
        if hook.ref is None:
            self.line(f"$answer = {waits}{names['function']}({given})")
        else:
            called = f"$held({given})" if hook.inner is None else f"{names['inner']}($held{given and ', ' + given})"
            self.line(f"$answer = None if ($held := {names['ref']}()) is None else {called}")
            self._let_go_of_weak(hook)
        if self.awaits and not waits:
            self.await_answer()

    def await_answer(self) -> None:
        """Await what a sync hook of something async has answered, if it can be."""
        with self.block("if $answer is not None and $awaitable($answer):"):
            self.line("$answer = await $answer")

    def _let_go_of_weak(self, hook: Hook) -> None:
        if hook.ref is not None:
            self.line("$held = None")

    def conditions(self, hook: Hook, names: dict[str, str], caught: str = "") -> str:
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
        if hook.when_awaits:
            return f"await {asked}"
        if self.style == "coroutine" or (self.awaits and hook.kind != "around"):
            return f"((await $due) if $awaitable($due := {asked}) else $due)"
        return asked

    def row(self, kind: Kind, group: Group) -> dict[str, str]:
        """Name what of a hook the text needs: pins, or, in a loop, the variables of the loop."""
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
    """List what a hook, its gate and its `when` ask for."""
    return [what for _, what in (*hook.asks, *(hook.gate_asks or ()), *(hook.when_asks or ()))]


def _fields(hook: Hook, kind: Kind) -> Iterator[str]:
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
