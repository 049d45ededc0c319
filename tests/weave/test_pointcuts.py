"""Pointcuts: which functions a text chooses, held against a model of the grammar; bad texts and what is said then."""

from __future__ import annotations

import re
import sys
import types
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aspecthook import WeaveError, weave
from aspecthook.weave._pointcut import Pointcut

# A generated tree of modules

MODULES = ("wov", "wov.a", "wov.a.b", "wov._p", "wovx")
FUNCTIONS = ("f", "fa", "g", "_f", "__f", "__f__")
CLASSES = ("A", "AB", "_C")
METHODS = ("m", "mn", "_m", "__m__")
SORTS = ("method", "classmethod", "staticmethod", "property")

Where = tuple[str, tuple[str, ...]]  # the module, and the name in it


@dataclass(frozen=True)
class ClassShape:
    """One class: its bases, by where they are; its methods; the classes in it."""

    module: str
    name: str
    bases: tuple[int, ...]
    methods: tuple[tuple[str, str], ...]
    nested: tuple[str, ...]


@dataclass(frozen=True)
class Tree:
    """Modules with functions, and classes that derive from each other across them."""

    functions: tuple[tuple[str, str], ...]
    classes: tuple[ClassShape, ...]
    borrowed: tuple[tuple[str, int], ...]  # which modules know which classes that are not theirs


methods = st.dictionaries(st.sampled_from(METHODS), st.sampled_from(SORTS), max_size=3).map(lambda d: tuple(d.items()))


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    functions = st.tuples(st.sampled_from(MODULES), st.sampled_from(FUNCTIONS))
    places = st.tuples(st.sampled_from(MODULES), st.sampled_from(CLASSES))
    classes: list[ClassShape] = []
    for module, name in draw(st.lists(places, unique=True, max_size=5)):
        base = draw(st.none() | st.integers(0, len(classes) - 1)) if classes else None
        bases = () if base is None else (base,)
        nested = draw(st.lists(st.sampled_from(("N", "_N")), unique=True, max_size=1))
        classes.append(ClassShape(module, name, bases, draw(methods), tuple(nested)))
    borrowed = st.lists(st.tuples(st.sampled_from(MODULES), st.integers(0, max(0, len(classes) - 1))), max_size=2)
    return Tree(
        tuple(draw(st.lists(functions, unique=True, min_size=1, max_size=8))),
        tuple(classes),
        tuple(draw(borrowed)) if classes else (),
    )


class World:
    """A tree, built."""

    def __init__(self, tree: Tree) -> None:
        self.modules = {name: types.ModuleType(name) for name in MODULES}
        self.classes: list[type] = []
        for module, name in tree.functions:
            setattr(self.modules[module], name, self._function(module, (name,)))
        for shape in tree.classes:
            bases = tuple(self.classes[base] for base in shape.bases)
            cls = self._class(shape.module, (shape.name,), bases, shape.methods)
            for name in shape.nested:
                setattr(cls, name, self._class(shape.module, (shape.name, name), (), (("m", "method"),)))
            setattr(self.modules[shape.module], shape.name, cls)
            self.classes.append(cls)
        for module, which in tree.borrowed:
            cls = self.classes[which]
            setattr(self.modules[module], f"B{which}", cls)
            setattr(self.modules[module], "Rate", 3)

    def _function(self, module: str, path: tuple[str, ...]) -> typing.Any:
        made = types.FunctionType((lambda *args: None).__code__, {"__name__": module}, path[-1])
        made.__module__, made.__qualname__ = module, ".".join(path)
        return made

    def _class(
        self, module: str, path: tuple[str, ...], bases: tuple[type, ...], methods: tuple[tuple[str, str], ...]
    ) -> type:
        wrap: dict[str, typing.Any] = {
            "method": lambda f: f,
            "classmethod": classmethod,
            "staticmethod": staticmethod,
            "property": property,
        }
        space = {name: wrap[sort](self._function(module, (*path, name))) for name, sort in methods}
        return type(path[-1], bases, {**space, "__module__": module, "__qualname__": ".".join(path)})

    def all_classes(self) -> list[type]:
        nested = [one for cls in self.classes for one in vars(cls).values() if isinstance(one, type)]
        return self.classes + nested

    @contextmanager
    def imported(self) -> Iterator[None]:
        """Have the modules where imported modules are."""
        finders = list(sys.meta_path)
        sys.modules.update(self.modules)
        try:
            yield
        finally:
            for name in MODULES:
                del sys.modules[name]
            sys.meta_path[:] = finders

    def uses(self) -> dict[Where, typing.Any]:
        """Return what calls each function, and each method on each class that has it."""
        found: dict[Where, typing.Any] = {}
        for name, module in self.modules.items():
            for word, value in vars(module).items():
                if isinstance(value, types.FunctionType):
                    found[name, (word,)] = value
        for cls in self.all_classes():
            for word in METHODS:
                if hasattr(cls, word):
                    found[where_is(cls, word)] = lambda cls=cls, word=word: use(cls, word)
        return found


def where_is(cls: type, name: str) -> Where:
    return cls.__module__, (*cls.__qualname__.split("."), name)


def use(cls: type, name: str) -> None:
    found = getattr(cls(), name)
    if found is not None:
        found()


# The model of the grammar


def matches(glob: str, name: str) -> bool:
    """Whether a glob means a name: wildcards are ``*``, ``?`` and sets in brackets."""
    parts = re.findall(r"\[[^\]]+\]|.", glob)
    kinds = {"*": ".*", "?": "."}
    return (
        re.fullmatch(
            "".join(kinds.get(part, part.replace("[!", "[^") if len(part) > 1 else re.escape(part)) for part in parts),
            name,
        )
        is not None
    )


def chooses(glob: str, name: str) -> bool:
    """Whether a glob chooses a name: underscores in front are asked for."""
    lead = 2 if name.startswith("__") else 1 if name.startswith("_") else 0
    return glob.startswith("_" * lead) and matches(glob, name)


def is_exact(glob: str) -> bool:
    return not set("*?[") & set(glob)


class Missing(Exception):
    """Something is named that is not there."""


class Model:
    """What a term chooses, by looking at everything there is."""

    def __init__(self, world: World) -> None:
        self.world = world

    def chosen(self, text: str) -> set[Where]:
        """Return the calls that a pointcut intercepts."""
        terms = [part.strip() for part in text.split(",")]
        excluded = [part[1:] for part in terms if part.startswith("!")]
        choices: set[tuple[int, type | None]] = set()
        empty: list[str] = []
        for term in terms:
            if not term.startswith("!"):
                found = [one for one in self.term(term) if not any(self.is_out(one, no) for no in excluded)]
                if not found and is_exact(term.partition(":")[0]):
                    # A module may have nothing of its own, as long as another term means something.
                    if {*term.partition(":")[2].split(".")} != {"*"}:
                        raise Missing(term)
                    empty.append(term)
                choices |= {(id(value), heir) for _, value, heir in found}
        if empty and not choices:
            raise Missing(empty[0])
        return {where for where in self.world.uses() if self.is_woven(where, choices)}

    def is_woven(self, where: Where, choices: set[tuple[int, type | None]]) -> bool:
        module, path = where
        if len(path) == 1:
            return (id(vars(self.world.modules[module])[path[0]]), None) in choices
        cls = next(one for one in self.world.all_classes() if where_is(one, path[-1]) == where)
        value = next(vars(base)[path[-1]] for base in cls.__mro__ if path[-1] in vars(base))
        return any((id(value), heir) in choices for heir in (None, *cls.__mro__))

    def term(self, term: str) -> list[tuple[Where, typing.Any, type | None]]:
        module_glob, _, name = term.partition(":")
        glob, *rest = name.split(".")
        must = is_exact(name) and is_exact(module_glob)
        found: list[tuple[Where, typing.Any, type | None]] = []
        for name, module in self.world.modules.items():
            if name == module_glob or (not is_exact(module_glob) and matches(module_glob, name)):
                if is_exact(glob) and glob not in vars(module):
                    if is_exact(module_glob):
                        raise Missing(term)
                    continue
                for word, value in vars(module).items():
                    own = is_exact(glob) or getattr(value, "__module__", None) == name
                    if own and chooses(glob, word):
                        if isinstance(value, type):
                            found += self.in_class(value, (word,), rest, must)
                        elif isinstance(value, types.FunctionType) and not rest:
                            found.append(((name, (word,)), value, None))
        return found

    def in_class(
        self, cls: type, path: tuple[str, ...], rest: list[str], must: bool
    ) -> list[tuple[Where, typing.Any, type | None]]:
        found: list[tuple[Where, typing.Any, type | None]] = []
        glob = rest[0] if rest else "*"
        if is_exact(glob):
            holders = [base for base in cls.__mro__ if glob in vars(base)]
            if not holders and must:
                raise Missing(glob)
            if holders:
                value = vars(holders[0])[glob]
                if isinstance(value, type):
                    found += self.in_class(value, (*path, glob), rest[1:], must)
                elif len(rest) == 1:
                    heir = cls if holders[0] is not cls else None
                    found.append(((cls.__module__, (*path, glob)), value, heir))
            return found
        for word, value in vars(cls).items():
            if chooses(glob, word):
                if isinstance(value, type):
                    found += self.in_class(value, (*path, word), rest[1:], must) if rest else []
                elif word in METHODS and len(rest) < 2:
                    found.append(((cls.__module__, (*path, word)), value, None))
        return found

    def is_out(self, choice: tuple[Where, typing.Any, type | None], term: str) -> bool:
        (module, path), _, _ = choice
        module_glob, _, name = term.partition(":")
        globs = name.split(".")
        return (
            matches(module_glob, module)
            and len(path) >= len(globs)
            and all(matches(glob, word) for glob, word in zip(globs, path, strict=False))
        )


module_globs = st.sampled_from((*MODULES, "wov*", "wov.*", "wov.a*", "*v.a", "wov?", "wov.?", "wov[.x]*", "wov*b"))
function_globs = st.sampled_from((*FUNCTIONS, "*", "f*", "?", "_*", "__*", "[fg]*", "?a", "__*__", "[!f]"))
class_globs = st.sampled_from((*CLASSES, "*", "A*", "?", "_*", "[AB]*"))
method_globs = st.sampled_from((*METHODS, "*", "m*", "?", "_*", "__*", "[!n]*"))
paths = st.one_of(
    function_globs,
    class_globs,
    st.tuples(class_globs, method_globs).map(".".join),
    st.tuples(class_globs, st.sampled_from(("N", "*", "_N")), method_globs).map(".".join),
)
choosing = st.tuples(module_globs, paths).map(":".join)
excluding = st.tuples(module_globs, paths).map(lambda t: f"!{t[0]}:{t[1]}")


# A class and one that inherits all from it: both are chosen, and its methods still carry one hook.
HEIRS = Tree(
    (),
    (
        ClassShape("wov", "A", (), (("m", "method"), ("mn", "staticmethod")), ()),
        ClassShape("wov.a", "AB", (0,), (), ()),
    ),
    (),
)

# Two classes, one below the other, that inherit the method of a third.
LOWEST = Tree(
    (),
    (
        ClassShape("wov", "A", (), (("m", "method"),), ()),
        ClassShape("wov.a", "AB", (0,), (), ()),
        ClassShape("wov", "B", (1,), (), ()),
    ),
    (),
)


@given(trees(), st.lists(choosing, min_size=1, max_size=2), st.lists(excluding, max_size=2))
@settings(max_examples=100)
@example(HEIRS, ["wov*:[AB]*.m"], [])
@example(HEIRS, ["wov:A.m", "wov.a:AB.m"], [])
@example(HEIRS, ["wov*:A*.mn"], ["!wov:A.mn"])
@example(LOWEST, ["wov:B.m", "wov:A.m"], ["!wov.a:AB.m"])
@example(Tree((("wov", "f"),), (), ()), ["wov:f", "wov.a:*"], [])
@example(Tree((("wov", "f"), ("wov.a", "f"), ("wovx", "f")), (), ()), ["wov*:f"], ["!wov:f"])
@example(Tree((("wov", "_f"), ("wov", "__f"), ("wov", "f")), (), ()), ["wov:_*"], [])
def test_a_pointcut_intercepts_just_the_calls_that_the_grammar_says_each_once(
    tree: Tree, terms: list[str], excluded: list[str]
) -> None:
    world = World(tree)
    text = ", ".join(terms + excluded)
    with world.imported():
        try:
            expected = Model(world).chosen(text)
        except Missing:
            with pytest.raises(WeaveError):
                weave(text, pre=lambda: None)
            return
        uses = world.uses()
        runs: list[int] = []
        counts: dict[Where, int] = {}
        with weave(text, pre=lambda: runs.append(1)):
            for where, call in uses.items():
                runs.clear()
                call()
                counts[where] = len(runs)
        assert {where for where, count in counts.items() if count} == expected
        assert max(counts.values(), default=0) <= 1, counts
        for call in uses.values():
            runs.clear()
            call()
            assert not runs


# By example


@pytest.fixture
def world() -> Iterator[types.SimpleNamespace]:
    """Return a module `wov` with two classes, and another that holds them."""
    made = World(
        Tree(
            (("wov", "f"), ("wov", "fa"), ("wov", "_f"), ("wov.a", "f")),
            (
                ClassShape("wov", "A", (), (("m", "method"), ("_m", "method")), ("N",)),
                ClassShape("wov.a", "AB", (0,), (("mn", "method"),), ()),
            ),
            (),
        )
    )
    with made.imported():
        yield types.SimpleNamespace(wov=made.modules["wov"], a=made.modules["wov.a"], world=made)


def names(text: str) -> set[str]:
    with weave(text, pre=lambda: None) as weaving:
        return {f"{mount.function.__module__}:{mount.function.__qualname__}" for mount in weaving.mounts}


@given(st.text(alphabet="wov:*.,!?[] _fA", max_size=14))
@settings(max_examples=300)
def test_every_text_is_a_pointcut_or_is_refused_with_a_weave_error(text: str) -> None:
    try:
        read = Pointcut(text)
    except WeaveError as error:
        said = str(error)
    else:
        said = repr(text)
        assert read.terms
        assert all(term.module and term.segments for term in read.terms + read.excluded)
    assert repr(text) in said


def test_a_glob_does_not_reach_what_a_module_only_imports(world: types.SimpleNamespace) -> None:
    world.a.borrowed, world.a.Borrowed = world.wov.f, world.wov.A
    assert names("wov.a:*") == {"wov.a:f", "wov.a:AB.mn"}
    assert names("wov.a:borrowed") == {"wov:f"}
    assert names("wov.a:Borrowed") == {"wov:A.m"}
    world.wov.A.N.outer = world.wov.A
    assert names("wov:A.N.*") == {"wov:A.N.m"}


def test_a_glob_does_not_choose_what_a_package_imports_from_its_modules(world: types.SimpleNamespace) -> None:
    world.wov.from_below = world.a.f
    assert "wov.a:f" not in names("wov:*")
