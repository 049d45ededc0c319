"""Weaving what is not imported yet: done as the import ends, however the import goes, and taken off without a trace."""

from __future__ import annotations

import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import os
import re
import runpy
import subprocess
import sys
import textwrap
import threading
import types
import warnings
import weakref
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

from aspecthook import HookSignatureError, WeaveError, WeaveWarning, Weaving, hooks, pre, weave
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


def caught(call: Callable[[], object]) -> BaseException | None:
    """Return what a call raises."""
    try:
        call()
    except BaseException as error:
        return error
    return None


def loaders(module: Any) -> tuple[type[Any], type[Any]]:
    """Return the types of the loaders of a module; to be compared with those of a module that nobody weaves."""
    return type(module.__loader__), type(module.__spec__.loader)


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


# Waiting, and the end of the import


def test_a_weaving_waits_until_its_module_is_imported(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE})
    weaving = woven("ahw_a:one", post=ten)
    assert (weaving.state, weaving.mounts, weaving.hooks) == ("waiting", (), ())
    assert "ahw_a" not in sys.modules
    a = load("ahw_a")
    assert (weaving.state, a.one()) == ("woven", 10)
    assert weaving.mounts == (hooks(a.one),)
    assert [hook.function for hook in weaving.hooks] == [ten]
    weaving.check()
    weaving.remove()
    assert weaving.state == "removed"
    assert_clean(a)


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
TILL = """
    class Till:
        def total(self): return 1
        @classmethod
        def make(cls): return 2
        @staticmethod
        def fee(): return 3
        @property
        def open(self): return 4
        def _own(self): return 5
        class Drawer:
            def coins(self): return 6
    before = dict(vars(Till))
    def till_is_plain(): return dict(vars(Till)) == before
"""
BASE = "class Base:\n    def total(self): return 1\n    def _own(self): return 1\n"
CHILD = "from ahw_a import Base\nclass Child(Base):\n    def total(self): return 2\n"
SEVEN = "from functools import partial\nseven = partial(int, '7')\nkept = [seven]\n"

# Files, a pointcut, what is imported then, and what its uses give while it is woven and after.
IMPORTED: dict[str, tuple[dict[str, str], str, str, dict[str, tuple[object, object]]]] = {
    "code that imports the module": (
        {"ahw_a.py": ONE, "ahw_user.py": "from ahw_a import one\nseen = one()\n"},
        "ahw_a:one",
        "ahw_user",
        {"ahw_user.seen": (10, 10), "ahw_user.one()": (10, 1)},
    ),
    "a proxy is copied after the import": (
        {"ahw_a.py": SEVEN, "ahw_b.py": "from ahw_a import seven\n"},
        "ahw_a:seven",
        "ahw_b",
        {
            "ahw_b.seven()": (70, 7),
            "ahw_b.seven is ahw_a.seven": (True, True),
            "ahw_b.seven is ahw_a.kept[0]": (False, True),
        },
    ),
    "an excluding term": (
        {"ahw_a.py": ONE + "    def two(): return 2\n"},
        "ahw_*:*, !ahw_a:one",
        "ahw_a",
        {"ahw_a.one()": (1, 1), "ahw_a.two()": (20, 2)},
    ),
    "a class is hooked by its methods": (
        {"ahw_a.py": TILL},
        "ahw_a:Till",
        "ahw_a",
        {
            "ahw_a.Till().total()": (10, 1),
            "ahw_a.Till.make()": (20, 2),
            "ahw_a.Till.fee()": (30, 3),
            "ahw_a.Till().open": (40, 4),
            "ahw_a.Till()._own()": (5, 5),
            "ahw_a.Till.Drawer().coins()": (6, 6),
            "ahw_a.till_is_plain()": (True, True),
        },
    ),
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
    "a namespace package": (
        {"ahw_space/x.py": ONE, "ahw_space/deep/y.py": ONE},
        "ahw_space*:*",
        "ahw_space.deep.y",
        {
            "ahw_space.deep.y.one()": (10, 1),
            "type(ahw_space.__path__).__name__.endswith('NamespacePath')": (True, True),
        },
    ),
    "subclasses of a base that is waited for": (
        {"ahw_a.py": BASE, "ahw_b.py": CHILD},
        "ahw_a:Base+",
        "ahw_b",
        {"ahw_b.Base().total()": (10, 1), "ahw_b.Child().total()": (20, 2), "ahw_b.Child()._own()": (1, 1)},
    ),
    "subclasses in a circular import": (
        {"ahw_a.py": BASE + "import ahw_b\n", "ahw_b.py": CHILD},
        "ahw_a:Base+.total",
        "ahw_a",
        {"ahw_a.Base().total()": (10, 1), "ahw_b.Child().total()": (20, 2)},
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
    weaving = woven(pointcut, post=ten, again=True)
    load(name)
    assert weaving.state == "woven"
    assert {use: eval(use, dict(sys.modules)) for use in uses} == {use: given for use, (given, _) in uses.items()}
    weaving.remove()
    assert {use: eval(use, dict(sys.modules)) for use in uses} == {use: plain for use, (_, plain) in uses.items()}
    for module in [one for key, one in sys.modules.items() if key.startswith("ahw_") and hasattr(one, "made")]:
        assert_clean(module)


def test_a_name_copied_while_the_module_is_being_imported_is_hooked(write: Write, woven: Weave) -> None:
    source = """
        from functools import partial
        def one():
            return 1
        made = one.__code__
        seven = partial(int, "7")
        original = seven.__reduce__()
        import ahw_b
    """
    write({"ahw_a.py": source, "ahw_b.py": "from ahw_a import one, seven\nearly = seven\n"})
    weaving = woven("ahw_a:one, ahw_a:seven", post=ten)
    a = load("ahw_a")
    b = sys.modules["ahw_b"]
    assert (b.one(), b.seven(), b.early(), a.seven()) == (10, 70, 70, 70)
    weaving.remove()
    assert b.seven is b.early is a.seven
    assert type(a.seven) is partial
    assert (b.one(), b.seven()) == (1, 7)
    assert_clean(a)


def test_a_glob_takes_the_submodules_as_they_are_imported(write: Write, woven: Weave) -> None:
    write(
        {
            "ahw_pkg/__init__.py": ONE,
            "ahw_pkg/x.py": ONE,
            "ahw_pkg/y.py": ONE + "    def _private(): return 1\n",
            "ahw_pkg/deep/__init__.py": "",
            "ahw_pkg/deep/z.py": ONE,
            "ahw_pkgs.py": ONE,
        }
    )
    weaving = woven("ahw_pkg.*:*", post=ten)
    assert weaving.state == "waiting"
    pkg, other = load("ahw_pkg"), load("ahw_pkgs")
    assert (pkg.one(), other.one(), weaving.state) == (1, 1, "waiting")
    x = load("ahw_pkg.x")
    assert (x.one(), weaving.state, len(weaving.mounts)) == (10, "woven", 1)
    y, z = load("ahw_pkg.y"), load("ahw_pkg.deep.z")
    assert (y.one(), y._private(), z.one(), len(weaving.mounts)) == (10, 1, 10, 3)
    weaving.remove()
    for module in (pkg, other, x, y, z):
        assert_clean(module)


def test_of_two_terms_each_is_woven_when_its_module_is_there(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE, "ahw_b.py": ONE})
    a = load("ahw_a")
    weaving = woven("ahw_a:one, ahw_b:one", post=ten)
    assert (weaving.state, a.one()) == ("waiting", 10)
    b = load("ahw_b")
    assert (weaving.state, a.one(), b.one()) == ("woven", 10, 10)
    weaving.remove()
    assert_clean(a)
    assert_clean(b)


def test_every_weaving_that_waits_for_a_module_is_woven_in_their_order(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE})
    first = woven("ahw_a:one", post=lambda result: result + 1)
    second = woven("ahw_a:*", post=lambda result: result * 10)
    a = load("ahw_a")
    assert a.one() == 20
    first.remove()
    assert a.one() == 10
    second.remove()
    assert_clean(a)


def test_the_same_hook_waiting_twice_is_one_hook_until_both_are_removed(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE})
    first, second = woven("ahw_a:one", post=ten), woven("ahw_a:*", post=ten)
    a = load("ahw_a")
    assert a.one() == 10
    first.remove()
    assert a.one() == 10
    second.remove()
    assert_clean(a)


def test_one_weaving_whose_name_is_wrong_does_not_keep_another_from_its_module(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE})
    wrong, right = woven("ahw_a:onne", post=ten), woven("ahw_a:one", post=ten)
    with pytest.warns(WeaveWarning, match="onne"):
        a = load("ahw_a")
    assert (a.one(), right.state, wrong.mounts) == (10, "woven", ())


def test_a_block_of_scope_context_may_wait_for_the_import(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE})
    seen: list[int] = []
    with woven("ahw_a:one", post=ten, scope="context"):
        a = load("ahw_a")
        thread = threading.Thread(target=lambda: seen.append(a.one()))
        thread.start()
        thread.join()
        assert (a.one(), seen) == (10, [1])
    assert_clean(a)


def test_a_waiting_weaving_that_is_dropped_still_weaves(write: Write) -> None:
    write({"ahw_a.py": ONE})
    weaving = weave("ahw_a:one", post=ten)
    weak = weakref.ref(weaving)
    del weaving
    gc.collect()
    try:
        assert load("ahw_a").one() == 10
    finally:
        kept = weak()
        if kept is not None:
            kept.remove()


# Removal, pause


def test_a_weaving_removed_while_it_waits_is_never_woven(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE})
    finders = list(sys.meta_path)
    weaving = woven("ahw_a:one", post=ten)
    weaving.remove()
    weaving.remove()
    assert sys.meta_path == finders
    a = load("ahw_a")
    assert (weaving.state, weaving.mounts) == ("removed", ())
    weaving.check()
    assert_clean(a)


def test_a_weaving_removed_by_the_module_that_is_being_imported_is_not_woven(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE + "    import ahw_box; ahw_box.weaving.remove()\n", "ahw_box.py": "weaving = None\n"})
    box = load("ahw_box")
    box.weaving = woven("ahw_a:one", post=ten)
    a = load("ahw_a")
    assert box.weaving.state == "removed"
    assert_clean(a)


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


def test_of_several_waiting_weavings_the_last_to_go_takes_the_finder(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE})
    finders = list(sys.meta_path)
    first, second = woven("ahw_a:one", post=ten), woven("ahw_a:o*", post=ten)
    assert sys.meta_path[0] is not finders[0]
    first.remove()
    assert load("ahw_a").one() == 10
    second.remove()
    assert list(map(id, sys.meta_path)) == list(map(id, finders))


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


def test_what_is_imported_already_needs_no_finder_and_all_that_follows_a_reload_goes_with_the_weaving(
    write: Write, woven: Weave
) -> None:
    write({"ahw_a.py": ONE})
    gc.collect()
    a, finders, code = load("ahw_a"), list(sys.meta_path), importlib.reload.__code__
    kind = type(vars(importlib.reload))  # a weaving that an earlier test has dropped may still have its hook there
    weaving = woven("ahw_a:one", post=ten)
    other = woven("ahw_a:*", post=ten)
    assert list(map(id, sys.meta_path)) == list(map(id, finders))
    weaving.remove()
    assert importlib.reload(a).one() == 10
    other.remove()
    assert importlib.reload.__code__ is code
    assert vars(importlib.reload) == {} and type(vars(importlib.reload)) is kind


def test_a_spec_that_was_looked_up_is_one_of_importlib_again(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE})
    weaving = woven("ahw_a:one", post=ten)
    spec = importlib.util.find_spec("ahw_a")
    weaving.remove()
    assert type(spec) is ModuleSpec


class Silent(importlib.abc.MetaPathFinder):
    """Finds nothing."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return None


def test_a_copy_of_the_finders_that_is_put_back_later_loses_ours_with_the_next_import(
    write: Write, woven: Weave, monkeypatch: pytest.MonkeyPatch
) -> None:
    write({"ahw_a.py": ONE, "ahw_b.py": ONE})
    finders = list(sys.meta_path)
    weaving = woven("ahw_a:one", post=ten)
    copy = list(sys.meta_path)
    weaving.remove()
    monkeypatch.setattr(sys, "meta_path", copy)
    assert_clean(load("ahw_b"))
    assert list(map(id, copy)) == list(map(id, finders))


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


class Chaining(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Wraps the loader that the other finders have found, and puts it back when the module has run, as ddtrace does."""

    loader: Any = None

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        found = (one.find_spec(name, path, target) for one in sys.meta_path if one is not self)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None:
            self.loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        self.loader.exec_module(module)
        assert module.__spec__ is not None
        module.__loader__ = module.__spec__.loader = self.loader


def test_no_loader_of_ours_stays_where_an_import_hook_puts_back_the_one_it_has_found(
    write: Write, woven: Weave
) -> None:
    write({"ahw_a.py": ONE, "ahw_plain.py": ""})
    a = load("ahw_a")
    weaving = woven("ahw_a:one", post=ten)
    chaining = Chaining()
    sys.meta_path.insert(0, chaining)
    try:
        importlib.reload(a)
        assert a.one() == 10
    finally:
        sys.meta_path.remove(chaining)
    weaving.remove()
    assert loaders(a) == loaders(load("ahw_plain"))


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


@pytest.mark.filterwarnings("ignore:.* waits. there is no module")
def test_finders_that_others_add_and_take_meanwhile_stay_as_they_are(woven: Weave) -> None:
    before, after = Silent(), Silent()
    finders = list(sys.meta_path)
    sys.meta_path.append(before)
    weaving = woven("ahw_none:one", post=ten)
    sys.meta_path.insert(0, after)
    weaving.remove()
    assert sys.meta_path == [after, *finders, before]
    sys.meta_path.remove(after)
    sys.meta_path.remove(before)


def test_a_weaving_paused_while_it_waits_is_woven_paused(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE})
    weaving = woven("ahw_a:one", post=ten)
    weaving.pause()
    a = load("ahw_a")
    assert (a.one(), weaving.state) == (1, "woven")
    weaving.resume()
    assert a.one() == 10
    weaving.remove()
    assert_clean(a)


def test_a_weaving_paused_and_resumed_while_it_waits_acts(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE})
    weaving = woven("ahw_a:one", post=ten)
    weaving.pause()
    weaving.resume()
    assert load("ahw_a").one() == 10


def test_a_paused_weaving_stays_paused_after_a_reload(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE})
    a = load("ahw_a")
    weaving = woven("ahw_a:one", post=ten)
    weaving.pause()
    importlib.reload(a)
    assert a.one() == 1
    weaving.resume()
    assert a.one() == 10


# Reload


def test_a_reload_weaves_again_each_time(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE})
    weaving = woven("ahw_a:one", post=ten)
    a = load("ahw_a")
    kept = []
    for _ in range(2):
        kept.append((a.one, a.made))
        assert importlib.reload(a) is a
        assert a.one is not kept[-1][0]
        assert a.one() == 10
    assert [function() for function, _ in kept] == [10, 10]
    assert weaving.state == "woven"
    weaving.remove()
    assert_clean(a)
    for function, code in kept:
        assert function.__code__ is code
        assert vars(function) == {} and type(vars(function)) is dict


def test_a_reload_after_removal_weaves_nothing(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE})
    weaving = woven("ahw_a:one", post=ten)
    a = load("ahw_a")
    weaving.remove()
    importlib.reload(a)
    assert_clean(a)


def test_a_reloaded_class_is_woven_and_instances_of_the_old_one_stay_hooked(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": "class Till:\n    def total(self): return 1\n"})
    weaving = woven("ahw_a:Till.total", post=ten)
    a = load("ahw_a")
    old = a.Till()
    importlib.reload(a)
    assert (old.total(), a.Till().total()) == (10, 10)
    weaving.remove()
    assert (old.total(), a.Till().total()) == (1, 1)


def test_a_reload_weaves_again_what_a_proxy_stands_for(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": SEVEN, "ahw_b.py": "from ahw_a import seven\n"})
    weaving = woven("ahw_a:seven", post=ten)
    b = load("ahw_b")
    a = sys.modules["ahw_a"]
    old = a.kept[0]
    importlib.reload(a)
    assert a.kept[0] is not old
    assert (a.seven(), b.seven()) == (70, 70)
    assert weaving.state == "woven"
    weaving.remove()
    assert a.seven is a.kept[0]
    assert b.seven is old
    assert weaving.state == "removed"


def test_a_failed_reload_keeps_what_was_woven_and_the_next_weaves_again(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE + "    from ahw_box import fine; fine()\n", "ahw_box.py": "fine = lambda: None\n"})
    box = load("ahw_box")
    weaving = woven("ahw_a:one", post=ten)
    a = load("ahw_a")
    first = a.one
    box.fine = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        importlib.reload(a)
    assert first() == 10
    box.fine = lambda: None
    importlib.reload(a)
    assert a.one() == 10
    weaving.remove()
    assert_clean(a)
    assert first() == 1


def test_a_reload_that_mends_a_wrong_name_mends_the_weaving(write: Write, woven: Weave) -> None:
    root = write({"ahw_a.py": "def won(): return 1\n"})
    weaving = woven("ahw_a:one", post=ten)
    with pytest.warns(WeaveWarning):
        a = load("ahw_a")
    (root / "ahw_a.py").write_text(textwrap.dedent(ONE) + "# longer than before\n")
    importlib.invalidate_caches()
    importlib.reload(a)
    assert (a.one(), weaving.state) == (10, "woven")
    weaving.check()


# An import that fails


def test_an_import_that_fails_and_then_succeeds_is_woven(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE + "    from ahw_box import fine; fine()\n", "ahw_box.py": "fine = lambda: 1 / 0\n"})
    box = load("ahw_box")
    weaving = woven("ahw_a:one", post=ten)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            load("ahw_a")
        assert (weaving.state, weaving.mounts) == ("waiting", ())
        assert "ahw_a" not in sys.modules
    box.fine = lambda: None
    a = load("ahw_a")
    assert (weaving.state, a.one()) == ("woven", 10)
    weaving.remove()
    assert_clean(a)


def test_module_whose_import_fails_is_unwoven(write: Write, woven: Weave) -> None:
    source = """
        from ahw_box import kept, begin, fine
        def one():
            return 1
        kept.append((one, one.__code__))
        begin()
        def two():
            return 2
        fine()
    """
    write({"ahw_a.py": source, "ahw_box.py": "kept = []\n"})
    box = load("ahw_box")
    weavings: list[Weaving] = []
    box.begin = lambda: weavings.append(woven("ahw_a:*", post=ten))
    box.fine = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        load("ahw_a")
    box.fine = box.begin = lambda: None
    a = load("ahw_a")
    assert (a.one(), a.two()) == (10, 20)
    weavings[0].remove()
    assert (a.one(), a.two()) == (1, 2)
    assert len(box.kept) == 2
    for function, code in box.kept:
        assert function.__code__ is code
        assert vars(function) == {} and type(vars(function)) is dict


def test_a_package_whose_import_fails_after_a_submodule_was_woven_is_woven_later(write: Write, woven: Weave) -> None:
    init = ONE + "    from . import sub\n    from ahw_box import fine; fine()\n"
    write({"ahw_pkg/__init__.py": init, "ahw_pkg/sub.py": ONE, "ahw_box.py": "fine = lambda: 1 / 0\n"})
    box = load("ahw_box")
    weaving = woven("ahw_pkg*:*", post=ten)
    with pytest.raises(ZeroDivisionError):
        load("ahw_pkg")
    box.fine = lambda: None
    pkg = load("ahw_pkg")
    assert (pkg.one(), pkg.sub.one()) == (10, 10)
    weaving.remove()
    assert_clean(pkg)
    assert_clean(pkg.sub)


def test_a_module_that_cannot_be_compiled_fails_as_without_weaving(write: Write, woven: Weave) -> None:
    root = write({"ahw_a.py": "def one(:\n"})
    weaving = woven("ahw_a:one", post=ten)
    with pytest.raises(SyntaxError):
        load("ahw_a")
    assert weaving.state == "waiting"
    (root / "ahw_a.py").write_text(textwrap.dedent(ONE))
    importlib.invalidate_caches()
    assert load("ahw_a").one() == 10


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


def test_a_submodule_may_weave_what_its_package_defines_later(write: Write, woven: Weave) -> None:
    init = "from . import sub\n" + textwrap.dedent(ONE)
    write({"ahw_pkg/__init__.py": init, "ahw_pkg/sub.py": "from ahw_box import begin\nweaving = begin()\n"})
    write({"ahw_box.py": ""})
    load("ahw_box").begin = lambda: woven("ahw_pkg:one", post=ten)
    sub = load("ahw_pkg.sub")
    pkg = sys.modules["ahw_pkg"]
    assert (sub.weaving.state, pkg.one()) == ("woven", 10)
    sub.weaving.remove()
    assert_clean(pkg)


def test_a_name_that_a_circular_import_gets_wrong_is_warned_of_at_the_end(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": "import ahw_b\n" + textwrap.dedent(ONE), "ahw_b.py": "from ahw_box import begin\nbegin()\n"})
    write({"ahw_box.py": ""})
    weavings: list[Weaving] = []
    load("ahw_box").begin = lambda: weavings.append(woven("ahw_a:onne", post=ten))
    with pytest.warns(WeaveWarning, match="onne"):
        a = load("ahw_a")
    with pytest.raises(WeaveError, match="did you mean 'one'"):
        weavings[0].check()
    assert type(a.__spec__) is ModuleSpec
    assert_clean(a)


@pytest.mark.parametrize("order", ["before", "after"])
def test_a_module_may_weave_itself_while_it_is_imported(write: Write, woven: Weave, order: str) -> None:
    define = textwrap.dedent(ONE)
    begin = "weaving = begin('ahw_a:one')\n"
    body = begin + define if order == "before" else define + begin
    write({"ahw_a.py": "from ahw_box import begin\n" + body, "ahw_box.py": ""})
    load("ahw_box").begin = lambda pointcut: woven(pointcut, post=ten)
    a = load("ahw_a")
    assert (a.weaving.state, a.one()) == ("woven", 10)
    a.weaving.remove()
    assert_clean(a)


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


def test_a_weaving_begun_half_way_takes_what_is_there_and_then_the_rest(write: Write, woven: Weave) -> None:
    source = """
        from ahw_box import begin
        def one():
            return 1
        made = one.__code__
        begin()
        half = one()
        def two():
            return 2
        begun = two()
    """
    write({"ahw_a.py": source, "ahw_box.py": ""})
    load("ahw_box").begin = lambda: woven("ahw_a:*", post=ten)
    a = load("ahw_a")
    assert (a.half, a.begun, a.one(), a.two()) == (10, 2, 10, 20)


# Threads


def test_two_threads_that_import_the_same_module_both_see_it_woven(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE})
    seen: list[int] = []
    for _ in range(40):
        sys.modules.pop("ahw_a", None)
        weaving = woven("ahw_a:one", post=ten)
        at_once(*[lambda: seen.append(load("ahw_a").one())] * 3, within=20)
        assert weaving.state == "woven"
        weaving.remove()
        assert_clean(sys.modules["ahw_a"])
    assert seen == [10] * 120


def test_threads_that_import_different_modules_see_them_all_woven(write: Write, woven: Weave) -> None:
    names = [f"ahw_pkg.m{number}" for number in range(4)]
    write({"ahw_pkg/__init__.py": "", **{f"ahw_pkg/m{number}.py": ONE for number in range(4)}})
    for _ in range(20):
        for name in ("ahw_pkg", *names):
            sys.modules.pop(name, None)
        seen: list[int] = []
        weaving = woven("ahw_pkg.*:*", post=ten)
        at_once(*[lambda name=name: seen.append(load(name).one()) for name in names], within=20)  # type: ignore[misc]
        assert (seen, len(weaving.mounts)) == ([10] * 4, 4)
        weaving.remove()
        for name in names:
            assert_clean(sys.modules[name])


def test_a_weaving_begun_while_another_thread_imports_is_woven_in_the_end(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE})
    for _ in range(60):
        sys.modules.pop("ahw_a", None)
        made: list[Weaving] = []
        at_once(lambda: load("ahw_a"), lambda: made.append(woven("ahw_a:one", post=ten)), within=20)
        made[0].check()  # the import may have been past the place of our finder when that came
        assert (made[0].state, sys.modules["ahw_a"].one()) == ("woven", 10)
        made[0].remove()
        assert_clean(sys.modules["ahw_a"])


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
    a, modules, moments = load("ahw_a"), _finding.modules, [[]]
    monkeypatch.setattr(_finding, "modules", lambda term: moments.pop() if moments else modules(term))
    woven("ahw_a:one", post=ten)
    assert not moments and a.one() == 10


def test_weavings_that_come_and_go_while_threads_reload_leave_no_trace(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE})
    a = load("ahw_a")

    def come_and_go() -> None:
        for _ in range(40):
            with weave("ahw_a:one", post=ten):
                a.one()

    def reload() -> None:
        for _ in range(40):
            importlib.reload(a)

    at_once(come_and_go, reload, come_and_go, within=20)
    assert_clean(a)


# A program of its own: a deadlock would hold the library's lock, and with it every other test.
DEADLOCK = """
    import importlib.abc, importlib.machinery, sys, threading
    from aspecthook import weave

    class Base:
        def total(self): return 1

    weaving = weave("__main__:Base+.total", post=lambda result: result)  # wants to know of every import
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


def test_an_object_in_the_place_of_an_imported_module_is_woven_or_refused_at_once(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": REPLACED})
    a = load("ahw_a")
    error = caught(lambda: woven("ahw_a:one", post=ten))
    if error is None:
        assert a.one() == 10
    else:
        assert isinstance(error, WeaveError)
        assert "ahw_a" in str(error)
        assert "Facade" in str(error)


def test_none_in_the_place_of_a_module_only_waits(monkeypatch: pytest.MonkeyPatch, woven: Weave) -> None:
    monkeypatch.setitem(sys.modules, "ahw_barred", None)  # type: ignore[arg-type]
    weaving = woven("ahw_barred:one", post=ten)
    with pytest.raises(ImportError):
        load("ahw_barred")
    assert weaving.state == "waiting"
    with pytest.raises(WeaveError, match="ahw_barred"):
        weaving.check()


def test_a_module_made_by_hand_is_woven_though_it_has_no_spec(monkeypatch: pytest.MonkeyPatch, woven: Weave) -> None:
    made: Any = types.ModuleType("ahw_hand")
    exec(textwrap.dedent(ONE), vars(made))
    monkeypatch.setitem(sys.modules, "ahw_hand", made)
    weaving = woven("ahw_hand:one", post=ten)
    assert made.one() == 10
    weaving.remove()
    assert_clean(made)


@pytest.mark.filterwarnings("ignore:.* waits. there is no module")
def test_check_weaves_what_came_without_an_import(monkeypatch: pytest.MonkeyPatch, woven: Weave) -> None:
    weaving = woven("ahw_hand:one", post=ten)
    made: Any = types.ModuleType("ahw_hand")
    exec(textwrap.dedent(ONE), vars(made))
    monkeypatch.setitem(sys.modules, "ahw_hand", made)
    weaving.check()
    assert (made.one(), weaving.state) == (10, "woven")


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


def test_an_exact_name_in_a_lazy_module_is_woven(write: Write, woven: Weave) -> None:
    root = write({"ahw_a.py": ONE})
    a = lazily("ahw_a", root)
    weaving = woven("ahw_a:one", post=ten)
    assert a.one() == 10
    assert weaving.state == "woven"
    weaving.remove()
    assert_clean(a)


def test_a_glob_wakes_no_lazy_module(write: Write, woven: Weave) -> None:
    root = write({"ahw_a.py": ONE, "ahw_b.py": ONE})
    a = lazily("ahw_a", root)
    load("ahw_b")
    weaving = woven("ahw_*:o*", post=ten)
    assert is_asleep(a)
    weaving.remove()
    assert is_asleep(a)
    assert_clean(a)


def test_an_object_with_aliases_wakes_no_lazy_module(write: Write, woven: Weave) -> None:
    root = write({"ahw_a.py": ONE, "ahw_b.py": "from functools import partial\nseven = partial(int, '7')\n"})
    a, b = lazily("ahw_a", root), load("ahw_b")
    weaving = woven(b.seven, post=ten)
    assert b.seven() == 70
    weaving.remove()
    assert is_asleep(a)


class LazyFinder(importlib.abc.MetaPathFinder):
    """Has the modules of one folder loaded when something of them is first asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        file = self.root / f"{name}.py"
        if not file.exists():
            return None
        loader = importlib.util.LazyLoader(SourceFileLoader(name, str(file)))
        return importlib.util.spec_from_file_location(name, file, loader=loader)


@pytest.mark.parametrize("pointcut", ["ahw_a:one", "ahw_a:*", "ahw_*:o*"])
def test_a_module_that_a_finder_makes_lazy_is_woven_when_it_is_used(
    write: Write, woven: Weave, monkeypatch: pytest.MonkeyPatch, pointcut: str
) -> None:
    monkeypatch.setattr(sys, "meta_path", [LazyFinder(write({"ahw_a.py": ONE})), *sys.meta_path])
    weaving = woven(pointcut, post=ten)
    a = load("ahw_a")
    assert a.made is not None  # it wakes
    assert (a.one(), weaving.state) == (10, "woven")
    weaving.remove()
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


def test_a_lazily_loaded_name_that_a_proxy_stands_for_is_woven(write: Write, woven: Weave) -> None:
    write({"ahw_pkg/__init__.py": LAZY_NAMES, "ahw_pkg/_inner.py": INNER})
    pkg = load("ahw_pkg")
    weaving = woven("ahw_pkg:seven", post=ten)
    assert (pkg.seven(), weaving.state) == (70, "woven")
    weaving.remove()
    inner = sys.modules["ahw_pkg._inner"]
    assert inner.seven is inner.kept[0]
    assert "seven" not in vars(pkg)
    assert weaving.state == "removed"


def test_a_lazily_loaded_name_that_cannot_be_loaded_is_refused(write: Write, woven: Weave) -> None:
    write({"ahw_pkg/__init__.py": LAZY_NAMES, "ahw_pkg/_inner.py": INNER})
    finders = list(sys.meta_path)
    load("ahw_pkg")
    with pytest.raises((WeaveError, ImportError), match=r"ahw_pkg:broken|needs an extra"):
        woven("ahw_pkg:broken", post=ten)
    assert sys.meta_path == finders


def test_a_lazily_loaded_name_that_cannot_be_loaded_does_not_break_the_import(write: Write, woven: Weave) -> None:
    write({"ahw_pkg/__init__.py": LAZY_NAMES, "ahw_pkg/_inner.py": INNER})
    weaving = woven("ahw_pkg:broken", post=ten)
    with pytest.warns(WeaveWarning, match="broken"):
        pkg = load("ahw_pkg")
    assert pkg.one() == 1
    with pytest.raises((WeaveError, ImportError)):
        weaving.check()


@pytest.mark.parametrize(
    ("name", "call"),
    [("zlib:crc32", lambda module: module.crc32(b"tea")), ("_heapq:heappop", lambda module: module.heappop([1, 2]))],
)
def test_a_compiled_module_is_woven_as_its_import_ends(
    monkeypatch: pytest.MonkeyPatch, woven: Weave, name: str, call: Callable[[Any], int]
) -> None:
    module, function = name.split(":")
    there = load(module)
    plain = call(there)
    monkeypatch.delitem(sys.modules, module)
    plain_loaders = loaders(load(module))
    del sys.modules[module]
    weaving = woven(name, post=ten)
    assert weaving.state == "waiting"
    again = load(module)
    assert again is not there
    assert (call(again), weaving.state) == (plain * 10, "woven")
    assert loaders(again) == plain_loaders
    assert weaving.mounts == (hooks(getattr(again, function)),)
    weaving.remove()
    assert type(getattr(again, function)) is types.BuiltinFunctionType
    assert (call(again), call(there)) == (plain, plain)


def test_a_module_in_a_zip_archive_is_woven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, woven: Weave) -> None:
    archive = tmp_path / "ahw.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("ahw_zipped/__init__.py", "")
        file.writestr("ahw_zipped/a.py", textwrap.dedent(ONE))
        file.writestr("ahw_plain.py", "")
    monkeypatch.syspath_prepend(str(archive))
    weaving = woven("ahw_zipped.*:*", post=ten)
    a = load("ahw_zipped.a")
    assert a.one() == 10
    assert loaders(a) == loaders(load("ahw_plain"))
    weaving.remove()
    assert_clean(a)


def test_the_module_behind_another_name_is_woven() -> None:
    # `os.path` is `posixpath` or `ntpath`.
    with weave("os.path:basename", post=lambda result: result.upper()):
        assert os.path.basename("a/b") == "B"
    assert os.path.basename("a/b") == "b"


# Finders and loaders


def test_the_loaders_that_a_module_has_are_the_true_ones_also_while_it_runs(write: Write, woven: Weave) -> None:
    source = ONE + "    seen = (type(__loader__), type(__spec__.loader), __loader__ is __spec__.loader)\n"
    write({"ahw_a.py": source, "ahw_plain.py": source})
    plain = load("ahw_plain")
    woven("ahw_a:one", post=ten)
    a = load("ahw_a")
    assert a.seen == plain.seen
    assert loaders(a) == loaders(plain)
    assert type(a.__spec__) is ModuleSpec
    importlib.reload(a)
    assert a.seen == importlib.reload(plain).seen
    assert loaders(a) == loaders(plain)
    assert inspect.getsource(a.one) == textwrap.dedent(ONE).lstrip("\n").partition("made")[0]


def test_a_failed_import_leaves_the_true_loader_to_the_module(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": "import ahw_box, sys\nahw_box.kept.append(sys.modules[__name__])\n1 / 0\n"})
    write({"ahw_box.py": "kept = []\n"})
    box = load("ahw_box")
    woven("ahw_a:one", post=ten)
    with pytest.raises(ZeroDivisionError):
        load("ahw_a")
    assert loaders(box.kept[0]) == loaders(box)


def test_a_spec_that_is_only_looked_up_passes_for_the_true_one(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE, "ahw_b.py": ONE})
    weaving = woven("ahw_a:one", post=ten)
    spec = importlib.util.find_spec("ahw_a")
    assert spec is not None
    plain = importlib.util.find_spec("ahw_b")
    assert plain is not None
    assert isinstance(spec.loader, type(plain.loader))
    loader: Any = spec.loader
    assert "def one" in loader.get_source("ahw_a")
    assert loader.is_package("ahw_a") is False
    assert weaving.state == "waiting"
    weaving.remove()
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    assert_clean(module)


def test_a_module_that_is_loaded_by_hand_from_its_spec_is_woven_by_the_next_check(write: Write, woven: Weave) -> None:
    # Nobody imports it, so no import ends.
    write({"ahw_a.py": ONE, "ahw_b.py": ONE})
    weaving = woven("ahw_a:one", post=ten)
    spec = importlib.util.find_spec("ahw_a")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules["ahw_a"] = module
    spec.loader.exec_module(module)
    weaving.check()
    assert (module.one(), weaving.state) == (10, "woven")
    assert loaders(module) == loaders(load("ahw_b"))


class OwnLoader(importlib.abc.Loader):
    """A loader without a file, that makes its modules itself."""

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        vars(module)["created"] = True
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        exec(textwrap.dedent(ONE), vars(module))


NOT_FROM_3_15 = pytest.mark.skipif(sys.version_info >= (3, 15), reason="imports nothing by load_module")


class OldLoader:
    """A loader of the time before specs."""

    def load_module(self, name: str) -> types.ModuleType:
        module = sys.modules.setdefault(name, types.ModuleType(name))
        exec(textwrap.dedent(ONE), vars(module))
        return module


class ExecOnly:
    """A loader that has nothing but `exec_module`; importlib demands `create_module` too."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        exec(textwrap.dedent(ONE), vars(module))


class OwnFinder(importlib.abc.MetaPathFinder):
    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self.loader) if name == "ahw_own" else None


@pytest.mark.filterwarnings(
    "ignore:.* waits. there is no module", "ignore::ImportWarning", "ignore::DeprecationWarning"
)
@pytest.mark.parametrize(
    ("make", "place"),
    [
        *((make, place) for make in (OwnLoader, ExecOnly) for place in ("before", "behind", "in front, later")),
        *(pytest.param(OldLoader, place, marks=NOT_FROM_3_15) for place in ("before", "behind")),
    ],
)
def test_a_module_with_a_loader_of_its_own_is_woven(
    woven: Weave, monkeypatch: pytest.MonkeyPatch, make: Callable[[], Any], place: str
) -> None:
    finder = OwnFinder(make())
    if place != "in front, later":
        finders = [finder, *sys.meta_path] if place == "before" else [*sys.meta_path, finder]
        monkeypatch.setattr(sys, "meta_path", finders)
    weaving = woven("ahw_own:one", post=ten)
    if place == "in front, later":
        sys.meta_path.insert(0, finder)
    try:
        own = load("ahw_own")
        if make is OldLoader or place == "in front, later":
            # Nobody is asked who could tell: the end of the import is not marked, or another finder found the module.
            weaving.check()
        assert (own.one(), weaving.state) == (10, "woven")
        assert not [one for one in loaders(own) if one.__module__.startswith("aspecthook")]
        weaving.remove()
        assert_clean(own)
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)


def test_a_finder_that_gives_one_spec_again_and_again_gets_it_back_with_its_own_loader(
    woven: Weave, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = ModuleSpec("ahw_own", OwnLoader())

    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
            return spec if name == "ahw_own" else None

    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    weaving = woven("ahw_own:one", post=ten)
    for _ in range(3):
        assert importlib.util.find_spec("ahw_own") is spec
    own = load("ahw_own")
    for _ in range(2):
        assert own.one() == 10
        assert not type(spec.loader).__module__.startswith("aspecthook")
        importlib.reload(own)
    weaving.remove()
    assert_clean(own)


def test_a_finder_that_fails_fails_as_without_weaving(woven: Weave, monkeypatch: pytest.MonkeyPatch) -> None:
    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
            if name == "ahw_own":
                raise ImportError("forbidden")
            return None

    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    weaving = woven("ahw_own:one", post=ten)
    with pytest.raises(ImportError, match="forbidden"):
        load("ahw_own")
    assert weaving.state == "waiting"


@pytest.mark.filterwarnings("ignore:.* waits. there is no module")
def test_a_module_that_is_not_there_is_not_found_as_without_weaving(woven: Weave) -> None:
    weaving = woven("ahw_none.sub:one", post=ten)
    with pytest.raises(ModuleNotFoundError) as caught:
        load("ahw_none.sub")
    assert caught.value.name == "ahw_none"
    assert importlib.util.find_spec("ahw_none") is None
    assert weaving.state == "waiting"


def test_imports_that_no_weaving_waits_for_go_by_untouched(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE, "ahw_b.py": ONE})
    woven("ahw_a:one", post=ten)
    spec = importlib.util.find_spec("ahw_b")
    assert spec is not None
    b = load("ahw_b")
    assert type(spec.loader) is type(b.__spec__.loader)
    assert not type(spec.loader).__module__.startswith("aspecthook")
    assert_clean(b)


def test_a_meta_path_that_somebody_replaces_by_a_new_list_is_not_broken(
    write: Write, woven: Weave, monkeypatch: pytest.MonkeyPatch
) -> None:
    write({"ahw_a.py": ONE})
    weaving = woven("ahw_a:one", post=ten)
    finders = list(sys.meta_path)
    monkeypatch.setattr(sys, "meta_path", finders)
    assert load("ahw_a").one() == 10
    weaving.remove()
    assert len(finders) == len(sys.meta_path)
    monkeypatch.undo()
    sys.modules.pop("ahw_a", None)
    # The old list has our finder, with nobody who wants to know anything: it must be harmless.
    weaving.remove()


def test_runpy_runs_a_module_that_is_waited_for(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE + "    name = __name__\n    loader = type(__loader__)\n"})
    weaving = woven("ahw_a:one", post=ten)
    space = runpy.run_module("ahw_a", run_name="ahw_main")
    assert (space["name"], space["one"]()) == ("ahw_main", 1)
    assert weaving.state == "waiting"


def test_a_program_run_by_its_module_name_weaves_what_it_imports(write: Write) -> None:
    main = """
        from aspecthook import weave
        weaving = weave("ahw_pkg.mod:one", post=lambda result: result * 10)
        from ahw_pkg.mod import one
        def own():
            return 2
        with weave("__main__:own", post=lambda result: result + 1):
            print(one(), own(), weaving.state)
        weaving.remove()
        print(one(), own())
    """
    root = write({"ahw_pkg/__init__.py": "", "ahw_pkg/__main__.py": main, "ahw_pkg/mod.py": ONE})
    assert run("", "-m", "ahw_pkg", cwd=root) == "10 3 woven\n1 2"


WRAPT = """
    import sys, wrapt
    from aspecthook import weave
    order = sys.argv[1]
    told = []
    def theirs(module):
        told.append(module.__name__)
    def ours():
        return weave("ahw_a:one", post=lambda result: result * 10)
    if order == "ours first":
        weaving = ours()
    wrapt.register_post_import_hook(theirs, "ahw_a")
    if order == "theirs first":
        weaving = ours()
    import ahw_a
    print(ahw_a.one(), weaving.state, told, type(ahw_a.__spec__.loader).__name__, type(ahw_a.__loader__).__name__)
    weaving.remove()
    print(ahw_a.one(), ahw_a.one.__code__ is ahw_a.made, vars(ahw_a.one))
"""


@pytest.mark.parametrize("order", ["ours first", "theirs first"])
def test_the_import_hooks_of_wrapt_work_beside_ours(write: Write, order: str) -> None:
    # In a program of its own, since wrapt puts its finder in once and for all.
    root = write({"ahw_a.py": ONE, "ahw_main.py": WRAPT})
    shown = run("", "ahw_main.py", order, cwd=root)
    assert shown == "10 woven ['ahw_a'] SourceFileLoader SourceFileLoader\n1 True {}"


# Names that are wrong


def test_check_says_that_a_misspelt_module_is_not_there_and_names_the_nearest(woven: Weave) -> None:
    with pytest.warns(WeaveWarning):
        weaving = woven("jsonn:dumps", post=ten)
    assert weaving.state == "waiting"
    with pytest.raises(WeaveError, match=r"'jsonn:dumps'.*no module 'jsonn'.*did you mean 'json'\?"):
        weaving.check()
    assert weaving.state == "waiting"


def test_check_names_the_nearest_module_though_it_is_not_imported_yet(write: Write, woven: Weave) -> None:
    write({"ahw_orders/__init__.py": "", "ahw_orders/prices.py": ONE})
    weaving = woven("ahw_orders.pricse:one", post=ten)
    load("ahw_orders.prices")
    with pytest.raises(WeaveError, match=r"did you mean 'ahw_orders\.prices'\?"):
        weaving.check()


def test_check_says_that_a_module_is_there_but_not_imported(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE})
    weaving = woven("ahw_a:one", post=ten)
    with pytest.raises(WeaveError, match=r"'ahw_a:one'.*'ahw_a'.*imported") as caught:
        weaving.check()
    assert "did you mean" not in str(caught.value)
    assert "ahw_a" not in sys.modules
    assert load("ahw_a").one() == 10
    weaving.check()


def test_check_imports_nothing(write: Write, woven: Weave) -> None:
    write({"ahw_pkg/__init__.py": "1 / 0\n", "ahw_pkg/mod.py": ONE})
    weaving = woven("ahw_pkg.mod:one", post=ten)
    with pytest.raises(WeaveError, match=r"'ahw_pkg\.mod:one'"):
        weaving.check()
    assert "ahw_pkg" not in sys.modules


def test_check_says_that_no_module_fits_a_glob(woven: Weave) -> None:
    with pytest.warns(WeaveWarning):
        weaving = woven("ahw_nothing.*:*", post=ten)
    with pytest.raises(WeaveError, match=r"'ahw_nothing\.\*:\*'.*no module 'ahw_nothing'"):
        weaving.check()
    weaving = woven("ahw_nothing*:*", post=ten)
    with pytest.raises(WeaveError, match=r"'ahw_nothing\*:\*'.*'ahw_nothing\*'"):
        weaving.check()


# A name that nothing can be imported by is warned of at once


@pytest.mark.parametrize(
    ("target", "near"),
    [
        ("jsno:dumps", "json"),  # asyncio was imported, and json was not
        ("jsno.*:*", "json"),
        ("jsno.decoder:JSONDecoder+.decode", "json"),
        ("json:dumps, aysncio:run", "asyncio"),
        ("maht:sin", "math"),
        ("Json:dumps", "json"),
        ("pytset:raises", "pytest"),
        ("_jsno:make_encoder", "_json"),
        ("json.decodr:JSONDecoder.decode", "json.decoder"),  # its package is imported
        ("json.decodr.*:*", "json.decoder"),
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


def test_a_module_that_its_package_may_still_define_is_waited_for(write: Write, woven: Weave) -> None:
    # While a package is being imported, its `__path__` and what is in `sys.modules` may change.
    write(
        {
            "ahw_half/__init__.py": "from aspecthook import weave\nwoven = weave('ahw_half.later:one', post=lambda: 2)",
            "ahw_half/other.py": ONE,
        }
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        importlib.import_module("ahw_half").woven.remove()


def test_the_nearest_installed_name_is_found_though_it_is_not_imported(write: Write, woven: Weave) -> None:
    write({"ahw_warehouse.py": ONE})
    with pytest.warns(WeaveWarning, match=r"did you mean 'ahw_warehouse'\?"):
        woven("ahw_warehuose:one", post=ten)
    assert "ahw_warehouse" not in sys.modules


def test_no_name_is_suggested_that_is_only_a_little_alike(woven: Weave) -> None:
    with pytest.warns(WeaveWarning) as caught:
        woven("ahwxyzzy:one", post=ten)
    assert str(caught[0].message) == "'ahwxyzzy:one' waits: there is no module 'ahwxyzzy' to import"


def test_the_warning_is_of_the_line_that_weaves_also_for_an_aspect(woven: Weave) -> None:
    class Aspect:
        @pre("ahw_unknown:one")
        def note(self) -> None: ...

    for target, hooks_given in (("ahw_unknown:one", {"post": ten}), (Aspect(), {})):
        with pytest.warns(WeaveWarning) as caught:
            weave(target, **hooks_given).remove()  # type: ignore[arg-type]
        assert [one.filename for one in caught] == [__file__]


def test_module_that_was_warned_of_is_woven_once_it_can_be_imported(write: Write, woven: Weave) -> None:
    with pytest.warns(WeaveWarning):
        weaving = woven("ahw_later:one", post=ten)
    write({"ahw_later.py": ONE})
    assert (load("ahw_later").one(), weaving.state) == (10, "woven")


def test_a_warning_of_an_unknown_name_that_is_made_an_error_leaves_nothing(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": ONE})
    a = load("ahw_a")
    finders = list(sys.meta_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(WeaveWarning):
            weave("ahw_a:one, ahw_unknown:one", post=ten)
    assert_clean(a)
    assert sys.meta_path == finders


class Editable:
    """Finds one package, as the finders of editable installs do."""

    def __init__(self, name: str, root: Path) -> None:
        self.name = name
        self.root = root

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.root / f"{name}.py")


class Failing:
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name == "ahw_fails":
            raise RuntimeError("not now")
        return None


def test_importable_module_is_not_warned_of_and_not_imported(
    write: Write, woven: Weave, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write({"ahw_space/inner/mod.py": ONE, "ahw_a.py": ONE, "ahw_broken.py": "1 / 0", "ahw_lazy.py": "1 / 0"})
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "ahw_editable.py").write_text("1 / 0", encoding="utf-8")
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Editable("ahw_editable", tmp_path / "elsewhere"), Failing()])
    monkeypatch.setitem(sys.modules, "ahw_none", None)  # type: ignore[arg-type]
    lazily("ahw_lazy", root)
    targets = ["ahw_space.inner.mod:one", "ahw_space.inner:*", "ahw_a:one", "ahw_broken:one", "ahw_editable:one"]
    targets += ["ahw_lazy.sub:one", "ahw_fails:one", "ahw_none:one", "ahw_*:one", "*:nobody", "wave:open", "winreg:x"]
    before = set(sys.modules)
    for target in targets:
        woven(target, post=ten).remove()
    assert set(sys.modules) == before
    assert type(sys.modules["ahw_lazy"]) is not types.ModuleType  # which it becomes when it is loaded


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
    error = caught(lambda: load("ahw_a"))  # pytest makes every warning an error
    assert error is None or "ahw_a" in str(error)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeaveWarning)
        a = load("ahw_a")
    assert (a.one(), right.state) == (10, "woven")


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("json:dmps", "dumps"),
        ("json:JSONEncodr", "JSONEncoder"),
        ("json:JSONEncoder.encod", "encode"),
        ("json:JSONEncoder.encode, json:dmps", "dumps"),
        ("ahw_later:one, json:dmps", "dumps"),
    ],
)
def test_a_misspelt_name_in_an_imported_module_is_refused_at_once_with_the_nearest(
    woven: Weave, wrong: str, near: str
) -> None:
    import json

    finders, code = list(sys.meta_path), json.JSONEncoder.encode.__code__
    with pytest.raises(WeaveError, match=rf"json.*did you mean '{near}'\?"):
        woven(wrong, post=ten)
    assert sys.meta_path == finders
    assert json.JSONEncoder.encode.__code__ is code


# Class+


def test_subclasses_imported_later_are_woven_as_their_import_ends(write: Write, woven: Weave) -> None:
    write(
        {
            "ahw_a.py": BASE,
            "ahw_b.py": CHILD,
            "ahw_c.py": "from ahw_b import Child\n"
            "class Grand(Child):\n    def total(self): return super().total() + 1\n"
            "class Heir(Child): pass\n"
            "class Other:\n    def total(self): return 4\n",
        }
    )
    a = load("ahw_a")
    weaving = woven("ahw_a:Base+.total", post=ten)
    assert a.Base().total() == 10
    b = load("ahw_b")
    assert b.Child().total() == 20
    c = load("ahw_c")
    assert (c.Grand().total(), c.Heir().total(), c.Other().total()) == (210, 20, 4)
    assert len(weaving.mounts) == 3
    weaving.remove()
    assert [one().total() for one in (a.Base, b.Child, c.Grand, c.Heir)] == [1, 2, 3, 2]
    assert all("__wrapped__" not in vars(one.total) for one in (a.Base, b.Child, c.Grand))


def test_subclasses_are_no_longer_woven_after_removal(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": BASE, "ahw_b.py": CHILD})
    load("ahw_a")
    woven("ahw_a:Base+.total", post=ten).remove()
    assert load("ahw_b").Child().total() == 2


def test_a_subclass_that_does_not_fit_the_hook_warns_and_the_rest_stay_woven(write: Write, woven: Weave) -> None:
    base = "class Base:\n    def total(self, n): return n\n"
    child = "from ahw_a import Base\nclass Child(Base):\n    def total(self, m): return m\n"
    write({"ahw_a.py": base, "ahw_b.py": child})
    a = load("ahw_a")
    seen: list[int] = []
    weaving = woven("ahw_a:Base+.total", pre=lambda n: seen.append(n))
    with pytest.warns(WeaveWarning, match="Child.total"):
        b = load("ahw_b")
    assert (a.Base().total(3), b.Child().total(4), seen) == (3, 4, [3])
    with pytest.raises(TypeError, match="Child.total"):
        weaving.check()


def test_a_module_without_subclasses_is_not_touched_by_a_weaving_of_subclasses(write: Write, woven: Weave) -> None:
    write({"ahw_a.py": BASE, "ahw_b.py": ONE})
    a = load("ahw_a")
    woven("ahw_a:Base+.total", post=ten)
    b = load("ahw_b")
    assert_clean(b)
    assert loaders(b) == loaders(a)


# Import hooks of others that wrap loaders, as ours does


class Chained:
    """A loader around another's, which puts that one back when it is done, as ddtrace's does."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def create_module(self, spec: ModuleSpec) -> types.ModuleType | None:
        made: types.ModuleType | None = self.loader.create_module(spec)
        return made

    def exec_module(self, module: types.ModuleType) -> None:
        self.loader.exec_module(module)
        vars(module)["__loader__"] = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader


class ChainingFinder(importlib.abc.MetaPathFinder):
    """Lets all other finders find, but not while they ask it, and puts its own loader around theirs."""

    def __init__(self) -> None:
        self.finding: set[str] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name in self.finding:
            return None
        self.finding.add(name)
        try:
            for finder in sys.meta_path:
                spec = finder.find_spec(name, path, target) if finder is not self else None
                if spec is not None:
                    spec.loader = Chained(spec.loader)  # type: ignore[assignment]
                    return spec
        finally:
            self.finding.discard(name)
        return None


@pytest.mark.parametrize("place", ["before", "in front, later"])
def test_a_loader_that_others_put_around_ours_gives_the_true_one_back(write: Write, woven: Weave, place: str) -> None:
    write({"ahw_a.py": ONE, "ahw_plain.py": ONE})
    plain = load("ahw_plain")
    finder = ChainingFinder()
    if place == "before":
        sys.meta_path.insert(0, finder)
    weaving = woven("ahw_a:one", post=ten)
    if place == "in front, later":
        sys.meta_path.insert(0, finder)
    try:
        a = load("ahw_a")
        assert (a.one(), weaving.state) == (10, "woven")
        assert loaders(a) == loaders(plain)
        weaving.remove()
        assert_clean(a)
    finally:
        sys.meta_path.remove(finder)


@pytest.mark.parametrize("place", ["before", "in front, later"])
def test_a_wrong_name_is_warned_of_once_also_if_others_ask_the_finders_twice(
    write: Write, woven: Weave, place: str
) -> None:
    write({"ahw_a.py": ONE})
    finder = ChainingFinder()
    if place == "before":
        sys.meta_path.insert(0, finder)
    woven("ahw_a:onne", post=ten)
    if place == "in front, later":
        sys.meta_path.insert(0, finder)
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            load("ahw_a")
        assert [one.category for one in told] == [WeaveWarning]
    finally:
        sys.meta_path.remove(finder)


# Other threads


PART = """
    import ahw_box
    class K:
        pass
    ahw_box.go()
    class K:
        def m(self):
            return 1
        made = m.__code__
"""


@pytest.mark.parametrize("pointcut", ["ahw_a:K.m", "ahw_a:L.m", "ahw_a:K.*", "ahw_a:*"])
def test_import_in_another_thread_is_waited_for(write: Write, woven: Weave, pointcut: str) -> None:
    write({"ahw_a.py": PART + "    L = K\n", "ahw_box.py": ""})
    weavings: list[Weaving] = []
    load("ahw_box").go = lambda: at_once(lambda: weavings.append(woven(pointcut, post=ten)))
    a = load("ahw_a")
    assert (a.K().m(), weavings[0].state) == (10, "woven")
    weavings[0].remove()
    assert a.K.m.__code__ is a.K.made


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


def test_of_two_finders_that_find_a_module_the_first_one_loads_it(woven: Weave, write: Write) -> None:
    folder = write({"first/ahw_a.py": "def one(): return 1\n", "second/ahw_a.py": "def one(): return 2\n"})

    class Finder:
        def __init__(self, name: str) -> None:
            self.path = [str(folder / name)]

        def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
            return importlib.machinery.PathFinder.find_spec(name, self.path)

    finders = [Finder("first"), Finder("second")]
    sys.meta_path[1:1] = finders
    try:
        woven("ahw_a:one", post=ten)
        assert load("ahw_a").one() == 10
        assert importlib.reload(load("ahw_a")).one() == 10
    finally:
        for finder in finders:
            sys.meta_path.remove(finder)


def test_a_finder_that_stands_twice_in_the_list_hides_no_finder_between(woven: Weave, write: Write) -> None:
    write({"ahw_a.py": "def one(): return 1\n"})
    woven("ahw_a:one", post=ten)
    sys.meta_path.append(sys.meta_path[0])
    try:
        assert load("ahw_a").one() == 10
        assert importlib.reload(load("ahw_a")).one() == 10
    finally:
        sys.meta_path.pop()


def test_a_finder_that_is_put_in_front_of_the_one_in_its_place_is_asked_as_ever(woven: Weave, write: Write) -> None:
    write({"ahw_a.py": "def one(): return 1\n"})
    first = sys.meta_path[0]
    woven("ahw_a:one", post=ten)
    sys.meta_path.insert(0, first)
    try:
        assert load("ahw_a").one() == 10
        assert importlib.reload(load("ahw_a")).one() == 10
    finally:
        del sys.meta_path[0]


def test_a_finder_that_is_asked_by_another_has_none_behind_it(woven: Weave, write: Write) -> None:
    write({"ahw_a.py": "def one(): return 1\n"})
    woven("ahw_a:one", post=ten)
    ours = sys.meta_path[0]
    before = sys.meta_path[:]
    sys.meta_path[:] = [importlib.machinery.PathFinder, Silent()]  # another list than the one that ours was put into
    try:
        spec = ours.find_spec("ahw_a")
        assert spec is not None and spec.name == "ahw_a"
        assert ours.find_spec("ahw_not_there") is None
    finally:
        sys.meta_path[:] = before


def test_a_module_that_is_run_may_define_later_what_is_woven(woven: Weave) -> None:
    module: Any = types.ModuleType("ahw_run")
    sys.modules["ahw_run"] = module
    _imports.begin_running("ahw_run")
    weaving = woven("ahw_run:one, ahw_run:two", post=ten)
    assert weaving.state == "waiting"
    exec("def one(): return 1", vars(module))
    _imports.look_again("ahw_run")
    assert module.one() == 10
    exec("def two(): return 2", vars(module))
    assert module.two() == 2
    _imports.end_running("ahw_run")
    assert module.two() == 20 and weaving.state == "woven"
    _imports.end_running("ahw_run")  # a second time: nothing to do
    with pytest.raises(WeaveError, match="has no 'three'"):
        woven("ahw_run:three", post=ten)
    _imports.look_again("ahw_not_imported")


def test_check_says_why_a_submodule_is_not_woven(woven: Weave, write: Write) -> None:
    write({"ahw_pkg/__init__.py": "", "ahw_pkg/here.py": ONE})
    load("ahw_pkg")
    weaving = woven("ahw_pkg.here:one", post=ten)
    with pytest.raises(WeaveError, match="no module 'ahw_pkg.here' has been imported; import it, or correct its name$"):
        weaving.check()
    with pytest.warns(WeaveWarning, match="there is no module 'ahw_pkg.heer' to import; did you mean 'ahw_pkg.here'"):
        weaving = woven("ahw_pkg.heer:one", post=ten)
    with pytest.raises(WeaveError, match="there is no module 'ahw_pkg.heer' to import"):
        weaving.check()

    class Failing:
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name == "ahw_pkg.here":
                raise RuntimeError(name)

    finder: Any = Failing()
    sys.meta_path.insert(1, finder)
    try:
        weaving = woven("ahw_pkg.here:one", pre=print)
        with pytest.raises(WeaveError, match="no module 'ahw_pkg.here' has been imported; import it, or correct"):
            weaving.check()
    finally:
        sys.meta_path.remove(finder)


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
