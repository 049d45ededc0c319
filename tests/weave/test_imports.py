"""Weaving what is not imported yet: done as the import ends, however the import goes, and taken off without a trace."""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
import textwrap
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aspecthook import HookSignatureError, WeaveError, WeaveWarning, Weaving, weave
from aspecthook.weave import _finding, _imports
from tests.threads import at_once
from tests.weave.conftest import Write

Weave = Callable[..., Weaving]

# Defines a function, and keeps the code that the compiler made for it.
ONE = """
    def one():
        return 1
    made = one.__code__
"""


def ten(result: int) -> int:
    return result * 10


def load(name: str) -> Any:
    return importlib.import_module(name)


def assert_clean(module: Any, name: str = "one") -> None:
    function = getattr(module, name)
    assert function.__code__ is module.made
    assert vars(function) == {} and type(vars(function)) is dict
    assert function() == 1


@pytest.fixture
def woven() -> Iterator[Weave]:
    """Weave, and take off at the end what the test left on; no finder of ours may stay."""
    meta_path, finders = sys.meta_path, list(sys.meta_path)
    weavings: list[Weaving] = []

    def begin(*args: Any, **options: Any) -> Weaving:
        weavings.append(weave(*args, **options))
        return weavings[-1]

    try:
        yield begin
        for weaving in weavings:
            weaving.remove()
        assert not [finder for finder in sys.meta_path if type(finder).__module__.startswith("aspecthook")]
    finally:
        for weaving in weavings:
            weaving.remove()
        sys.meta_path = meta_path
        sys.meta_path[:] = finders


def run(source: str, *args: str, cwd: Path | None = None) -> str:
    """Run a program of its own, which must end by itself and well."""
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", *(args or ("-c", textwrap.dedent(source)))],
        capture_output=True,
        text=True,
        timeout=30,
        cwd=cwd,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


# Weavings, imports, reloads and the finders of others, in any order


SHELF = {
    "ahw_0": "from functools import partial\nfails()\ndef one(): return 1\nseven = partial(int, '1')",
    "ahw_1": "fails()\ndef one(): return 1\ntwo = one",
    "ahw_copy": "from ahw_0 import seven",
}
# What each term means: functions, and the modules of which one must be there.
TERMS = {"ahw_0:one": ["0.one"], "ahw_1:two": ["1.one"], "ahw_0:seven": ["0.seven", "copy.seven"]}
TERMS |= {"ahw_?:one": ["0.one", "1.one"]}


class Shelf(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds and loads the modules above; their imports may fail."""

    fails = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in SHELF else None

    def get_source(self, fullname: str) -> str:
        return SHELF[fullname]

    def exec_module(self, module: types.ModuleType) -> None:
        vars(module)["fails"] = lambda: 1 / (not self.fails)
        super().exec_module(module)


class Silent(importlib.abc.MetaPathFinder):
    """Finds nothing."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return None


class Old:
    """A finder as they once were."""

    def find_module(self, name: str, path: Any = None) -> None: ...


class Importing(RuleBasedStateMachine):
    """Whoever is woven acts once it is imported, its state says so, and the finders of others stay where they are."""

    def __init__(self) -> None:
        super().__init__()
        gc.collect()
        self.meta_path, self.finders = sys.meta_path, sys.meta_path[:]
        self.shelf = Shelf()
        self.theirs: list[Any] = [self.shelf, *self.finders]
        sys.meta_path[:] = self.theirs
        self.is_replaced = False
        self.log: list[int] = []
        self.weavings: list[tuple[Weaving, list[str]]] = []
        self.paused: set[int] = set()
        self.removed: set[int] = set()
        self.hearing: list[Weaving] = []  # the weaving of a user on `importlib.reload`
        self.copied = True  # whether the copy in another module is of the object that is there now

    def loaded(self, name: str) -> bool:
        return f"ahw_{name.partition('.')[0]}" in sys.modules

    @rule(terms=st.lists(st.sampled_from(sorted(TERMS)), min_size=1, max_size=2, unique=True))
    def weave(self, terms: list[str]) -> None:
        number = len(self.weavings)
        self.weavings.append((weave(", ".join(terms), pre=lambda: self.log.append(number)), terms))

    @precondition(lambda self: self.weavings)
    @rule(data=st.data(), do=st.sampled_from(["remove", "remove", "pause", "resume"]))
    def change(self, data: st.DataObject, do: str) -> None:
        number = data.draw(st.integers(0, len(self.weavings) - 1))
        getattr(self.weavings[number][0], do)()
        {"remove": self.removed.add, "pause": self.paused.add, "resume": self.paused.discard}[do](number)

    @rule(name=st.sampled_from(["0", "1", "copy"]), again=st.booleans(), fails=st.sampled_from([True, False, False]))
    def load(self, name: str, again: bool, fails: bool) -> None:
        reloads, again = len(self.log), again and name != "copy" and self.loaded(name)
        runs = again or not self.loaded(name)
        self.shelf.fails = fails
        fails = fails and runs and (name != "copy" or not self.loaded("0"))
        with pytest.raises(ZeroDivisionError) if fails else contextlib.nullcontext():
            importlib.reload(sys.modules[f"ahw_{name}"]) if again else load(f"ahw_{name}")
        assert self.log[reloads:] == [-1] * (again and len(self.hearing))
        self.copied = self.copied and not (again and name == "0")

    @rule(do=st.sampled_from(["first", "last", "take", "replace", "hear"]), old=st.booleans())
    def interfere(self, do: str, old: bool) -> None:
        finder: Any = Old() if old else Silent()
        if do == "hear" and self.hearing:
            self.hearing.pop().remove()
            gc.collect()
        elif do == "hear":
            self.hearing.append(weave(importlib.reload, pre=lambda: self.log.append(-1)))
        elif do == "replace":
            sys.meta_path, self.is_replaced = sys.meta_path[:], True
        elif do == "take":
            for gone in [one for one in self.theirs if type(one) is type(finder)][:1]:
                sys.meta_path.remove(gone)
                self.theirs.remove(gone)
        else:
            place = 0 if do == "first" else len(self.theirs)
            self.theirs.insert(place, finder)
            sys.meta_path.insert(place if do == "first" else len(sys.meta_path), finder)

    @invariant()
    def check(self) -> None:
        now = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("aspecthook")]
        assert list(map(id, now)) == list(map(id, self.theirs))
        waits = False
        for number, (weaving, terms) in enumerate(self.weavings):
            missing = [term for term in terms if not any(map(self.loaded, TERMS[term]))]
            state = "removed" if number in self.removed else "waiting" if missing else "woven"
            assert weaving.state == state
            with (
                pytest.raises(WeaveError, match="nothing is woven") if state == "waiting" else contextlib.nullcontext()
            ):
                weaving.check()
            waits |= state != "removed" and (missing != [] or "ahw_?:one" in terms)
        assert (len(sys.meta_path) > len(now)) == waits
        assert waits or self.is_replaced or sys.meta_path is self.meta_path
        for use in [one for one in ("0.one", "1.one", "0.seven", "copy.seven") if self.loaded(one)]:
            if use != "copy.seven" or self.copied:
                self.log.clear()
                assert eval(f"ahw_{use}()", dict(sys.modules)) == 1
                acting = {*range(len(self.weavings))} - self.paused - self.removed
                meant = [one for one in sorted(acting) if any(use in TERMS[term] for term in self.weavings[one][1])]
                assert self.log == meant, use

    def teardown(self) -> None:
        for weaving in [*self.hearing, *(weaving for weaving, _ in self.weavings)]:
            weaving.remove()
        left = list(map(id, sys.meta_path))
        sys.meta_path = self.meta_path
        sys.meta_path[:] = self.finders
        for name in SHELF:
            sys.modules.pop(name, None)
        assert (left, vars(importlib.reload)) == (list(map(id, self.theirs)), {})


TestImporting = pytest.mark.filterwarnings("ignore::ImportWarning")(Importing.TestCase)
TestImporting.settings = settings(stateful_step_count=20)


# Waiting, and the end of the import


OWN_MODULE = """
    import sys, types
    class Own(types.ModuleType):
        pass
    new = Own(__name__)
    def one():
        return 1
    new.one = one
    new.made = one.__code__
    sys.modules[__name__] = new
"""
OWN_CLASS = """
    import sys, types
    class Own(types.ModuleType):
        def __call__(self): return 5
    sys.modules[__name__].__class__ = Own
"""

# Files, a pointcut, what is imported then, and what its uses give while it is woven and after.
IMPORTED: dict[str, tuple[dict[str, str], str, str, dict[str, tuple[object, object]]]] = {
    "two modules import each other": (
        {"ahw_a.py": "import ahw_b\n" + textwrap.dedent(ONE), "ahw_b.py": "import ahw_a\n" + textwrap.dedent(ONE)},
        "ahw_a:one, ahw_b:one",
        "ahw_a",
        {"ahw_a.one()": (10, 1), "ahw_b.one()": (10, 1)},
    ),
    "a module replaces itself by another": ({"ahw_a.py": OWN_MODULE}, "ahw_a:one", "ahw_a", {"ahw_a.one()": (10, 1)}),
    "a module changes its own class": (
        {"ahw_a.py": textwrap.dedent(ONE) + textwrap.dedent(OWN_CLASS)},
        "ahw_a:one",
        "ahw_a",
        {"ahw_a.one()": (10, 1), "ahw_a()": (5, 5)},
    ),
    "a package with nothing of its own": (
        {"ahw_space/__init__.py": "", "ahw_space/x.py": ONE},
        "ahw_space:*, ahw_space.*:*",
        "ahw_space.x",
        {"ahw_space.x.one()": (10, 1)},
    ),
    "a namespace package": (
        {"ahw_space/x.py": ONE, "ahw_space/deep/y.py": ONE},
        "ahw_space*:*",
        "ahw_space.deep.y",
        {
            "ahw_space.deep.y.one()": (10, 1),
            "type(ahw_space.__path__).__name__.endswith('NamespacePath')": (True, True),
        },
    ),
}


@pytest.mark.parametrize(("files", "pointcut", "name", "uses"), IMPORTED.values(), ids=IMPORTED)
def test_module_is_woven_when_its_import_ends(
    write: Write,
    woven: Weave,
    files: dict[str, str],
    pointcut: str,
    name: str,
    uses: dict[str, tuple[object, object]],
) -> None:
    write(files)
    weaving = woven(pointcut, post=ten)
    load(name)
    assert weaving.state == "woven"
    assert {use: eval(use, dict(sys.modules)) for use in uses} == {use: given for use, (given, _) in uses.items()}
    weaving.remove()
    assert {use: eval(use, dict(sys.modules)) for use in uses} == {use: plain for use, (_, plain) in uses.items()}
    for module in [one for key, one in sys.modules.items() if key.startswith("ahw_") and hasattr(one, "made")]:
        assert_clean(module)


# Removal, pause


def test_weaving_removed_by_the_module_during_its_import(write: Write, woven: Weave) -> None:
    source = """
        from ahw_box import begin
        def one():
            return 1
        made = one.__code__
        weaving = begin("ahw_a:*")
        during = one()
        weaving.remove()
        def two():
            return 2
    """
    write({"ahw_a.py": source, "ahw_box.py": ""})
    load("ahw_box").begin = lambda pointcut: woven(pointcut, post=ten)
    a = load("ahw_a")
    assert (a.during, a.two(), a.weaving.state) == (10, 2, "removed")
    assert_clean(a)
    assert type(a.__spec__) is ModuleSpec


def test_what_is_imported_in_a_pause_acts_after_it_and_what_is_imported_after_it_acts(
    write: Write, woven: Weave
) -> None:
    write({"ahw_a.py": ONE, "ahw_b.py": ONE})
    weaving = woven("ahw_a:one, ahw_b:one", post=ten)
    weaving.pause()
    assert load("ahw_a").one() == 1
    weaving.resume()
    assert (load("ahw_a").one(), load("ahw_b").one()) == (10, 10)


def test_nothing_stands_in_a_spec_or_for_a_finder_once_the_last_weaving_is_gone(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE})
    meta_path, finders = sys.meta_path, list(sys.meta_path)
    weaving = woven("ahw_a:one", post=ten)
    assert len(sys.meta_path) == len(finders) + 1
    a = load("ahw_a")
    for _ in range(2):
        assert sys.meta_path is meta_path  # nobody waits any more
        assert list(map(id, sys.meta_path)) == list(map(id, finders))
        assert "__setattr__" not in vars(ModuleSpec) and type(a.__spec__) is ModuleSpec
        weaving.remove()


def test_a_finder_that_asks_all_but_itself_is_not_asked_by_the_one_in_its_place(write: Write, woven: Weave) -> None:
    class Asking(importlib.abc.MetaPathFinder):
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
            found = (one.find_spec(name, path, target) for one in sys.meta_path if one is not self)
            return next((spec for spec in found if spec is not None), None)

    write({"ahw_a.py": ONE, "ahw_b.py": ONE})
    asking = Asking()
    sys.meta_path.insert(0, asking)
    try:
        woven("ahw_a:one", post=ten)
        assert (load("ahw_a").one(), load("ahw_b").one()) == (10, 1)
    finally:
        sys.meta_path.remove(asking)


@pytest.mark.parametrize("name", ["ahw_a", "ahw_b"])
def test_a_weaving_removed_while_importlib_asks_the_finders_has_none_of_them_passed_by(
    write: Write, woven: Weave, name: str
) -> None:
    # Our finder was taken out of the list, and before 3.14 importlib went on behind the one that took its place.
    write({"ahw_a.py": ONE, "ahw_b.py": ONE})
    weavings: list[Weaving] = []

    class Removing(Silent):
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
            for weaving in weavings:
                weaving.remove()
            return None

    finders = list(sys.meta_path)
    path_finder = importlib.machinery.PathFinder
    sys.meta_path[:] = [Silent(), Removing(), path_finder]
    try:
        weavings.append(woven("ahw_a:one", post=ten))
        assert_clean(load(name))
        assert sys.meta_path[-1] is path_finder
    finally:
        sys.meta_path[:] = finders


def test_the_end_of_one_weaving_leaves_the_others_their_reloads(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE})
    a = load("ahw_a")
    first, _ = woven("ahw_a:one", pre=lambda: None), woven("ahw_a:*", post=ten)
    first.remove()
    assert importlib.reload(a).one() == 10


# Circular imports, and weaving from inside


def test_a_circular_import_may_weave_what_is_defined_later(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": "import ahw_b\n" + textwrap.dedent(ONE), "ahw_box.py": ""})
    write({"ahw_b.py": "from ahw_box import begin\nweaving = begin()\n"})
    states: list[str] = []

    def begin() -> Weaving:
        weaving = woven("ahw_a:one", post=ten)
        states.append(weaving.state)
        return weaving

    load("ahw_box").begin = begin
    a = load("ahw_a")
    weaving = sys.modules["ahw_b"].weaving
    assert (states, weaving.state, a.one()) == (["waiting"], "woven", 10)
    assert type(a.__spec__) is ModuleSpec
    weaving.remove()
    assert_clean(a)


# Threads


@pytest.mark.parametrize("pointcut", ["ahw_a:one", "ahw_*:*"])
def test_a_module_that_another_thread_has_half_imported_is_woven_at_its_end(
    write: Write, woven: Weave, pointcut: str
) -> None:
    write({"ahw_a.py": "import ahw_box\nahw_box.wait()\n" + textwrap.dedent(ONE), "ahw_box.py": ""})
    box = load("ahw_box")
    inside, leave = threading.Event(), threading.Event()

    def wait() -> None:
        inside.set()
        assert leave.wait(20)

    box.wait = wait
    thread = threading.Thread(target=load, args=("ahw_a",), daemon=True)
    thread.start()
    try:
        assert inside.wait(20)
        weaving = woven(pointcut, post=ten)
        assert weaving.state == "waiting"
    finally:
        leave.set()
        thread.join(20)
    a = sys.modules["ahw_a"]
    assert (weaving.state, a.one()) == ("woven", 10)
    assert type(a.__spec__) is ModuleSpec
    weaving.remove()
    assert_clean(a)


def test_module_that_a_reload_takes_out_for_a_moment_is_woven(
    write: Write, woven: Weave, monkeypatch: pytest.MonkeyPatch
) -> None:
    # importlib takes it out of `sys.modules` and puts it back. A weaving in another thread said it had no such name.
    write({"ahw_a.py": ONE})
    a, modules, moments = load("ahw_a"), _finding.modules_of, [[]]
    monkeypatch.setattr(_finding, "modules_of", lambda term: moments.pop() if moments else modules(term))
    woven("ahw_a:one", post=ten)
    assert not moments and a.one() == 10


# A program of its own: a deadlock would hold the library's lock, and with it every other test.
DEADLOCK = """
    import importlib.abc, importlib.machinery, sys, threading
    from aspecthook import weave

    class Base:
        def total(self): return 1

    weaving = weave("*:Base.total", post=lambda result: result)  # wants to know of every import
    sys.modules.pop("difflib", None)
    begun = threading.Event()

    class Slow(importlib.machinery.SourceFileLoader):
        def exec_module(self, module):
            begun.set()
            stop.wait(0.5)  # give the other thread the time to come to wait for this import
            super().exec_module(module)

    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name != "difflib":
                return None
            spec = importlib.machinery.PathFinder.find_spec(name)
            spec.loader = Slow(name, spec.origin)
            return spec

    stop = threading.Event()
    sys.meta_path.insert(1, Finder())

    def importing():
        import difflib

    def weaving_wrongly():
        begun.wait(20)
        try:
            weave(target, pre=lambda ittem: None)
        except TypeError as error:
            print("did you mean 'item'" in str(error))

    def target(item): return item
    threads = [threading.Thread(target=work, daemon=True) for work in (importing, weaving_wrongly)]
    for thread in threads: thread.start()
    for thread in threads: thread.join(3)
    print([thread.is_alive() for thread in threads])
    sys.stdout.flush()
    __import__("os")._exit(0)
"""


def test_no_import_is_waited_for_while_the_lock_is_held() -> None:
    # An error that looks for the nearest name imports difflib, and an import that ends takes the lock.
    assert run(DEADLOCK) == "True\n[False, False]"


def test_two_weavings_wait_for_a_c_function_before_any_proxy_was_made() -> None:
    # The module of proxies is imported at the first; that import led to the same weaving again, without end.
    program = """
        from aspecthook import weave
        several = [weave("zlib:crc32", pre=lambda number=number: print(number)) for number in range(3)]
        import zlib
        print(zlib.crc32(b""), {one.state for one in several})
    """
    assert run(program).split("\n") == ["0", "1", "2", "0 {'woven'}"]


# Modules that are not the usual


REPLACED = """
    import sys
    class Facade:
        def one(self):
            return 1
    sys.modules[__name__] = Facade()
"""


def test_a_module_that_replaces_itself_by_an_object_is_woven_or_refused_but_never_passed_over(
    write: Write, woven: Weave
) -> None:
    write({"ahw_a.py": REPLACED})
    weaving = woven("ahw_a:one", post=ten)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        a = load("ahw_a")
    if a.one() != 10:
        with pytest.raises(WeaveError, match="ahw_a") as caught:
            weaving.check()
        assert "no module 'ahw_a' to import" not in str(caught.value)
        assert "did you mean" not in str(caught.value)


def lazily(name: str, root: Path) -> Any:
    loader = importlib.util.LazyLoader(SourceFileLoader(name, str(root / f"{name}.py")))
    spec = importlib.util.spec_from_file_location(name, root / f"{name}.py", loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    return module


def is_asleep(module: Any) -> bool:
    return type(module) is not types.ModuleType


def test_a_glob_wakes_no_lazy_module(write: Write, woven: Weave) -> None:
    root = write({"ahw_a.py": ONE, "ahw_b.py": ONE})
    a = lazily("ahw_a", root)
    load("ahw_b")
    weaving = woven("ahw_*:o*", post=ten)
    assert is_asleep(a)
    weaving.remove()
    assert is_asleep(a)
    assert_clean(a)


LAZY_NAMES = """
    def __getattr__(name):
        if name in ("one", "made", "seven"):
            from importlib import import_module
            return getattr(import_module("ahw_pkg._inner"), name)
        if name == "broken":
            raise ImportError("needs an extra")
        raise AttributeError(name)
"""
INNER = ONE + "    from functools import partial\n    seven = partial(int, '7')\n    kept = [seven]\n"


@pytest.mark.parametrize("waits", [True, False])
def test_a_name_that_a_module_loads_lazily_is_woven(write: Write, woven: Weave, waits: bool) -> None:
    write({"ahw_pkg/__init__.py": LAZY_NAMES, "ahw_pkg/_inner.py": INNER})
    if not waits:
        load("ahw_pkg")
    weaving = woven("ahw_pkg:one", post=ten)
    pkg = load("ahw_pkg")
    assert (pkg.one(), weaving.state) == (10, "woven")
    weaving.remove()
    assert "one" not in vars(pkg)
    assert_clean(pkg)


# Names that are wrong


def test_check_says_that_a_misspelt_module_is_not_there_and_names_the_nearest(woven: Weave) -> None:
    with pytest.warns(WeaveWarning):
        weaving = woven("jsonn:dumps", post=ten)
    assert weaving.state == "waiting"
    with pytest.raises(WeaveError, match=r"nothing is woven on 'jsonn:dumps': .*'jsonn'.*did you mean 'json'\?"):
        weaving.check()
    assert weaving.state == "waiting"


# A name that nothing can be imported by is warned of at once


@pytest.mark.parametrize(
    ("target", "near"),
    [
        ("jsno:dumps", "json"),  # asyncio was imported, and json was not
        ("json:dumps, aysncio:run", "asyncio"),
        ("pytset:raises", "pytest"),
        ("_jsno:make_encoder", "_json"),
        ("json.decodr:JSONDecoder.decode", "json.decoder"),  # its package is imported
    ],
)
def test_a_name_that_nothing_can_be_imported_by_is_warned_of_with_the_nearest_installed(
    target: str, near: str, woven: Weave
) -> None:
    # It waited for ever, without a word.
    wrong = target.rpartition(", ")[2]
    missing = ".".join(wrong.partition(":")[0].split(".")[: near.count(".") + 1])
    with pytest.warns(WeaveWarning) as caught:
        weaving = woven(target, post=str)
    assert [str(one.message) for one in caught] == [
        f"{wrong!r} waits: there is no module {missing!r} to import; did you mean {near!r}?"
    ]
    assert weaving.state == "waiting"


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("collections.OrderedDict:popitem", "collections:OrderedDict.popitem"),
        ("os.environ:get", "os:environ.get"),
        ("json.decoder.JSONDecoder:decode", "json.decoder:JSONDecoder.decode"),
    ],
)
def test_a_class_in_the_place_of_a_module_is_warned_of_with_the_right_pointcut(
    wrong: str, right: str, woven: Weave
) -> None:
    # It waited without a word, since the module before the dot was there.
    with pytest.warns(WeaveWarning, match=re.escape(f"to import; write '{right}'")):
        woven(wrong, post=str)


@pytest.mark.parametrize("wrong", ["json.decoder.x:f", "json.xyzzy:f"])
def test_no_module_is_suggested_for_one_that_a_module_cannot_have(wrong: str, woven: Weave) -> None:
    with pytest.warns(WeaveWarning) as caught:
        woven(wrong, post=str)
    assert str(caught[0].message) == f"{wrong!r} waits: there is no module {wrong[:-2]!r} to import"


def fails(function: Any) -> bool:
    raise ZeroDivisionError("mine")


MISTAKES: dict[str, tuple[str, dict[str, Any], str, type[Exception], str]] = {
    "a name": ("ahw_a:onne", {}, r"ahw_a:onne.*did you mean 'one'\?", WeaveError, r"ahw_a:onne.*did you mean 'one'\?"),
    "a method": ("ahw_a:Till.totl", {}, r"did you mean 'total'\?", WeaveError, "Till"),
    "a value": ("ahw_a:five", {}, "ahw_a:five.*int", WeaveError, "ahw_a:five.*value"),
    "a glob": ("ahw_a:zzz*", {}, "", WeaveError, "ahw_a"),
    "a glob in a class": ("ahw_a:Till.zzz*", {}, "", WeaveError, "ahw_a"),
    "a hook": ("ahw_a:one, ahw_a:two", {"pre": lambda n: None}, "ahw_a:one", TypeError, "ahw_a:one"),
    "a predicate": ("ahw_a:one", {"where": fails}, "mine", ZeroDivisionError, "mine"),
}


@pytest.mark.parametrize(("pointcut", "given", "warned", "error", "says"), MISTAKES.values(), ids=MISTAKES)
def test_mistake_found_when_an_import_ends_warns_and_the_import_goes_on(
    write: Write, woven: Weave, pointcut: str, given: dict[str, Any], warned: str, error: type[Exception], says: str
) -> None:
    till = "    five = 5\n    class Till:\n        def total(self): return 1\n"
    write({"ahw_a.py": ONE + "    def two(n): return n\n" + till})
    weaving = woven(pointcut, **{"post": ten, **given})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        a = load("ahw_a")
    assert [re.search(warned, str(one.message)) is not None for one in caught] == ([True] if warned else [])
    assert_clean(a)
    assert (vars(a.two), a.five, weaving.state, weaving.mounts) == ({}, 5, "waiting", ())
    for _ in range(2):
        with pytest.raises(error, match=says):
            weaving.check()


def test_a_warning_made_an_error_names_the_module_and_leaves_the_other_weavings_whole(
    write: Write, woven: Weave
) -> None:
    write({"ahw_a.py": ONE})
    woven("ahw_a:onne", post=ten)
    right = woven("ahw_a:one", post=ten)
    with pytest.raises(WeaveWarning, match="ahw_a"):  # pytest makes every warning an error
        load("ahw_a")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeaveWarning)
        a = load("ahw_a")
    assert (a.one(), right.state) == (10, "woven")


# Other threads


@pytest.mark.parametrize("pointcut", ["ahw_a:one", "ahw_a:*"])
def test_a_module_that_another_thread_has_found_and_not_yet_begun_is_waited_for(
    write: Write, woven: Weave, pointcut: str
) -> None:
    # It was past our finder and not yet in `sys.modules`. The next import that asks for a finder tells of it.
    class Slow(Silent):
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
            if name == "ahw_a" and not asked:
                asked.append(name)  # before: the weaving itself asks the finders whether there is such a module
                at_once(lambda: weavings.append(woven(pointcut, post=ten)))
                assert weavings[0].state == "waiting"
            return None

    write({"ahw_a.py": ONE, "ahw_b.py": ""})
    weave(ten, post=ten).remove()  # imports what weaving needs, which a thread cannot do while a finder is asked
    asked: list[str] = []
    weavings: list[Weaving] = []
    slow = Slow()
    sys.meta_path.insert(1, slow)
    try:
        a = load("ahw_a")
    finally:
        sys.meta_path.remove(slow)
    load("ahw_b")
    assert (a.one(), weavings[0].state) == (10, "woven")
    weavings[0].remove()
    assert_clean(a)


def test_a_name_that_is_not_there_yet_is_not_refused_if_the_import_ends_just_then(
    write: Write, woven: Weave, monkeypatch: pytest.MonkeyPatch
) -> None:
    # "chooses nothing": that it was missing was looked up before, and that the import had ended after.
    write({"ahw_a.py": "import ahw_box\nahw_box.go()\n" + textwrap.dedent(ONE), "ahw_box.py": ""})
    box = load("ahw_box")
    looked, over, begun = threading.Event(), threading.Event(), threading.Event()
    box.go = lambda: (begun.set(), looked.wait(20))
    missing = Weaving._missing

    def look_and_wait(self: Weaving) -> Any:
        found = missing(self)
        if threading.current_thread() is here:
            looked.set()
            assert over.wait(20)
        return found

    def importing() -> None:
        load("ahw_a")
        over.set()

    here = threading.current_thread()
    monkeypatch.setattr(Weaving, "_missing", look_and_wait)
    thread = threading.Thread(target=importing, daemon=True)
    thread.start()
    assert begun.wait(20)
    weaving = woven("ahw_a:one", post=ten)
    thread.join(20)
    assert (weaving.state, sys.modules["ahw_a"].one()) == ("woven", 10)


def test_a_module_that_is_run_may_define_later_what_is_woven(woven: Weave) -> None:
    module: Any = types.ModuleType("ahw_run")
    sys.modules["ahw_run"] = module
    _imports.begin_running("ahw_run")
    weaving = woven("ahw_run:one, ahw_run:two", post=ten)
    assert weaving.state == "waiting"
    exec("def one(): return 1", vars(module))
    _imports.notify("ahw_run")
    assert module.one() == 10
    exec("def two(): return 2", vars(module))
    assert module.two() == 2
    _imports.end_running("ahw_run")
    assert module.two() == 20 and weaving.state == "woven"
    _imports.end_running("ahw_run")  # a second time: nothing to do
    with pytest.raises(WeaveError, match="has no 'three'"):
        woven("ahw_run:three", post=ten)
    _imports.notify("ahw_not_imported")


def test_a_hook_that_does_not_fit_one_function_of_a_late_module_is_on_none_of_it(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": "def first(rate): return rate\ndef second(price): return price\nmade = first.__code__"})
    weaving = woven("ahw_a:*", pre=lambda rate: None)
    with pytest.warns(WeaveWarning, match="second"):
        module = load("ahw_a")
    assert module.first.__code__ is module.made and not weaving.mounts
    with pytest.raises(HookSignatureError, match="offers price"):
        weaving.check()


def test_what_a_class_inherits_that_is_imported_during_a_pause_is_paused(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": "class Base:\n    def run(self): return 1\nclass Heir(Base): ..."})
    weaving = woven("ahw_a:Heir.run", post=ten)
    weaving.pause()
    module = load("ahw_a")
    assert module.Heir().run() == 1
    weaving.resume()
    assert (module.Heir().run(), module.Base().run()) == (10, 1)


def test_a_module_that_weaves_all_of_itself_leaves_its_own_hooks_out(write: Write, woven: Weave) -> None:
    source = """
        from ahw_box import begin
        def hook(result):
            return result * 10
        weaving = begin("ahw_a:*", post=hook)
        def one():
            return 1
        made = one.__code__
    """
    write({"ahw_a.py": source, "ahw_box.py": ""})
    load("ahw_box").begin = woven
    a = load("ahw_a")
    assert (a.one(), a.hook(2)) == (10, 20)
    a.weaving.remove()
    assert_clean(a)
