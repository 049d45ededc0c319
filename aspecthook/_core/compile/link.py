"""From source to code: compile a shape once, and link it for every chain of that shape.

The invariant: the names of pins are replaced in the syntax tree by string constants, and these by the objects in the
finished code (`code.replace(co_consts=...)`). So no object is ever turned into text, the text that is shown is the text
that was compiled, and a hook costs one LOAD_CONST.
"""

from __future__ import annotations

import _ast
import gc
from functools import partial
from itertools import count
from sys import version_info
from types import CellType, CodeType, FunctionType
from typing import Any, cast, final

from aspecthook._core.law.hook import Hook
from aspecthook._core.law.order import Chain
from aspecthook._core.law.signature import ITERABLE_COROUTINE, Signature

from .copies import Constants
from .show import file_name, origins_of, render, show
from .source import Source
from .text import Role, Text
from .words import TABLE

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

_PLACEHOLDER = "\0aspecthook "
_MOST_TEMPLATES = 1024
_numbers = count(1)
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
    """Return the template of a shape, compiled unless it is one of the last thousand that were.

    Args:
        signature: The parameters of the target.
        chain: The hooks; None: the stub, which stands in until the first call after a change.
        free: The number of free variables of the target.
        weak: Whether the objects of the chain are looked up at each call, and not constants of the code.
        instances: Whether some instances have hooks of their own.
        cells: Whether the objects of the chain are free variables, and not constants of the code.
    """
    shapes = None if chain is None else tuple([hook.shape for hook in chain.everything()])
    key = (signature.shape, shapes, free, weak, instances, cells)
    known = _templates.get(key)
    if known is not None:
        return known
    number = next(_numbers)
    writer = Source(signature, chain or Chain(()), weak=number if weak else 0, instances=instances)
    new = Template(number, writer.stub() if chain is None else writer.text(), free=free, cells=cells)
    # A list, made in one step: another thread may store a template meanwhile.
    for oldest in list(_templates)[: max(0, len(_templates) - _MOST_TEMPLATES + 1)]:
        _templates.pop(oldest, None)
    _templates[key] = new
    return new


@final
class Template:
    """The code of one shape, with placeholders for the objects of a chain; those of the library are in place.

    With `cells` it has no placeholders: every pin is a free variable.
    """

    __slots__ = (
        "cells",
        "code",
        "consts",
        "layers",
        "library",
        "links",
        "nested",
        "number",
        "open_pins",
        "places",
        "text",
    )

    def __init__(self, number: int, text: Text, *, free: int = 0, cells: bool = False) -> None:
        self.number = number
        self.text = text
        self.cells = cells
        self.code, self.layers = compiled(text, free=free, cells=cells)
        # Pins of the library, with their objects; and the others, whose objects come with a chain.
        self.library: dict[str, object] = {}
        self.open_pins: list[tuple[str, Role]] = []
        for pin, role in text.pins.items():
            if role.what.startswith("library "):
                self.library[pin] = TABLE[role.what.removeprefix("library ")]
            else:
                self.open_pins.append((pin, role))
        # The pins whose objects travel beside the code.
        self.links = self.code.co_freevars if cells else text.links
        # The constants, and the places among them of the placeholders for open pins, and of code inside this code.
        self.consts = _filled(self.code.co_consts, self.library)
        self.places: list[tuple[int, str]] = []
        self.nested: list[tuple[int, CodeType]] = []
        for place, const in enumerate(self.consts):
            if isinstance(const, str) and const.startswith(_PLACEHOLDER):
                self.places.append((place, const.removeprefix(_PLACEHOLDER)))
            elif isinstance(const, CodeType):
                self.nested.append((place, const))


@final
class Linked:
    """A linked chain: the code for the function, and the objects that travel beside it.

    These are the objects in the cells; or in weak mode, behind the number of the template, the values that the code
    looks up at each call.
    """

    __slots__ = ("code", "links", "template")

    def __init__(self, template: Template, code: CodeType, links: tuple[object, ...]) -> None:
        self.template = template
        self.code = code
        self.links = links


@final
class Linker:
    """Links templates for one mount point. `facts` are the objects for the pins that are not hooks.

    Linked code runs with the globals of the target, `space`: code that looks at the frame which calls it, and C code
    that imports, finds there what it would find without hooks.
    """

    def __init__(
        self, signature: Signature, model: CodeType, name: str, facts: dict[str, object], space: dict[str, Any]
    ) -> None:
        self.signature = signature
        self.model = model
        self.name = name
        self.facts = facts
        self.space = space

    def link(
        self, template: Template, chain: Chain, codes: dict[int, CodeType] | None, facts: dict[str, object]
    ) -> Linked:
        """Put the objects of a chain, and facts of this link alone, into a template.

        Code in weak mode or in cells is the same for every chain of a shape; it is kept in `codes`, by the number of
        its template.
        """
        code = None if codes is None else codes.get(template.number)
        filename = file_name(self.name) if code is None else code.co_filename
        values = template.library.copy() if template.cells or template.layers is not None else {}
        for pin, role in template.open_pins:
            values[pin] = self._value(role, chain, facts)
        if template.layers is not None:
            link_layers = FunctionType(_relocated(template.layers, filename), self.space)
            values[template.text.inside] = link_layers(*[values[pin] for pin in template.text.layer_pins])
        if code is None:
            code = self._code(template, values, filename)
            if codes is not None:
                codes[template.number] = code
        self.show(template, chain, code)
        return Linked(template, code, (template.number, *[values[pin] for pin in template.links]))

    def make(
        self, template: Template, chain: Chain, codes: dict[int, CodeType], facts: dict[str, object]
    ) -> FunctionType:
        """Return a function made of a template in cells, its cells holding the objects of a chain.

        Its code is the same for all chains of a shape: what a tracer has compiled for one can serve the next.
        """
        linked = self.link(template, chain, codes, facts)
        return FunctionType(linked.code, self.space, self.model.co_name, None, tuple(map(CellType, linked.links[1:])))

    def show(self, template: Template, chain: Chain, code: CodeType) -> None:
        """Let tracebacks find the source of linked code."""
        show(code, partial(render, template.text, self.model.co_name, origins_of(chain)))

    def _code(self, template: Template, values: dict[str, object], filename: str) -> CodeType:
        model, names, code = self.model, self.signature.names, template.code
        consts = template.consts.copy()
        for place, pin in template.places:
            consts[place] = values[pin]
        for place, nested in template.nested:
            filled = self._consts(_filled(nested.co_consts, values), template)
            consts[place] = nested.replace(co_consts=filled, co_filename=filename)
        changes: dict[str, Any] = {}
        if self.signature.idents != names:
            real = dict(zip(self.signature.idents, names, strict=True))
            changes["co_varnames"] = names + code.co_varnames[len(names) :]
            changes["co_cellvars"] = tuple([real.get(name, name) for name in code.co_cellvars])
        return code.replace(
            co_consts=self._consts(consts, template),
            co_filename=filename,
            co_name=model.co_name,
            co_qualname=model.co_qualname,
            co_freevars=code.co_freevars if template.cells else model.co_freevars,
            # The code never loads those of the target: they are for tools that ask which modules the target may need.
            co_names=code.co_names + model.co_names,
            co_flags=code.co_flags | model.co_flags & ITERABLE_COROUTINE,
            **changes,
        )

    def _consts(self, consts: list[object], template: Template) -> tuple[object, ...]:
        """Return constants for code; without objects of ours they are pickled as they are."""
        holds_ours = bool(template.text.pins) and not template.cells
        return Constants((*consts, self.facts["first"], self.model)) if holds_ours else tuple(consts)

    def _value(self, role: Role, chain: Chain, facts: dict[str, object]) -> object:
        """Return the object that a pin stands for."""
        if role.what == "hook":
            return getattr(getattr(chain, role.kind)[role.first], role.fields[0])
        if role.what == "row":
            return _rows(getattr(chain, role.kind)[role.first : role.last + 1], role.fields)
        if role.what == "name":
            return self.signature.names[role.first]
        if role.what == "names":
            return role.fields
        if role.what in ("on_hooks", "exception_hooks", "always_hooks"):
            return getattr(chain, role.what.removesuffix("_hooks"))
        return facts[role.what] if role.what in facts else self.facts.get(role.what)


def _rows(hooks: tuple[Hook, ...], fields: tuple[str, ...]) -> tuple[object, ...]:
    """Return what a loop over hooks goes through: a field of each, or a tuple of its fields."""
    if fields == ("function",):
        return tuple([hook.function for hook in hooks])
    return tuple([tuple([getattr(hook, field) for field in fields]) for hook in hooks])


def _filled(consts: tuple[object, ...], values: dict[str, object]) -> list[object]:
    """Return constants with objects in place of placeholders, in code among them too."""
    filled = list(consts)
    for place, const in enumerate(consts):
        if isinstance(const, str) and const.startswith(_PLACEHOLDER):
            filled[place] = values.get(const.removeprefix(_PLACEHOLDER), const)
        elif isinstance(const, CodeType):
            filled[place] = const.replace(co_consts=tuple(_filled(const.co_consts, values)))
    return filled


def _relocated(code: CodeType, filename: str) -> CodeType:
    """Return code, and all code inside it, under another file name."""
    consts = tuple(_relocated(const, filename) if isinstance(const, CodeType) else const for const in code.co_consts)
    return code.replace(co_consts=consts, co_filename=filename)


# Compiling a text.


def compiled(text: Text, *, free: int = 0, cells: bool = False) -> tuple[CodeType, CodeType | None]:
    """Compile a text: return the code of the function, and that of the function that links its layers.

    Args:
        text: The text.
        free: The number of free variables that the function is to have, for which names are invented.
        cells: Whether the pins become free variables, and not constants.
    """
    tree: Any = _parsed(text.source)
    function = tree.body[0]
    _pin(function, set() if cells else text.pins.keys() - set(text.links))
    names = [*text.pins] if cells else [f"free_{number}_{len(text.source)}" for number in range(free)]
    if names:
        outer: Any = _parsed(f"def outer({', '.join(names)}):\n if 0: {', '.join(names)}").body[0]
        if not cells:  # an invented name is a free variable only if the function mentions it
            function.body[:0] = outer.body
        outer.body = [function]
        tree.body[0] = outer
    module = compile(tree, "<aspecthook>", "exec", dont_inherit=True)
    codes = _codes_in(module)
    code = _codes_in(codes[0])[0] if names else codes[0]
    return code, (codes[1] if len(codes) > 1 else None)


def _codes_in(code: CodeType) -> list[CodeType]:
    return [const for const in code.co_consts if isinstance(const, CodeType)]


# Before 3.12 the compiler cannot make a tree while it is making one, which a finalizer does that calls a mount point.
_FRAGILE = version_info < (3, 12)


def _parsed(source: str) -> Any:
    """Return the syntax tree of a source."""
    if not _FRAGILE or not gc.isenabled():
        return compile(source, "<aspecthook>", "exec", _ast.PyCF_ONLY_AST, dont_inherit=True)
    gc.disable()
    try:
        return compile(source, "<aspecthook>", "exec", _ast.PyCF_ONLY_AST, dont_inherit=True)
    finally:
        gc.enable()


# Fields of syntax nodes that hold no node; walking only the others takes a third of the time.
_LEAVES = frozenset(
    {"id", "ctx", "ops", "op", "name", "names", "attr", "arg", "type_comment", "conversion", "kind", "is_async"}
)
_fields: dict[type, tuple[str, ...]] = {_ast.Constant: (), _ast.Name: ()}


def _pin(function: Any, pins: set[str]) -> None:
    """Replace the names of pins by constants."""
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
                nodes: list[Any] = getattr(node, field)
                for place, one in enumerate(nodes):
                    nodes[place] = _pinned(one, pins, waiting)
                    if place and type(one) is _ast.If:
                        _join(nodes[place - 1], one)
            elif child is not None:
                setattr(node, field, _pinned(child, pins, waiting))


def _pinned(node: Any, pins: set[str], waiting: list[Any]) -> Any:
    """Return what takes the place of a node; one that is not a name is left to be walked."""
    if type(node) is _ast.Name:
        return _constant(node) if node.id in pins else node
    if node is not None:
        waiting.append(node)
    return node


def _join(before: Any, branch: Any) -> None:
    """Move the test of an answer into the line that got it: CPython fuses instructions only within a line (3.13)."""
    test = branch.test
    if type(before) is not _ast.Assign or type(test) is not _ast.Compare or type(test.left) is not _ast.Name:
        return
    if test.left.id == getattr(before.targets[0], "id", None):
        branch.lineno = before.lineno
        for node in (test, test.left, *test.comparators):
            node.lineno = node.end_lineno = before.lineno


def _constant(name: _ast.Name) -> _ast.IfExp:
    """Return the constant that stands for a pin, wrapped, since the compiler warns of calls of a bare string."""
    line, column, end_line, end_column = name.lineno, name.col_offset, name.end_lineno, name.end_col_offset
    constant = _ast.Constant(
        _PLACEHOLDER + name.id, None, lineno=line, col_offset=column, end_lineno=end_line, end_col_offset=end_column
    )
    return _ast.IfExp(
        constant, constant, _NEVER, lineno=line, col_offset=column, end_lineno=end_line, end_col_offset=end_column
    )


_NEVER = _ast.Constant(None, None, lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)
