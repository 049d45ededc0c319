"""From source to code: compile a shape once, link it for every chain of that shape, show it in tracebacks.

The invariant: the names of pins are replaced in the syntax tree by string constants, and these by the objects in the
finished code (`code.replace(co_consts=...)`). So no object is ever turned into text, the text that is shown is the text
that was compiled, and a hook costs one LOAD_CONST.
"""

from __future__ import annotations

import _ast
import gc
import linecache  # here: an import while a hook is added breaks under a signal handler that imports too (CPython 3.11)
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from sys import version, version_info
from types import CellType, CodeType, FunctionType
from typing import Any, cast, final

from aspecthook._core.law.asks import KINDS
from aspecthook._core.law.callables import code_of
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.order import Chain
from aspecthook._core.law.signature import ITERABLE_COROUTINE, Signature, is_plain
from aspecthook._errors import printable

from .copies import Constants
from .source import Source
from .text import Role, Text
from .words import TABLE

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

# Free-threaded builds of 3.13 make every constant of a code object immortal: there, pins never become constants.
FREE_THREADED = "free-threading" in version

# Before 3.12 the compiler cannot make a tree in the middle of making one, as a finalizer may that calls what is hooked.
_FRAGILE = version_info < (3, 12)
_PLACEHOLDER = "\0aspecthook "
_MOST_TEMPLATES = 1024
_numbers = count(1)


@final
class Template:
    """The code of one shape, with placeholders where the objects of a chain go; those of the library are in place."""

    __slots__ = ("code", "consts", "layers", "number", "open_pins", "places", "text")

    def __init__(self, number: int, text: Text, code: CodeType, layers: CodeType | None) -> None:
        self.number = number
        self.text = text
        self.code = code
        self.layers = layers
        self.open_pins = tuple((pin, role) for pin, role in text.pins.items() if not role.what.startswith("library "))
        self.consts: list[object] = list(code.co_consts)
        places: list[tuple[int, str]] = []
        for place, const in enumerate(code.co_consts):
            if isinstance(const, str) and const.startswith(_PLACEHOLDER):
                pin = const[len(_PLACEHOLDER) :]
                role = text.pins[pin]
                if role.what.startswith("library "):
                    self.consts[place] = TABLE[role.what[8:]]
                else:
                    places.append((place, pin))
        self.places = tuple(places)


_templates: dict[object, Template] = {}


def template(
    signature: Signature,
    chain: Chain | None,
    *,
    free: int = 0,
    weak: bool = False,
    instances: bool = False,
    cells: bool = False,
) -> Template:
    """Give the template for a shape; `chain` None stands for the stub. At most some thousand shapes are kept."""
    shapes = None if chain is None else tuple([hook.shape for hook in chain.everything()])
    key = (signature.shape, shapes, free, weak, instances, cells)
    found = _templates.get(key)
    if found is None:
        number = next(_numbers)
        writer = Source(signature, chain or Chain(()), weak=number if weak else 0, instances=instances)
        text = writer.stub() if chain is None else writer.text()
        found = Template(number, text, *(compiled_in_cells(text) if cells else compiled(text, free)))
        # A list, made in one step: another thread may keep a shape meanwhile.
        for oldest in list(_templates)[: max(0, len(_templates) - _MOST_TEMPLATES + 1)]:
            _templates.pop(oldest, None)
        _templates[key] = found
    return found


def compiled(text: Text, free: int) -> tuple[CodeType, CodeType | None]:
    """Compile a text: the function, nested so that it has `free` free variables, and what links its layers."""
    tree: Any = _parsed(text.source)
    function = tree.body[0]
    _pin(function, text.pins.keys() - set(text.links))
    if free:
        names = [f"free_{number}_{len(text.source)}" for number in range(free)]
        outer: Any = _parsed(f"def outer({', '.join(names)}):\n if 0: {', '.join(names)}")
        function.body[:0] = outer.body[0].body
        outer.body[0].body = [function]
        tree.body[0] = outer.body[0]
    module = compile(tree, "<aspecthook>", "exec", dont_inherit=True)
    found = [const for const in module.co_consts if isinstance(const, CodeType)]
    code = next(const for const in found[0].co_consts if isinstance(const, CodeType)) if free else found[0]
    return code, (found[1] if len(found) > 1 else None)


def compiled_in_cells(text: Text) -> tuple[CodeType, CodeType | None]:
    """Compile a text so that all its pins are free variables."""
    tree: Any = _parsed(text.source)
    _pin(tree.body[0], set())
    outer: Any = _parsed(f"def outer({', '.join(text.pins)}):\n pass")
    outer.body[0].body = [tree.body[0]]
    tree.body[0] = outer.body[0]
    module = compile(tree, "<aspecthook>", "exec", dont_inherit=True)
    found = [const for const in module.co_consts if isinstance(const, CodeType)]
    code = next(const for const in found[0].co_consts if isinstance(const, CodeType))
    return code, (found[1] if len(found) > 1 else None)


def _parsed(source: str) -> Any:
    """Give the syntax tree of a source."""
    if not _FRAGILE or not gc.isenabled():
        return compile(source, "<aspecthook>", "exec", _ast.PyCF_ONLY_AST, dont_inherit=True)
    gc.disable()
    try:
        return compile(source, "<aspecthook>", "exec", _ast.PyCF_ONLY_AST, dont_inherit=True)
    finally:
        gc.enable()


# Fields of syntax nodes that hold no node; walking only the others takes a third of the time.
_LEAVES = frozenset({"id", "ctx", "ops", "op", "name", "attr", "arg", "type_comment", "conversion", "kind", "is_async"})
_fields: dict[type, tuple[str, ...]] = {_ast.Constant: (), _ast.Name: ()}


def _pin(function: Any, pins: set[str]) -> None:
    """Replace the names of pins by constants, where they stand."""
    waiting: list[Any] = [function]
    while waiting:
        node = waiting.pop()
        kind = cast("type[_ast.AST]", type(node))
        fields = _fields.get(kind)
        if fields is None:
            fields = _fields[kind] = tuple(field for field in node._fields if field not in _LEAVES)
        for field in fields:
            child = getattr(node, field)
            if isinstance(child, list):
                row: list[Any] = getattr(node, field)
                for place, one in enumerate(row):
                    row[place] = _pinned(one, pins, waiting)
                    if place and type(one) is _ast.If:
                        _join(row[place - 1], one)
            elif child is not None:
                setattr(node, field, _pinned(child, pins, waiting))


def _pinned(node: Any, pins: set[str], waiting: list[Any]) -> Any:
    """Give what takes the place of a node; one that is no name is left to be walked."""
    if type(node) is _ast.Name:
        return _constant(node) if node.id in pins else node
    if node is not None:
        waiting.append(node)
    return node


def _join(before: Any, branch: Any) -> None:
    """Let the test of an answer stand in the line that got it: CPython fuses instructions only within a line (3.13)."""
    test = branch.test
    if type(before) is not _ast.Assign or type(test) is not _ast.Compare or type(test.left) is not _ast.Name:
        return
    if test.left.id == getattr(before.targets[0], "id", None):
        branch.lineno = before.lineno
        for node in (test, test.left, *test.comparators):
            node.lineno = node.end_lineno = before.lineno


def _constant(name: _ast.Name) -> _ast.IfExp:
    """Make the constant that stands for a pin. It is wrapped, since the compiler warns of calls of a bare string."""
    line, column, end_line, end_column = name.lineno, name.col_offset, name.end_lineno, name.end_col_offset
    constant = _ast.Constant(
        _PLACEHOLDER + name.id, None, lineno=line, col_offset=column, end_lineno=end_line, end_col_offset=end_column
    )
    return _ast.IfExp(
        constant, constant, _NEVER, lineno=line, col_offset=column, end_lineno=end_line, end_col_offset=end_column
    )


_NEVER = _ast.Constant(None, None, lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)


@final
class Linked:
    """A chain, linked: the code for the function, and in weak mode the objects that go with it."""

    __slots__ = ("code", "links", "template")

    def __init__(self, template: Template, code: CodeType, links: tuple[object, ...]) -> None:
        self.template = template
        self.code = code
        self.links = links


@final
class Linker:
    """Links templates for one mount point. `facts` is what the pins that are not hooks stand for.

    Whatever is linked runs with the globals of the target, `space`: code that looks at the frame which calls it, and C
    code that imports, finds there what it would find without hooks.
    """

    def __init__(
        self, signature: Signature, model: CodeType, name: str, facts: dict[str, object], space: dict[str, Any]
    ) -> None:
        self.signature = signature
        self.model = model
        self.name = name
        self.facts = facts
        self.space = space
        # What `make` has made, by the number of its template.
        self.codes: dict[int, CodeType] = {}

    def link(
        self, template: Template, chain: Chain, codes: dict[int, CodeType] | None, facts: dict[str, object]
    ) -> Linked:
        """Put the objects of a chain, and facts of this link alone, into a template.

        In weak mode the code is the same for every chain of a shape, and is kept in `codes`.
        """
        text = template.text
        code = codes.get(template.number) if codes is not None else None
        filename = file_name(self.name) if code is None else code.co_filename
        values = {pin: self._value(role, chain, facts) for pin, role in template.open_pins}
        if template.layers is not None:
            values[text.inside] = self._layers(template.layers, text, values, filename)
        if code is None:
            consts = template.consts.copy()
            for place, pin in template.places:
                consts[place] = values[pin]
            # Without objects of ours they travel as they are.
            ours = Constants((*consts, self.facts["first"], self.model)) if text.pins else tuple(consts)
            code = self._code(template.code, ours, filename, self.model.co_freevars)
            if codes is not None:
                codes[template.number] = code
        self.show(template, chain, code)
        return Linked(template, code, (template.number, *(values[pin] for pin in text.links)))

    def make(self, template: Template, chain: Chain, facts: dict[str, object]) -> FunctionType:
        """Make a function of a template in cells, its cells holding the objects of a chain.

        Its code is the same for all chains of a shape: what a tracer has made of one may do for the next.
        """
        text = template.text
        code = self.codes.get(template.number)
        if code is None:
            filename = file_name(self.name)
            code = self._code(template.code, template.code.co_consts, filename, template.code.co_freevars)
            self.codes[template.number] = code
        values = {pin: TABLE[role.what[8:]] for pin, role in text.pins.items() if role.what.startswith("library ")}
        values.update({pin: self._value(role, chain, facts) for pin, role in template.open_pins})
        if template.layers is not None:
            values[text.inside] = self._layers(template.layers, text, values, code.co_filename)
        self.show(template, chain, code)
        cells = tuple([CellType(values[name]) for name in code.co_freevars])
        return FunctionType(code, self.space, self.model.co_name, None, cells)

    def show(self, template: Template, chain: Chain, code: CodeType) -> None:
        """Let tracebacks find the source of what was linked."""
        show(code, partial(render, template.text, self.model.co_name, notes_of(chain)))

    def _layers(self, layers: CodeType, text: Text, values: dict[str, object], filename: str) -> object:
        link = FunctionType(_relocated(layers, filename), self.space)
        return link(*[TABLE[text.pins[p].what[8:]] if p not in values else values[p] for p in text.layer_pins])

    def _code(self, code: CodeType, consts: tuple[object, ...], filename: str, free: tuple[str, ...]) -> CodeType:
        model, names = self.model, self.signature.names
        changes: dict[str, Any] = {}
        if self.signature.idents != names:
            changes["co_varnames"] = names + code.co_varnames[len(names) :]
        return code.replace(
            co_consts=consts,
            co_filename=filename,
            co_name=model.co_name,
            co_qualname=model.co_qualname,
            co_freevars=free,
            # Those of the target, which it never loads, are there for who asks which modules the target may need.
            co_names=code.co_names + model.co_names,
            co_flags=code.co_flags | model.co_flags & ITERABLE_COROUTINE,
            **changes,
        )

    def _value(self, role: Role, chain: Chain, facts: dict[str, object]) -> object:
        if role.what == "hook":
            return getattr(getattr(chain, role.kind)[role.first], role.fields[0])
        if role.what == "row":
            return _row(getattr(chain, role.kind)[role.first : role.last + 1], role.fields)
        if role.what == "name":
            return self.signature.names[role.first]
        if role.what == "names":
            return role.fields
        if role.what in ("on_hooks", "exception_hooks", "always_hooks"):
            return getattr(chain, role.what.removesuffix("_hooks"))
        return facts[role.what] if role.what in facts else self.facts.get(role.what)


def _row(hooks: tuple[Hook, ...], fields: tuple[str, ...]) -> tuple[object, ...]:
    if fields == ("function",):
        return tuple([hook.function for hook in hooks])
    return tuple([tuple([getattr(hook, field) for field in fields]) for hook in hooks])


def _relocated(code: CodeType, filename: str) -> CodeType:
    consts = tuple(_relocated(const, filename) if isinstance(const, CodeType) else const for const in code.co_consts)
    return code.replace(co_consts=consts, co_filename=filename)


# Showing the source: `linecache` is where tracebacks and debuggers look. The entry goes with its code.

_shown: dict[str, weakref.ref[CodeType]] = {}

# Free-threaded builds never free a string that has been a name in a code object. There the names of code that is gone
# are used again for code of the same label; by what stands before their number.
_unused: dict[str, list[str]] | None = {} if FREE_THREADED else None


def file_name(label: str) -> str:
    """Return a new file name for generated code.

    Debuggers look for no file if a name begins with `<` and ends with `>` (`bdb.Bdb.canonic`). `warnings` (with
    `stacklevel`) and `logging` pass over frames whose file name contains both `importlib` and `_bootstrap`, and so
    name the line that has called the mount point, as they do without hooks.
    """
    start = f"<aspecthook {printable(label)}"
    unused = _unused.get(start) if _unused is not None else None
    try:
        return unused.pop() if unused else f"{start}#{next(_numbers)} importlib._bootstrap>"
    except IndexError:  # another thread has taken the last one
        return file_name(label)


@final
class _Entry(tuple[Any, ...]):
    """An entry of `linecache` (size, time, lines, file name) whose lines are rendered when somebody asks for them.

    linecache has lazy entries of its own, but not for file names in angle brackets. Without a time, an entry is not
    compared with a file.
    """

    source: Callable[[], str]
    lines: list[str] | None

    def __getitem__(self, place: Any) -> Any:
        if place != 2:
            return super().__getitem__(place)
        if self.lines is None:
            self.lines = self.source().splitlines(keepends=True)
        return self.lines


def show(code: CodeType, source: Callable[[], str]) -> None:
    """Let tracebacks and debuggers find the source of `code` for as long as it lives."""
    _sweep()
    filename = code.co_filename
    _shown[filename] = weakref.ref(code, partial(_forget, filename))
    entry = _Entry((0, None, (), filename))
    entry.source, entry.lines = source, None
    linecache.cache[filename] = entry


def hide(code: CodeType) -> None:
    """Let the source go before its code does: that of the stand-in, and every one where code lives until collected."""
    _sweep()
    linecache.cache.pop(code.co_filename, None)


# Names of code that is gone. A collection may end code while `linecache.checkcache` goes through the entries, which
# fails if one vanishes (before CPython 3.14). So an entry is emptied at once, and taken out at the next change.
_gone: list[str] = []


def _sweep() -> None:
    with suppress(IndexError):  # none is left
        while True:
            linecache.cache.pop(_gone.pop(), None)


def _forget(
    filename: str,
    _: object,
    shown: dict[str, Any] = _shown,
    gone: list[str] = _gone,
    cache: dict[str, Any] = linecache.cache,
    unused: dict[str, list[str]] | None = _unused,
) -> None:
    # Bound as defaults: as the interpreter ends, modules are emptied in any order.
    shown.pop(filename, None)
    entry = cache.get(filename)
    if type(entry) is _Entry:
        entry.source, entry.lines = str, []
        gone.append(filename)
    if unused is not None:
        unused.setdefault(filename.rpartition("#")[0], []).append(filename)


Who = tuple[str, "CodeType | None"]


def notes_of(chain: Chain) -> dict[str, tuple[Who, ...]]:
    """Say who the hooks of a chain are, without keeping any of them alive."""
    return {
        kind: tuple([(hook.name, code_of(hook.function)) for hook in row])
        for kind in KINDS
        if (row := getattr(chain, kind))
    }


def _where(who: Who) -> str:
    name, code = printable(who[0]), who[1]
    return f"{name}, {printable(code.co_filename.rpartition('/')[2])}:{code.co_firstlineno}" if code else name


def render(text: Text, name: str, who: dict[str, tuple[Who, ...]]) -> str:
    """Give the source as it is shown: the target's own name, and beside each call which hook it calls."""
    lines = text.source.split("\n")
    if is_plain(name):
        lead, _, rest = lines[0].partition("def ")
        lines[0] = f"{lead}def {name}({rest.partition('(')[2]}"
    for note in text.notes:
        row = [_where(one) for one in who[note.kind][note.first : note.last + 1]]
        shown = row if len(row) <= 3 else (row[0], "...", row[-1])
        lines[note.line] += f"  # {', '.join(shown)}"
    return "\n".join(lines)
