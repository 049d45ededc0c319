"""The parts of generated source: names, lines, the call of a target, the call of a hook.

Pure: from shapes to text. The invariant: nothing of a user's object enters the text that is compiled, but the plain
names by which a hook asks for keywords. Objects are *pins*: words in the text for what is put in when the code is
linked; the `Role` of a pin says which object. In a template, ``$word`` is a pin or a variable of the generated code,
and ``$2`` is the third parameter of the target: targets that differ only in the names of their parameters share it.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from itertools import groupby
from sys import intern

from aspecthook._core.law.asks import Asks
from aspecthook._core.law.hook import Hook, Predicate
from aspecthook._core.law.kinds import Kind
from aspecthook._core.law.order import Chain
from aspecthook._core.law.signature import Signature, Sought, is_plain
from aspecthook._hints import Any, NamedTuple, cast

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


@lru_cache(4096)
def _shared(role: Role) -> Role:
    """Return one role for all that are equal: hundreds of templates have the same few."""
    return role


_NO_BLOCK = nullcontext()
_LIBRARY = Role("library")
_FACTS = {fact: Role(fact) for fact in FACTS}


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

    template: str
    pins: dict[str, Role]
    notes: tuple[Note, ...]
    # The pins whose objects the code looks up at each call.
    links: tuple[str, ...]
    # The parameters of the function that links the layers.
    layer_pins: tuple[str, ...]

    def compiled(self, constants: Container[str]) -> tuple[str, str]:
        """Return the source that is compiled: that of the function, and that of the function that links its layers.

        Parameters have placeholders for names. Where a pin is to be a constant, a string stands. Where the compiler
        would warn of a bare one, take one character of it, or make one constant of two in a tuple, that is in an
        expression. This becomes one constant, too, but it takes longer to compile.
        """
        function, head, layers = self.template.partition("def $linked(")
        return _filled(function, constants), head and _filled(head + layers, ())

    def shown(self, names: tuple[str, ...]) -> str:
        """Return the source that is shown, with the names of the parameters."""
        idents = [
            name if is_plain(name) else unlike(f"{PLACEHOLDER}{place}", names) for place, name in enumerate(names)
        ]
        first, *parts = self.template.split("$")
        for place, (word, part) in enumerate(zip(_words(self.template), parts, strict=True)):
            parts[place] = (idents[int(word)] if word.isdigit() else unlike(word, names)) + part[len(word) :]
        return first + "".join(parts)


# The names of the parameters in the source that is compiled: this, and their places. The constants that stand for pins
# begin with this character, which is in no other constant, and then have the pin's word.
PLACEHOLDER = "argument_"
PIN = "\1"


def _filled(template: str, constants: Container[str]) -> str:
    """Return a template with names in the place of its words, and with strings where words are to be constants."""
    first, *parts = template.split("$")
    before = first
    for place, (word, part) in enumerate(zip(_words(template), parts, strict=True)):
        if word in constants:
            constant, rest = f'"{PIN}{word}"', part[len(word) :]
            if rest.startswith(("(", "[", "):")) or before.endswith((" is ", " is not ", "except (")):
                constant = f"({constant} or 0)"
            parts[place] = constant + rest
        elif word.isdigit():
            parts[place] = PLACEHOLDER + part
        before = part
    return first + "".join(parts)


# Spaces for all characters of a template that are in no word; as bytes, which are translated ten times as fast.
_IN_WORDS = bytes([code if chr(code).isalnum() or chr(code) in "$_" else 32 for code in range(256)])


@lru_cache(1)  # the text of a new shape is read twice
def _words(template: str) -> list[str]:
    """Return the words of a template, in the order in which they stand there."""
    return [part.partition(" ")[0] for part in template.encode().translate(_IN_WORDS).decode().split("$")[1:]]


def unlike(word: str, names: Container[str]) -> str:
    """Return the name of a variable of the generated code, which differs from every parameter of the target."""
    while word in names:
        word += "_"
    return word


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

    With `slot`, the code looks up at each call what belongs to the chain or the mount point. Code that is `alone` has a
    function of its own, which nobody takes it from and no other replaces.
    """

    def __init__(
        self,
        signature: Signature,
        chain: Chain,
        *,
        slot: bool = False,
        instances: bool = False,
        alone: bool = False,
    ) -> None:
        self.signature = signature
        self.chain = chain
        self.style = signature.style
        # The words for the parameters at this point of the text: a value that is folded has another one there.
        self.idents = [f"${place}" for place in range(len(signature.names))]
        self.handed = "$call"  # what a layer is given as the call
        self.slot = slot
        self.alone = alone
        self.instances = instances
        self.awaits = "await " if self.style in ("coroutine", "async generator") else ""
        self.a = "a" if self.awaits else ""
        self.lines: list[str] = []
        self.depth = 0
        self.notes: list[Note] = []
        self.pins: dict[str, Role] = {}
        self.layer_pins: tuple[str, ...] = ()
        self.flat = ", ".join(self.idents)
        self.values = f"({self.flat}{',' if len(self.idents) == 1 else ''})"
        self.unpacked = self.flat if len(self.idents) > 1 else self.values
        self.wants_call = any(what == "call" for hook in chain.hooks for what in wanted(hook))
        self.always_wants = any(what in ("exc", "result", "call") for hook in chain.always for what in wanted(hook))
        # Where nothing runs after the target, its result is returned at once.
        self.at_once = chain.pre == chain.hooks and "generator" not in self.style and not self.wants_call
        self.gives = "return " if self.at_once else "$result = "

    # Words and lines

    def pin(self, word: str, role: Role) -> str:
        """Return the word for an object that is put in when the code is linked."""
        self.pins[intern(word)] = _shared(role)
        return "$" + word

    def pins_in(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Return the pins among the words of some lines, noting those that are the same for every chain."""
        words = dict.fromkeys(_words("\n".join(lines) + "\n"))
        for word in words:
            role = _LIBRARY if word in TABLE else _FACTS.get(word)
            if role is not None:
                self.pins[intern(word)] = role
        return tuple([word for word in words if word in self.pins])

    def line(self, template: str) -> None:
        """Write a line, in which ``$words`` stand for names (see `words`)."""
        self.lines.append("    " * self.depth + template)

    def block(self, head: str) -> AbstractContextManager[object]:
        """Write a head line; what is written inside the `with` is indented."""
        self.line(head)
        return self

    def optional(self, head: str, *, needed: bool) -> AbstractContextManager[object]:
        """Write a block, or its body alone where the head is not needed."""
        return self.block(head) if needed else _NO_BLOCK

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1

    def hide(self) -> None:
        """Hide this frame from the tracebacks of pytest and IPython; it costs one store, about a nanosecond."""
        self.line("$__tracebackhide__ = True")

    def note(self, kind: Kind, first: int, last: int) -> None:
        """Record that the next line calls these hooks."""
        self.notes.append(Note(len(self.lines), kind, first, last))

    # Calls

    def passed(self, *, keywords: bool = True) -> str:
        """Return the arguments as the target gets them."""
        signature = self.signature
        parts = self.idents[: signature.positional]
        if signature.varargs is not None:
            parts.append("*" + self.idents[signature.varargs])
        if keywords:
            parts += self._keywords("$%d=%s")
        return ", ".join(parts)

    def _keywords(self, form: str, left_out: Sequence[int | str] = ()) -> list[str]:
        signature = self.signature
        places = range(signature.positional, signature.regular)
        parts = [form % (place, self.idents[place]) for place in places if place not in left_out]
        if signature.varkw is not None:
            extra = self.idents[signature.varkw]
            names = tuple([name for name in left_out if isinstance(name, str)])
            parts.append(f"**$without({extra}, {self._text_pin(names)})" if names else f"**{extra}")
        return parts

    def _text_pin(self, names: tuple[str, ...]) -> str:
        """Pin names that come from a hook."""
        known = [role.fields for role in self.pins.values() if role.what == "names"]
        number = known.index(names) if names in known else len(known)
        return self.pin(f"names_{number + 1}", Role("names", fields=names))

    def given(self, asks: Asks, kind: Kind, function: str) -> str:
        """Return the arguments that a hook asks for."""
        return ", ".join(part for how, what in asks for part in self._given(how, what, f'"{kind}", {function}'))

    def _given(self, how: str, what: int | str | Sought | tuple[int | str, ...], hook: str) -> list[str]:
        if isinstance(what, Sought):
            sought = self._sought(what, hook)
            return [sought if what.optional else self._passed_as(how, sought)]
        if how == "**":
            return self._keywords("$%d=%s", cast("tuple[int | str, ...]", what))
        if how == "*":
            return [self.passed(keywords=False)] if self.passed(keywords=False) else []
        return [self._passed_as(how, self._word(cast("int | str", what)))]

    def _passed_as(self, how: str, value: str) -> str:
        """Return an argument by position or by name, which is text only where it can be."""
        if how and (not is_plain(how[1:]) or how[1:].startswith(PLACEHOLDER)):
            return f"**{{{self._text_pin((how[1:],))}[0]: {value}}}"
        return (how[1:] + "=" if how else "") + value

    def _sought(self, what: Sought, hook: str) -> str:
        """Return an argument that a wrapper shows, searched where calls may have it: by position, then by name."""
        values = f"({', '.join(self.idents)}{',' if len(self.idents) == 1 else ''})"
        name = f"{self._text_pin((what.name,))}[0]"
        if what.optional:
            found = f"$shown_if_there($site, {values}, {name})"
        elif what.defaulted:
            number = [role.fields[0] for role in self.pins.values() if role.what == "default"]
            place = number.index(what.name) if what.name in number else len(number)
            found = self.pin(f"default_{place + 1}", Role("default", fields=(what.name,)))
        else:
            found = f"$shown($site, {hook}, {values}, {name})"
        if what.named and self.signature.varkw is not None and not what.optional:
            extra = self.idents[self.signature.varkw]
            found = f"{extra}[{name}] if {name} in {extra} else {found}"
        if what.place is not None and self.signature.varargs is not None:
            rest = self.idents[self.signature.varargs]
            there = f"{{{name}: {rest}[{what.place}]}}" if what.optional else f"{rest}[{what.place}]"
            test = f"$len({rest}) > {what.place}" if what.place else rest
            found = f"{there} if {test} else {found}"
        return f"**({found})" if what.optional else f"({found})"

    def _word(self, what: int | str) -> str:
        """Return the expression for one thing that hooks ask for."""
        if isinstance(what, int):
            return self.idents[what]
        if what[0] == ".":
            rest = self.signature.varargs  # where a method takes its instance among ``*args``
            first = self.idents[0] if rest is None or self.signature.positional else f"{self.idents[rest]}[0]"
            return (first + what).removesuffix(".")
        if what == "args":
            inner = self.passed(keywords=False)
            return f"({inner},)" if inner else "()"
        if what == "kwargs":
            return "{" + ", ".join(self._keywords("'$%d': %s")) + "}"
        if what == "arguments":
            return "{" + ", ".join([f"'${place}': {ident}" for place, ident in enumerate(self.idents)]) + "}"
        if what == "shown arguments":
            return f"$site.arguments({self.values})"
        return "$" + what

    def call(self) -> str:
        """Return the call object; where no hook asks for it, one is made on the spot."""
        return "$call" if self.wants_call else f"$Call($site, {self.values})"

    # One hook

    def settled(self, kind: Kind, function: str, *, often: bool = False) -> str:
        """Return what reads an answer, or refuses it; in line, if it is often a `Return`."""
        called = f'$settled($site, "{kind}", {function}, $answer)'
        return f"$answer.value if $type($answer) is $Return else {called}" if often else called

    @contextmanager
    def hook(self, kind: Kind, group: Group, *, stage: str = "", caught: str = "") -> Generator[str]:
        """Write the call of a hook, or a loop that calls many; the body of the `with` writes what reads the answer."""
        hook = group.hook
        names = self.names_of(kind, group)
        function = names["function"]
        conditions = self.conditions(hook, names, caught)
        with self.optional(self._loop(kind, group, names), needed=group.last > group.first):
            if stage and group.last > group.first:
                self.line(f"{stage} += 1")
            with (
                self.optional("try:", needed=hook.isolate),
                self.optional(f"if {conditions}:", needed=bool(conditions)),
            ):
                with self.optional("try:", needed=hook.leaves):
                    self.note(kind, group.first, group.last)
                    self.ask(hook, names)
                    yield function
                if hook.leaves:
                    with self.block("finally:"):
                        self.line("$run.leave()")
            if hook.isolate:
                with self.block("except $Exception as $slip:"):
                    self.line(f"{names['failed']}($slip)")

    def ask(self, hook: Hook, names: dict[str, str]) -> None:
        """Write the call that gets a hook's answer."""
        given = self.given(hook.asks, hook.kind, names["function"])
        waits = "await " if hook.style == "coroutine" else ""
        self.line(f"$answer = {waits}{names['function']}({given})")
        if self.awaits and not waits:
            self.await_answer()

    def await_answer(self) -> None:
        """Write the `await` of an answer of a sync hook on an async target, if the answer is awaitable."""
        with self.block("if $answer is not None and $awaitable($answer):"):
            self.line("$answer = await $answer")

    def conditions(self, hook: Hook, names: dict[str, str], caught: str = "") -> str:
        """Return the test that decides whether a hook runs; empty if it always does."""
        parts: list[str] = []
        if caught:
            parts.append(f"$isinstance({caught}, {names['types']})")
        if hook.gate is not None:
            parts.append(f"{names['gate']}({self.given(hook.gate.asks, hook.kind, names['function'])})")
        if hook.when is not None:
            asked = f"{names['when']}({self.given(hook.when.asks, hook.kind, names['function'])})"
            parts.append(self._due(hook, hook.when, asked))
        if hook.leaves:
            parts.append(f"($run := {names['admit']}())")
        elif "skips" in names:
            parts.append(f"not $next({names['skips']})")
        elif "admit" in names:
            parts.append(f"{names['admit']}()")
        return " and ".join(parts)

    def _due(self, hook: Hook, when: Predicate, asked: str) -> str:
        """Return the answer of a `when`, awaited if it may be awaitable."""
        if when.awaits:
            return f"await {asked}"
        if self.style == "coroutine" or (self.awaits and hook.kind != "around"):
            return f"((await $due) if $awaitable($due := {asked}) else $due)"
        return asked

    def names_of(self, kind: Kind, group: Group) -> dict[str, str]:
        """Return the names for the fields of a hook that the text needs: pins, or in a loop its variables."""
        fields = ["function", *_fields(group.hook, kind)]
        words = {field: f"{kind}_{group.first + 1}" + (f"_{field}" if field != "function" else "") for field in fields}
        if group.last > group.first:
            return {field: "$" + word for field, word in words.items()}
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
    predicates = [one.asks for one in (hook.gate, hook.when) if one is not None]
    return [what for asks in (hook.asks, *predicates) for _, what in asks]


def _fields(hook: Hook, kind: Kind) -> Iterator[str]:
    """Yield the fields of a hook that its conditions and its call need, besides its function."""
    if kind == "exception":
        yield "types"
    if hook.gate is not None:
        yield "gate"
    if hook.when is not None:
        yield "when"
    if hook.skips is not None:
        yield "skips"
    elif hook.guard is not None:
        yield "admit"
    if hook.isolate:
        yield "failed"
