"""From source to code: compile a shape once, and link it for every chain of that shape.

The invariant: no object is ever turned into text. In the source that is compiled, a pin is an expression of which the
compiler makes one string constant, and linking puts the object in its place (`code.replace(co_consts=...)`), so that a
hook costs one LOAD_CONST. The names of the parameters get into the finished code in the same way, so that one template
serves all targets with as many parameters.

Code has one of two forms. Where the function lives as long as its module, all objects are constants. The garbage
collector does not look into code (on builds with the GIL), so where the function may die sooner, nothing of the chain
or of the mount point is a constant: the code looks all of it up at each call, in one slot. Only a function that we make
ourselves, such as that of one instance, can have its objects in cells.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from functools import lru_cache
from itertools import repeat
from types import CellType, CodeType, FunctionType

from aspecthook._core.law.call import Site
from aspecthook._core.law.hook import Predicate
from aspecthook._core.law.kinds import Kind
from aspecthook._core.law.order import Chain
from aspecthook._core.law.signature import ITERABLE_COROUTINE, Signature
from aspecthook._hints import Any, TypeAlias, cast, final

from .copies import Constants
from .show import FREE_THREADED, file_name, origins_of, show
from .source import Source
from .text import PIN, PLACEHOLDER, Text, unlike
from .words import FACTS, TABLE

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

# The forty thousand functions of a program with large libraries have some six hundred shapes of parameters, and 256 of
# these are those of 99 functions out of a hundred. A template of a short chain takes 8 KB, so all of them take 4 MB.
_MOST_TEMPLATES = 512
_templates: dict[object, Template] = {}


def template(
    signature: Signature,
    chain: Chain | None,
    *,
    free: int = 0,
    weak: bool = False,
    instances: bool = False,
    cells: bool = False,
    traced: bool = False,
) -> Template:
    """Return the template of a shape, compiled unless it is one of the last five hundred that were.

    Args:
        signature: The parameters of the target.
        chain: The hooks; None: the stub, which stands in until the first call after a change.
        free: The number of free variables of the target.
        weak: Whether the target may die before its module, so that its code looks its objects up at each call.
        instances: Whether some instances have hooks of their own.
        cells: Whether the code is for a function of its own, whose cells hold its objects.
        traced: Whether tracers may read such a function, and it may be called when a newer one has replaced it.
    """
    shapes = None if chain is None else chain.shapes
    key = (signature.shape, shapes, free, weak, instances, cells, traced)
    known = _templates.get(key)
    if known is not None:
        return known
    writer = Source(
        signature,
        chain or Chain(()),
        slot=(weak or FREE_THREADED) and not cells,
        instances=instances,
        alone=cells and not traced,
    )
    new = Template(writer.stub() if chain is None else writer.text(), free=free, cells=cells, traced=traced)
    # A list, made in one step: another thread may store a template meanwhile.
    for oldest in list(_templates)[: max(0, len(_templates) - _MOST_TEMPLATES + 1)]:
        _templates.pop(oldest, None)
    _templates[key] = new
    return new


@final
class Template:
    """The code of one shape, with placeholders for the objects of a chain; those of the library are in place.

    With `cells` it is for a function of its own, whose free variables are the pins; those of the library only if it is
    `traced`.
    """

    __slots__ = ("cells", "code", "layers", "links", "named", "open_pins", "pinned", "text")

    def __init__(self, text: Text, *, free: int = 0, cells: bool = False, traced: bool = False) -> None:
        self.text = text
        self.cells = cells
        in_cells = [pin for pin in text.pins if traced or pin not in TABLE] if cells else []
        self.code, self.layers = compiled(text, free=free, cells=in_cells)
        # The pins whose objects come with a chain.
        self.open_pins: list[tuple[str, str, Kind, int, int, tuple[str, ...]]] = [
            (pin, role.what, role.kind, role.first, role.last, role.fields)
            for pin, role in text.pins.items()
            if pin not in TABLE and (pin not in FACTS or pin.endswith("_hooks"))
        ]
        # The pins whose objects travel beside the code.
        self.links = self.code.co_freevars if cells else text.links
        # The places of the constants that are pins, and of those with names of parameters or code in them.
        self.pinned: list[tuple[int, str]] = []
        self.named: list[int] = []
        for place, const in enumerate(self.code.co_consts):
            if isinstance(const, str) and const.startswith(PIN):
                self.pinned.append((place, const.removeprefix(PIN)))
            elif _has_names(const):
                self.named.append(place)


# Linked code, by its template. Only code whose constants are the same for all chains of its shape is kept here.
Codes = MutableMapping[Template, CodeType]


# A linked chain: the code for the function, and the objects that travel beside it, in its cells or to be looked up at
# each call.
Linked: TypeAlias = tuple[CodeType, tuple[object, ...]]


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

        With `codes`, code is taken from there if it was made before for a chain of this shape.
        """
        values = self.facts | facts
        for pin, what, kind, first, last, fields in template.open_pins:
            if what == "hook":
                value = getattr(getattr(chain, kind)[first], fields[0])
                values[pin] = value.holds if type(value) is Predicate else value
            elif what == "row":
                values[pin] = _rows(getattr(chain, kind)[first : last + 1], fields)
            elif what == "names":
                values[pin] = fields
            elif what == "default":
                shown = cast("Site", self.facts["site"]).shown()
                values[pin] = None if shown is None else shown.default(fields[0])
            else:  # all hooks of a kind, as in "always_hooks"
                values[pin] = getattr(chain, what.removesuffix("_hooks"))
        code = None if codes is None else codes.get(template)
        filename = file_name(self.name) if code is None else code.co_filename
        if template.layers is not None:
            link_layers = FunctionType(self._put(template.layers, values, filename), self.space)
            values["inside"] = link_layers(
                *[TABLE[pin] if pin in TABLE else values[pin] for pin in template.text.layer_pins]
            )
        if code is None:
            code = self._finished(template, values, filename)
            if codes is not None:
                codes[template] = code
        # Tracebacks find the source of the code.
        show(code, template.text, self.signature.names, origins_of(chain))
        pins = template.links
        return code, tuple([values.get(pin, TABLE.get(pin)) for pin in pins]) if pins else ()

    def stub(self) -> CodeType:
        """Return the stand-in, the code that is in the function until the first call after a change.

        Tracebacks show no source of it. Its file name has no number: without the GIL, file names are never freed.
        """
        found = template(self.signature, None, free=len(self.model.co_freevars))
        return self._finished(found, self.facts, file_name(self.name, numbered=False))

    def _finished(self, template: Template, values: dict[str, object], filename: str) -> CodeType:
        """Return the code of a template with objects in place, as code of the target."""
        model, names, code = self.model, self.signature.names, template.code
        # Picklers may meet all code but that in cells, which belongs to a function that nobody can name.
        ours = not template.cells
        consts: list[Any] = list(code.co_consts)
        for place, pin in template.pinned:
            consts[place] = values[pin]
        for place in template.named:
            consts[place] = self._filled(consts[place], values, filename, ours=ours)
        return code.replace(
            co_name=model.co_name,
            co_qualname=model.co_qualname,
            co_consts=Constants((*consts, self.facts["first"], model)) if ours else tuple(consts),
            co_varnames=_all_named(code.co_varnames, names),
            co_cellvars=_all_named(code.co_cellvars, names),
            co_freevars=model.co_freevars if ours else _all_named(code.co_freevars, names),
            # The code never loads those of the target: they are for tools that ask which modules it may need.
            co_names=code.co_names + model.co_names,
            co_flags=code.co_flags | model.co_flags & ITERABLE_COROUTINE,
            co_filename=filename,
        )

    def make(self, template: Template, chain: Chain, codes: Codes | None, facts: dict[str, object]) -> FunctionType:
        """Return a function made of a template in cells, its cells holding the objects of a chain.

        With `codes`, its code is the same for all chains of a shape: what a tracer has compiled for one can serve the
        next.
        """
        code, links = self.link(template, chain, codes, facts)
        return FunctionType(code, self.space, self.model.co_name, None, tuple(map(CellType, links)))

    def _put(self, code: CodeType, values: dict[str, object], filename: str, *, ours: bool = False) -> CodeType:
        """Return code that is inside a template, and all code inside that, with objects and names in place."""
        names = self.signature.names
        consts = tuple([self._filled(const, values, filename, ours=ours) for const in code.co_consts])
        return code.replace(
            co_consts=Constants((*consts, self.facts["first"], self.model)) if ours else consts,
            co_varnames=_all_named(code.co_varnames, names),
            co_cellvars=_all_named(code.co_cellvars, names),
            co_freevars=_all_named(code.co_freevars, names),
            co_filename=filename,
        )

    def _filled(self, const: Any, values: dict[str, object], filename: str, *, ours: bool = False) -> Any:
        """Return a constant of a template with objects, and with names of parameters, in place."""
        kind = cast("object", type(const))
        if kind is CodeType:
            return self._put(const, values, filename, ours=ours)
        if kind is tuple:
            if {*map(type, const)} == {str} and all(map(str.startswith, const, repeat(PLACEHOLDER))):
                return _all_named(const, self.signature.names)  # the keywords of a call, which functions may share
            return tuple([self._filled(one, values, filename) for one in const])
        if kind is not str:
            return const
        if const.startswith(PIN):
            return values[const.removeprefix(PIN)]
        return _name_of(const, self.signature.names) if const.startswith(PLACEHOLDER) else const


def _rows(hooks: tuple[object, ...], fields: tuple[str, ...]) -> tuple[object, ...]:
    """Return what a loop over hooks goes through: the function of each, or a tuple of its fields."""
    if fields == ("function",):
        return tuple([getattr(hook, "function") for hook in hooks])
    rows = [[getattr(hook, field) for field in fields] for hook in hooks]
    return tuple([tuple([one.holds if type(one) is Predicate else one for one in row]) for row in rows])


# The names of parameters, which are placeholders in a template.


def _name_of(variable: str, names: tuple[str, ...]) -> str:
    """Return the name of a variable: that of a parameter for its placeholder, else one that no parameter has."""
    place = variable.removeprefix(PLACEHOLDER)
    return unlike(variable, names) if place is variable else names[int(place)]


@lru_cache(_MOST_TEMPLATES)
def _all_named(variables: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple([_name_of(one, names) for one in variables])


def _has_names(const: object) -> bool:
    """Whether a constant of a template is the name of a parameter, or has some in it, or may have."""
    if isinstance(const, tuple):
        return any(map(_has_names, cast("tuple[object, ...]", const)))
    return isinstance(const, CodeType) or (isinstance(const, str) and const.startswith(PLACEHOLDER))


# Compiling a text.


def compiled(text: Text, *, free: int = 0, cells: Sequence[str] = ()) -> tuple[CodeType, CodeType | None]:
    """Compile a text: return the code of the function, and that of the function that links its layers.

    Args:
        text: The text.
        free: The number of free variables that the function is to have, for which names are invented.
        cells: The pins that become free variables, and not constants.
    """
    source, layers = text.compiled(text.pins.keys() - {*text.links, *cells})
    names = [*cells] or [f"free_{number}_{len(source)}" for number in range(free)]
    if names:
        lines = source.split("\n")
        # An invented name is a free variable only if the function mentions it. Where the code has fewer than the
        # target, 3.11 crashes as a debugger reads the locals of its frame.
        lines[1] = lines[1] if cells else f"    nonlocal {', '.join(names)}; {lines[1].strip()}"
        source = "\n ".join([f"def outer({', '.join(names)}):", *lines]).rstrip(" ")
    module = compile(source + layers, "<aspecthook>", "exec", dont_inherit=True)
    codes = [_settled(const, -bool(names)) for const in module.co_consts if isinstance(const, CodeType)]
    code = next(const for const in codes[0].co_consts if isinstance(const, CodeType)) if names else codes[0]
    return code, (codes[1] if layers else None)


def _settled(code: CodeType, shift: int) -> CodeType:
    """Return code, and all code inside it, with the objects of the library, and with the lines of the text alone.

    The columns would be those of a source that nobody sees.
    """
    consts: list[object] = []
    for const in code.co_consts:
        if isinstance(const, CodeType):
            consts.append(_settled(const, shift))
        elif isinstance(const, str) and const.startswith(PIN):
            consts.append(TABLE.get(const.removeprefix(PIN), const))
        else:
            consts.append(const)
    return code.replace(
        co_consts=tuple(consts), co_firstlineno=code.co_firstlineno + shift, co_linetable=_without_columns(code)
    )


def _without_columns(code: CodeType) -> bytes:
    """Return the location table of a code object without columns (InternalDocs/code_objects.md in CPython)."""
    table: list[int] = []
    before, step = code.co_firstlineno, 0
    for start, end, line in code.co_lines():
        if line is not None:
            step = 2 * (line - before) if line >= before else 2 * (before - line) + 1
            before = line
        count = (end - start) // 2
        while count > 0:  # an entry is for at most eight instructions of two bytes
            entry = count - 1 if count < 8 else 7
            count -= 8
            if line is None:
                table.append(0xF8 | entry)  # code 15: no location
                continue
            table.append(0xE8 | entry)  # code 13: no columns
            while step > 63:
                table.append(step & 63 | 64)
                step >>= 6
            table.append(step)
            step = 0
    return bytes(table)
