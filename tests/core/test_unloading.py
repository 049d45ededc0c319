"""Modules that are unloaded while functions of theirs carry hooks: nothing of them is left (law 5).

What broke: a function that lives as long as its module had its hooks as constants of its code, which the garbage
collector cannot see; they led back to the module by their globals, and it was never freed.
"""

from __future__ import annotations

import gc
import importlib
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aspecthook import hooks, weave
from aspecthook._core.compile.show import FREE_THREADED
from aspecthook._core.mount import unloading

HEAD = """
from aspecthook import Args, around, event, explain, hookable, hooks, post, pre, weave
import functools, math

class Canary: ...

canary = Canary()  # dies with everything that the module has

@hookable
def f(x=1): return x

class K:
    @hookable
    def m(self, x=1): return x
    @hookable
    @classmethod
    def c(cls, x=1): return x
    @hookable
    @property
    def p(self): return 1

def made():
    @hookable
    def inner(x=1): return x
    return inner

def hook(x): canary
def bare(): canary
def proceeding(proceed): return proceed()
"""

# What a module does with its own functions, and what is called then.
MODULES: dict[str, str] = {
    "a hook": "f.pre(hook); f()",
    "a hook that changes after a call": "f.pre(hook); f(); f.post(lambda result: None)",
    "all kinds": """
for kind in ("pre", "post", "exception", "always"):
    hooks(f).add(kind, hook)
f.around(proceeding)
f()
""",
    "all options": """
for option in ({"once": True}, {"times": 3}, {"every": 2}, {"reentrant": False}, {"isolate": True}, {"when": hook}):
    f.pre(lambda: None if canary else None, **option)
f()
f()
""",
    "many hooks": "for _ in range(60): f.pre(lambda: None if canary else None)\nf()",
    "a generator": "@hookable\ndef g(x):\n    yield x\ng.item(lambda item: canary and None)\nlist(g(1))",
    "a coroutine": "@hookable\nasync def g(x): return x\n@g.post\nasync def h(result): canary\n",
    "a method": "K.m.pre(hook); K().m()",
    "a property": "hooks(K.__dict__['p']).post(lambda result: canary and None); K().p",
    "an instance and its class": "k = K(); K.m.post(hook); hooks(k.m).pre(hook); k.m(); K().m()",
    "an event": "@event\ndef e(x): ...\ne.on(hook); e(1)",
    "weave, the handle kept": "w = weave(f, pre=hook); f()",
    "weave, in a context": "w = weave(f, pre=hook, scope='context')\nwith weave(f, pre=hook, scope='context'): f()",
    "weave, an inherited method": "class L(K): ...\nw = weave(L.m, pre=hook); L().m()",
    "weave, an aspect": """
class Aspect:
    @pre
    def look(self): canary
    @around
    def time(self, proceed): return proceed()
weave(f, aspect=Aspect()); f()
""",
    "weave, a C function": "w = weave(math.sqrt, pre=hook); math.sqrt(1); w.remove()",
    "weave, a C function of its own": "mine = functools.partial(f, 2)\nw = weave(mine, pre=bare); mine()",
    "weave, a callable object": "class C:\n    def __call__(self): ...\nc = C()\nw = weave(c, pre=bare); c()",
    "a hook that is hooked": "hookable(hook).pre(lambda: f and None); f.pre(hook); f()",
    "paused": "f.pre(hook); f(); w = weave(f, post=lambda: canary); w.pause(); f()",
    "replaced": "f.pre(hook); f(); kept = f\ndef f(): ...",
    "a closure with a hook of its own": "mine = made(); mine.pre(lambda: mine and None); mine.post(bare); mine()",
    "a hook that is a method": "class H:\n    def h(self, x): canary\nK.m.pre(H().h); K().m()",
}


@pytest.fixture(autouse=True)
def _path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(folder: Path, name: str, text: str) -> None:
    path = folder / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD + text)


def load(name: str) -> weakref.ref[object]:
    """Import a module anew, and return what dies with it."""
    importlib.invalidate_caches()
    return weakref.ref(importlib.import_module(name).canary)


def is_freed(*canaries: weakref.ref[object]) -> bool:
    """Whether all is gone. Where the module object itself was in a cycle, the first collection is what it dies in."""
    gc.collect()
    gc.collect()
    return all(canary() is None for canary in canaries)


# Not mended: a module that weaves an aspect of its own is kept by something on CPython 3.12.
ONE_MODULE = [
    pytest.param(
        text,
        id=name,
        marks=pytest.mark.xfail(
            sys.version_info[:2] == (3, 12) and name == "weave, an aspect", reason="kept on 3.12", strict=False
        ),
    )
    for name, text in MODULES.items()
]


@pytest.mark.parametrize("text", ONE_MODULE)
def test_a_module_that_is_unloaded_while_hooked_is_freed(text: str, tmp_path: Path) -> None:
    write(tmp_path, "unloaded", text)
    canary = load("unloaded")
    del sys.modules["unloaded"]
    assert is_freed(canary)


# Several modules: their texts by name, and those which are unloaded.
SEVERAL: dict[str, dict[str, str]] = {
    "one hooks another": {
        "first": "import second\nweave(second.f, pre=hook)\nsecond.f()",
        "second": "",
    },
    "each hooks the other": {
        "first": "import second\nweave(second.f, pre=hook)\nsecond.f()",
        "second": "def late():\n    import first\n    weave(first.f, pre=hook)\n    first.f()",
    },
    "one hooks a closure of another": {
        "first": "import second\nmine = second.made(); mine.pre(bare); mine()",
        "second": "",
    },
    "a package whose parts refer to it": {
        "pack/__init__": "from pack import part\nf.pre(hook); f()",
        "pack/part": "import pack\nf.pre(hook); f()",
        "other": "f.pre(hook)",
    },
}


@pytest.mark.parametrize("texts", SEVERAL.values(), ids=SEVERAL)
def test_modules_that_hold_one_another_are_freed_together(texts: dict[str, str], tmp_path: Path) -> None:
    for name, text in texts.items():
        write(tmp_path, name, text)
    names = [name.removesuffix("/__init__").replace("/", ".") for name in texts]
    canaries = [load(name) for name in names]
    if "second" in names:
        getattr(sys.modules["second"], "late", lambda: None)()
    for name in names:
        del sys.modules[name]
    assert is_freed(*canaries)


def test_a_module_that_refers_to_itself_is_freed_when_the_next_one_is_hooked(tmp_path: Path) -> None:
    # Its object does not die by itself, so nothing tells of it.
    write(tmp_path, "itself", "import itself\nf.pre(hook); f()")
    write(tmp_path, "other", "f.pre(hook)")
    canary = load("itself")
    del sys.modules["itself"]
    load("other")
    assert is_freed(canary)


def test_a_standing_weaving_keeps_no_plugin_and_does_not_grow(tmp_path: Path) -> None:
    # It kept the hook of every function that it had ever been woven on.
    write(tmp_path, "plugin", "from math import sqrt\nsqrt(1)")
    with weave("plugin:*", pre=lambda: None) as standing, weave("plugin:sqrt", pre=lambda: None):
        canaries = []
        for _ in range(20):
            canaries.append(load("plugin"))
            sys.modules["plugin"].f()
            del sys.modules["plugin"]
            assert is_freed(*canaries)
        assert len(standing.hooks) < 80


def test_the_hooks_of_an_unloaded_module_go_on_acting_on_functions_of_others(tmp_path: Path) -> None:
    write(tmp_path, "target", "")
    write(tmp_path, "hooking", "import target\nlog = []\ndef note(x): log.append(x)\nw = weave(target.f, pre=note)")
    canary = load("hooking")
    target: Any = sys.modules["target"]
    log, weaving = sys.modules["hooking"].log, sys.modules["hooking"].w
    target.f(1)
    del sys.modules["hooking"]
    gc.collect()
    target.f(2)
    assert log == [1, 2]
    weaving.remove()
    del weaving
    assert is_freed(canary)


def test_functions_of_an_unloaded_module_that_are_still_used_keep_their_hooks(tmp_path: Path) -> None:
    write(tmp_path, "unloaded", "log = []\n@f.pre\ndef note(x): log.append(x)\nk = K()\nhooks(k.m).pre(note)")
    canary = load("unloaded")
    f, k, log = (getattr(sys.modules["unloaded"], name) for name in ("f", "k", "log"))
    f(1)
    k.m(2)
    held = f.__code__
    del sys.modules["unloaded"]
    gc.collect()
    assert (held is f.__code__) is FREE_THREADED  # which has no hooks as constants anyway
    assert (f(3), k.m(4), len(hooks(f))) == (3, 4, 1)
    with hooks(f).add("post", lambda result: result + 1):
        assert f(5) == 6
    assert (f(6), log) == (6, [1, 2, 3, 4, 5, 6])
    hooks(f).clear()
    f(7)
    assert log == [1, 2, 3, 4, 5, 6]
    del f, k, held
    assert is_freed(canary)


def test_a_module_that_comes_back_has_its_hooks_as_before(tmp_path: Path) -> None:
    write(tmp_path, "leaving", "f.pre(hook); f()")
    canary = load("leaving")
    module: Any = sys.modules.pop("leaving")
    write(tmp_path, "other", "f.pre(hook)")
    load("other")  # looks which modules there are
    sys.modules["leaving"] = module
    assert len(hooks(module.f)) == 1
    module.f.post(lambda result: 7)
    assert module.f() == 7
    hooks(module.f).clear()
    assert module.f() == 1
    module.f.post(lambda result: module and 7)
    assert module.f() == 7
    del module, sys.modules["leaving"]
    assert is_freed(canary)


@pytest.mark.parametrize(
    "text",
    [
        "f.pre(functools.partial(lambda f: None, f)); f()",
        "class L(K):\n    def m(self, x=1): return x\n    def h(self, x): canary\nweave(L.m, pre=L().h); L().m()",
    ],
    ids=["function", "class"],
)
def test_objects_replaced_by_a_reload_are_freed(text: str, tmp_path: Path) -> None:
    # The module and its dict are the same; the functions that it had are gone.
    write(tmp_path, "again", text)
    load("again")
    module: Any = sys.modules["again"]
    gone = [weakref.ref(module.f), weakref.ref(getattr(module, "L", module.K))]
    importlib.reload(module)
    assert is_freed(*gone)


def test_modules_may_die_in_the_middle_of_any_change(tmp_path: Path) -> None:
    # The collector frees them wherever it comes: while hooks are put in, linked or taken off, there and elsewhere.
    text = "f.pre(hook); k = K(); hooks(k.m).pre(hook); k.m()\ndef change():\n    with hooks(f).add('post', bare): f()"
    for name in ("lasting", "dying"):
        write(tmp_path, name, text)
    load("lasting")
    lasting: Any = sys.modules["lasting"]
    canaries = []
    before = gc.get_threshold()
    gc.set_threshold(3, 2, 2)
    try:
        for _ in range(30):
            canaries.append(load("dying"))
            cycle: list[Any] = [sys.modules.pop("dying")]
            change = cycle[0].change
            cycle.append(cycle)
            del cycle
            for _ in range(5):
                change()
                lasting.change()
    finally:
        gc.set_threshold(*before)
    del change
    assert is_freed(*canaries)
    assert lasting.f(3) == 3
    assert len(hooks(lasting.f)) == 1


def test_modules_whose_functions_were_hooked_are_not_remembered(tmp_path: Path) -> None:
    for number in range(30):
        write(tmp_path, f"unloaded{number}", "f.pre(hook)")
        load(f"unloaded{number}")
        del sys.modules[f"unloaded{number}"]
    gc.collect()
    assert not [name for name in unloading._watched if str(name).startswith("unloaded")]


@pytest.mark.skipif(FREE_THREADED, reason="no module is watched")
def test_functions_that_a_module_no_longer_has_are_not_remembered(tmp_path: Path) -> None:
    write(tmp_path, "remaking", "pass")
    load("remaking")
    space = vars(sys.modules["remaking"])
    for number in range(300):
        exec(f"@hookable\ndef made_{number}(x): return x\nmade_{number}.pre(hook); made_{number}(4)", space)
        del space[f"made_{number}"]
    gc.collect()
    exec("f.pre(hook)", space)  # the next function to be watched
    assert len(unloading._watched["remaking"].mounts) < 150
    del sys.modules["remaking"]


def test_the_interpreter_ends_without_a_word(tmp_path: Path) -> None:
    # As it ends, modules die in any order, ours among them.
    write(tmp_path, "one", "import one, sys, two\nsys.one = one\nf.pre(hook); f(); weave(two.f, pre=hook)")
    write(
        tmp_path,
        "two",
        "import atexit, gc\nf.pre(hook); f()\natexit.register(lambda: (f(), K.m.pre(hook), gc.collect()))",
    )
    program = "import one, sys, two, gc; one.f(); del sys.modules['two'], two; gc.collect(); one.f.pre(one.bare)"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


LEFT_OPEN = """\
from atexit import register

register(lambda: print("a hook acts at the end:", shown("tea")))
from aspecthook import hookable, weave

out = open("out.txt", "w")


def shown(text):
    return text


def lines():
    yield "tea"


def upper(result):
    return result.upper()


{}
out.write(shown("written"))
"""


@pytest.mark.parametrize(
    "hooked",
    [
        "weave(shown, post=upper)",
        "hookable(shown).post(upper)",
        "weave(shown, post=upper); weave('json:dumps', pre=lambda obj: out)",
        "weave(shown, post=upper)\nwith weave(lines, pre=lambda: None): stream = lines(); next(stream)",
        "weave(shown, post=upper); weave(lines, item=lambda item: upper(item)); stream = lines(); next(stream)",
    ],
)
def test_a_file_that_a_hooked_module_leaves_open_is_written_at_the_end(hooked: str, tmp_path: Path) -> None:
    # The constants of the code kept the module from being torn down, and what was not flushed was lost.
    (tmp_path / "app.py").write_text(LEFT_OPEN.format(hooked))
    done = subprocess.run([sys.executable, "app.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (tmp_path / "out.txt").read_text() == "WRITTEN"
    assert done.stdout.endswith("a hook acts at the end: TEA\n") and not done.stderr
