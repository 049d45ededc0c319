"""From source to code: compile a shape once, and link it for every chain of that shape.

The invariant: the names of pins are replaced in the syntax tree by string constants, and these by the objects in the
finished code (`code.replace(co_consts=...)`). So no object is ever turned into text, and a hook costs one LOAD_CONST.
The names of the parameters get into the finished code in the same way, so that one template serves all targets with as
many parameters. The source that is shown has these names; the code has lines, but no columns, which would not fit it.
"""

from __future__ import annotations

import gc
from collections.abc import MutableMapping, Sequence
from functools import lru_cache
from sys import intern, version_info
from types import CellType, CodeType, FunctionType

from aspecthook._core.law.hook import Hook, Predicate
from aspecthook._core.law.order import Chain
from aspecthook._core.law.signature import ITERABLE_COROUTINE, Signature
from aspecthook._hints import Any, Literal, cast, final

from .copies import Constants
from .show import FREE_THREADED, file_name, origins_of, show
from .source import Source
from .text import PLACEHOLDER, Role, Text, unlike
from .words import TABLE

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

_PIN = "\0aspecthook "
# The forty thousand functions of a program with large libraries have some six hundred shapes of parameters, and 256 of
# these are those of 99 functions out of a hundred. A template of a short chain takes 8 KB, so all of them take 4 MB.
_MOST_TEMPLATES = 512
_templates: dict[object, Template] = {}

# Linked code, by its template and the `id` of each hook that is a constant of it.
Codes = MutableMapping[object, CodeType]


def template(
    signature: Signature,
    chain: Chain | None,
    *,
    free: int = 0,
    weak: bool = False,
    instances: bool = False,
    cells: Literal["", "links", "pins"] = "",
) -> Template:
    """Return the template of a shape, compiled unless it is one of the last five hundred that were.

    Args:
        signature: The parameters of the target.
        chain: The hooks; None: the stub, which stands in until the first call after a change.
        free: The number of free variables of the target.
        weak: Whether the target may die before its module, and is looked up at each call, as are the hooks that may.
        instances: Whether some instances have hooks of their own.
        cells: What are free variables, since the code goes into a function of its own: what it would look up, or all.
    """
    shapes = None if chain is None else tuple([hook.shape for hook in chain.everything()])
    loose = weak or (FREE_THREADED and cells != "pins")
    lasting = tuple([hook.lasting for hook in chain.everything()]) if loose and chain is not None else ()
    key = (signature.shape, shapes, free, weak, instances, cells, lasting)
    known = _templates.get(key)
    if known is not None:
        return known
    writer = Source(signature, chain or Chain(()), weak=weak, loose=loose, instances=instances, bound=cells == "links")
    new = Template(writer.stub() if chain is None else writer.text(), free=free, cells=cells)
    # A list, made in one step: another thread may store a template meanwhile.
    for oldest in list(_templates)[: max(0, len(_templates) - _MOST_TEMPLATES + 1)]:
        _templates.pop(oldest, None)
    _templates[key] = new
    return new


@final
class Template:
    """The code of one shape, with placeholders for the objects of a chain; those of the library are in place.

    With `cells` it is for a function of its own, whose free variables are its links or all pins.
    """

    __slots__ = (
        "cells",
        "code",
        "consts",
        "fixed",
        "keywords",
        "layers",
        "library",
        "links",
        "nested",
        "open_pins",
        "places",
        "text",
    )

    def __init__(self, text: Text, *, free: int = 0, cells: str = "") -> None:
        self.text = text
        self.cells = cells
        in_cells = {"": (), "links": text.links, "pins": tuple(text.pins)}[cells]
        self.code, self.layers = compiled(text, free=free, cells=in_cells)
        # Pins of the library, with their objects; and the others, whose objects come with a chain.
        self.library: dict[str, object] = {}
        self.open_pins: list[str] = []
        for pin, role in text.pins.items():
            if role.what.startswith("library "):
                self.library[pin] = TABLE[role.what.removeprefix("library ")]
            else:
                self.open_pins.append(pin)
        # The pins whose objects travel beside the code.
        self.links = self.code.co_freevars if cells else text.links
        # The pins of hooks that are constants.
        self.fixed = [pin for pin in self.open_pins if text.pins[pin].what == "hook" and pin not in self.links]
        # The constants; the places among them of the placeholders for open pins, of those with names of parameters, and
        # of the code inside this code.
        self.consts: list[object] = list(self.code.co_consts)
        self.places: list[tuple[int, str]] = []
        self.keywords: list[int] = []
        self.nested: list[int] = []
        no_names = ("",) * len(self.code.co_varnames)
        for place, const in enumerate(self.code.co_consts):
            if isinstance(const, CodeType):
                self.nested.append(place)
            elif _filled(const, no_names) != const:
                self.keywords.append(place)
            elif isinstance(const, str) and const.startswith(_PIN):
                pin = const.removeprefix(_PIN)
                if pin in self.library:
                    self.consts[place] = self.library[pin]
                else:
                    self.places.append((place, pin))


@final
class Linked:
    """A linked chain: the code for the function, and the objects that travel beside it.

    These are the objects in the cells, or those that the code looks up at each call.
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

    def link(self, template: Template, chain: Chain, codes: Codes | None, facts: dict[str, object]) -> Linked:
        """Put the objects of a chain, and facts of this link alone, into a template.

        With `codes`, code is taken from there if it was made before for a chain of this shape that has the same hooks
        as constants; what else is a constant must be the same too.
        """
        values = template.library.copy()
        for pin in template.open_pins:
            values[pin] = self._value(template.text.pins[pin], chain, facts)
        key = None if codes is None else (template, *[id(values[pin]) for pin in template.fixed])
        code = None if codes is None else codes.get(key)
        filename = file_name(self.name) if code is None else code.co_filename
        if template.layers is not None:
            link_layers = FunctionType(_adapted(template.layers, filename, self.signature.names, {}), self.space)
            values["inside"] = link_layers(*[values[pin] for pin in template.text.layer_pins])
        if code is None:
            code = self._code(template, values, filename)
            if codes is not None:
                codes[key] = code
        self.show(template, chain, code)
        return Linked(template, code, tuple([values[pin] for pin in template.links]))

    def make(self, template: Template, chain: Chain, codes: Codes | None, facts: dict[str, object]) -> FunctionType:
        """Return a function made of a template in cells, its cells holding the objects of a chain.

        With `codes`, its code is the same for all chains of a shape: what a tracer has compiled for one can serve the
        next.
        """
        linked = self.link(template, chain, codes, facts)
        return FunctionType(linked.code, self.space, self.model.co_name, None, tuple(map(CellType, linked.links)))

    def show(self, template: Template, chain: Chain, code: CodeType) -> None:
        """Let tracebacks find the source of linked code."""
        show(code, template.text, self.signature.names, origins_of(chain))

    def _code(self, template: Template, values: dict[str, object], filename: str) -> CodeType:
        model, names, code = self.model, self.signature.names, template.code
        consts = template.consts.copy()
        for place, pin in template.places:
            consts[place] = values[pin]
        for place in template.keywords:
            consts[place] = _filled(consts[place], names)
        for place in template.nested:
            nested = _adapted(cast("CodeType", consts[place]), filename, names, values)
            consts[place] = nested.replace(co_consts=self._consts(nested.co_consts, template))
        return code.replace(
            co_consts=self._consts(consts, template),
            co_filename=filename,
            co_name=model.co_name,
            co_qualname=model.co_qualname,
            co_varnames=_all_named(code.co_varnames, names),
            co_cellvars=_all_named(code.co_cellvars, names),
            co_freevars=_all_named(code.co_freevars, names) if template.cells else model.co_freevars,
            # The code never loads those of the target: they are for tools that ask which modules the target may need.
            co_names=code.co_names + model.co_names,
            co_flags=code.co_flags | model.co_flags & ITERABLE_COROUTINE,
        )

    def _consts(self, consts: Sequence[object], template: Template) -> tuple[object, ...]:
        """Return constants for code of ours; if no objects of ours are among them, they are pickled as they are."""
        holds_ours = bool(template.text.pins) and template.cells != "pins"
        return Constants((*consts, self.facts["first"], self.model)) if holds_ours else tuple(consts)

    def _value(self, role: Role, chain: Chain, facts: dict[str, object]) -> object:
        """Return the object that a pin stands for."""
        what = role.what
        if what in facts:
            return facts[what]
        if what in self.facts:
            return self.facts[what]
        if what == "hook":
            return _field(getattr(chain, role.kind)[role.first], role.fields[0])
        if what == "row":
            return _rows(getattr(chain, role.kind)[role.first : role.last + 1], role.fields)
        if what in ("on_hooks", "exception_hooks", "always_hooks"):
            return getattr(chain, what.removesuffix("_hooks"))
        return role.fields if what == "names" else None


def _rows(hooks: tuple[Hook, ...], fields: tuple[str, ...]) -> tuple[object, ...]:
    """Return what a loop over hooks goes through: a field of each, or a tuple of its fields."""
    if fields == ("function",):
        return tuple([hook.function for hook in hooks])
    return tuple([tuple([_field(hook, field) for field in fields]) for hook in hooks])


def _field(hook: Hook, field: str) -> object:
    """Return what a field of a hook is in generated code: of its predicates, the callable."""
    value: object = getattr(hook, field)
    return value.holds if isinstance(value, Predicate) else value


# The names of parameters, which are placeholders in a template.


def _named(variable: str, names: tuple[str, ...]) -> str:
    """Return the name of a variable: that of a parameter for its placeholder, else one that no parameter has."""
    place = variable.removeprefix(PLACEHOLDER)
    return unlike(variable, names) if place is variable else names[int(place)]


@lru_cache(_MOST_TEMPLATES)
def _all_named(variables: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple([_named(one, names) for one in variables])


def _filled(const: Any, names: tuple[str, ...]) -> Any:
    """Return a constant, in which names of parameters replace their placeholders."""
    if type(const) is tuple:
        return tuple([_filled(one, names) for one in cast("tuple[object, ...]", const)])
    return _named(const, names) if type(const) is str and const.startswith(PLACEHOLDER) else const


def _adapted(code: CodeType, filename: str, names: tuple[str, ...], values: dict[str, object]) -> CodeType:
    """Return code, and all code inside it, with objects and names in place of placeholders, under another file name."""
    consts: list[object] = []
    for const in code.co_consts:
        if isinstance(const, CodeType):
            consts.append(_adapted(const, filename, names, values))
        elif isinstance(const, str) and const.startswith(_PIN):
            consts.append(values.get(const.removeprefix(_PIN), const))
        else:
            consts.append(_filled(const, names))
    return code.replace(
        co_consts=tuple(consts),
        co_varnames=_all_named(code.co_varnames, names),
        co_cellvars=_all_named(code.co_cellvars, names),
        co_freevars=_all_named(code.co_freevars, names),
        co_filename=filename,
    )


# Compiling a text.


def compiled(text: Text, *, free: int = 0, cells: tuple[str, ...] = ()) -> tuple[CodeType, CodeType | None]:
    """Compile a text: return the code of the function, and that of the function that links its layers.

    Args:
        text: The text.
        free: The number of free variables that the function is to have, for which names are invented.
        cells: The pins that become free variables, and not constants.
    """
    tree: Any = _parsed(text.compiled())
    function = tree.body[0]
    _pin(function, text.pins.keys() - {*text.links, *cells})
    for layers in tree.body[1:]:
        _pin(layers, set())
    names = [*cells] or [f"free_{number}_{len(text.template)}" for number in range(free)]
    if names:
        outer: Any = _parsed(f"def outer({', '.join(names)}):\n if 0: {', '.join(names)}").body[0]
        # An invented name is a free variable only if the function mentions it. Where the code has fewer than the
        # target, 3.11 crashes as a debugger reads the locals of its frame.
        if not cells:
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


_ONLY_AST = 0x400  # `ast.PyCF_ONLY_AST`


def _parsed(source: str) -> Any:
    """Return the syntax tree of a source."""
    if not _FRAGILE or not gc.isenabled():
        return compile(source, "<aspecthook>", "exec", _ONLY_AST, dont_inherit=True)
    gc.disable()
    try:
        return compile(source, "<aspecthook>", "exec", _ONLY_AST, dont_inherit=True)
    finally:
        gc.enable()


@lru_cache(1)
def _made_nodes() -> tuple[Any, Any]:
    """Return the classes of the syntax nodes that are made here: of constants, and of conditional expressions.

    The interpreter makes all classes of nodes with its first tree, or when `_ast` is imported: a tenth of the time that
    it takes to import the package.
    """
    expression = _parsed("None if None else None").body[0].value
    return expression.body.__class__, expression.__class__


# Fields of syntax nodes that hold no node; walking only the others takes half the time.
_LEAVES = frozenset(
    ("id", "ctx", "ops", "op", "name", "names", "attr", "arg", "type_comment", "conversion", "kind", "is_async")
)
_fields: dict[type, tuple[str, ...]] = {}


def _fields_of(node: Any) -> tuple[str, ...]:
    """Return the fields of a syntax node that hold other nodes."""
    kind = cast("type[object]", type(node))
    fields = _fields.get(kind)
    if fields is None:
        constant, _ = _made_nodes()
        fields = () if kind is constant else tuple(field for field in node._fields if field not in _LEAVES)
        _fields[kind] = fields
    return fields


def _pin(function: Any, pins: set[str]) -> None:
    """Replace the names of pins by constants, and remove the columns."""
    waiting: list[Any] = [function]
    while waiting:
        node = waiting.pop()
        node.col_offset = node.end_col_offset = -1
        for field in _fields_of(node):
            child = getattr(node, field)
            if isinstance(child, list):
                nodes: list[Any] = getattr(node, field)
                for place, one in enumerate(nodes):
                    if getattr(one, "id", None) in pins:  # only names have an `id`
                        nodes[place] = _constant(one) if field == "args" else _wrapped(one)
                    elif one is not None:
                        waiting.append(one)
                        if place and hasattr(one, "test"):
                            _join(nodes[place - 1], one)
            elif getattr(child, "id", None) in pins:
                setattr(node, field, _wrapped(child))
            elif child is not None:
                waiting.append(child)


def _join(before: Any, branch: Any) -> None:
    """Move the test of an answer into the line that got it: CPython fuses instructions only within a line (3.13)."""
    test = branch.test
    tested = getattr(getattr(test, "left", None), "id", None)
    if tested is not None and tested == getattr(getattr(before, "targets", [None])[0], "id", None):
        branch.lineno = before.lineno
        for node in (test, test.left, *test.comparators):
            node.lineno = node.end_lineno = before.lineno


def _constant(name: Any) -> Any:
    """Return the constant that stands for a pin."""
    constant, _ = _made_nodes()
    line = name.lineno
    # Interned: each hook is called by a few words, and constants like this one are kept with each template.
    return constant(intern(_PIN + name.id), None, lineno=line, col_offset=-1, end_lineno=line, end_col_offset=-1)


def _wrapped(name: Any) -> Any:
    """Return the constant in an expression: the compiler warns of a call of a bare string, and computes others."""
    constant, conditional = _made_nodes()
    pin, line = _constant(name), name.lineno
    never = constant(None, None, lineno=line, col_offset=-1, end_lineno=line, end_col_offset=-1)
    return conditional(pin, pin, never, lineno=line, col_offset=-1, end_lineno=line, end_col_offset=-1)
