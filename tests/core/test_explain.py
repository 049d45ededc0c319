"""What is shown of a call: by `explain`, by tracebacks and by debuggers, which all show the source that runs."""

from __future__ import annotations

import bdb
import gc
import inspect
import io
import linecache
import logging
import os
import pdb
import re
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import aspecthook
from aspecthook import AspecthookError, event, explain, hookable, hooks, pre, weave
from aspecthook.plugins import Plugins


def clamp(qty: int) -> Any: ...


def report() -> None: ...


def timed(proceed: Callable[..., Any]) -> Any:
    return proceed()


def one_yield() -> Iterator[None]:
    yield


def place(function: Callable[..., Any]) -> str:
    """Say where a hook is written, as `explain` does."""
    return f"{function.__name__}, test_explain.py:{function.__code__.co_firstlineno}"


def price(item: str, qty: int = 1) -> int:
    if qty < 0:
        raise ValueError(qty)
    return qty


def new_price(where: str = "local") -> Any:
    """Make a mount point: functions that live as long as their module are linked in another way than closures."""

    def local(item: str, qty: int = 1) -> int:
        if qty < 0:
            raise ValueError(qty)
        return qty

    code = (price if where == "module" else local).__code__.replace(co_name="price")
    return hookable(FunctionType(code, globals(), "price", (1,)), name="shop:price")


@pytest.fixture(params=["module", "local"])
def f(request: pytest.FixtureRequest) -> Any:
    return new_price(request.param)


def shown() -> set[str]:
    """Give the names of the generated sources that `linecache` has."""
    for _ in range(3):  # without the GIL, what one round frees another one finds
        gc.collect()
    return {name for name in list(linecache.cache) if name.startswith("<aspecthook ") and linecache.getlines(name)}


def explained(function: Any) -> str:
    file = io.StringIO()
    explain(function, file=file)
    return file.getvalue()


def source_of(function: Any) -> str:
    """Return what `explain` prints, without the table of the hooks above it."""
    return "".join([line for line in explained(function).splitlines(keepends=True) if not line.startswith("#")])


# explain


def test_explain_shows_each_hook_with_its_name_file_and_line_beside_the_line_that_calls_it(f: Any) -> None:
    f.pre(clamp)
    f.around(timed, name="timer")
    f.exception(ValueError)(report)
    f.post(report, priority=10, name="first")
    f.post(report, again=True)
    f.always(report)
    lines = explained(f).splitlines()
    notes = {code.strip(): note for code, _, note in (line.partition("  # ") for line in lines) if note}
    assert notes["answer = pre_1(qty)"] == place(clamp)
    assert notes["answer = around_1(proceed)"] == place(timed).replace("timed", "timer")
    assert notes["answer = exception_1()"] == place(report)
    assert notes["answer = post_1()"] == place(report).replace("report", "first")
    assert notes["answer = post_2()"] == place(report)
    assert notes["answer = always_1()"] == place(report)


def test_explain_shows_the_table_of_the_hooks_that_act_above_the_source(f: Any) -> None:
    f.pre(clamp, priority="HIGH")
    f.post(report, before="gone")
    assert explained(f) == "".join([f"# {line}\n" for line in str(hooks(f)).splitlines()]) + source_of(f)
    hooks(f).set_paused((hooks(f)["report"],), paused=True)
    assert "# shop:price, 1 hook\n" in explained(f) and "report" not in explained(f)
    assert "paused" in str(hooks(f))


def test_explain_says_so_if_there_are_no_hooks_or_all_are_paused(f: Any) -> None:
    assert explained(f) == "# shop:price carries no hooks: a call runs the function itself\n"
    f.pre(clamp)
    with hooks(f).paused():
        assert explained(f) == "# shop:price carries paused hooks: a call runs the function itself\n"
        assert str(hooks(f)).startswith("shop:price, 1 hook, all paused\n")
    assert source_of(f) in explained(f)


def test_a_long_row_of_hooks_of_one_shape_is_shown_as_a_loop_with_the_first_and_the_last(f: Any) -> None:
    for number in range(100):
        f.pre(clamp, name=f"n{number}", again=True)
    source = explained(f)
    line = clamp.__code__.co_firstlineno
    assert f"# n0, test_explain.py:{line}, ..., n99, test_explain.py:{line}\n" in source
    assert "n1," not in source


# Tracebacks


def frames(failing: Callable[..., Any], *args: object) -> list[traceback.FrameSummary]:
    """Give the frames from the call of the target to where it failed."""
    try:
        failing(*args)
    except Exception as error:
        return list(traceback.extract_tb(error.__traceback__))[1:]
    raise AssertionError("nothing failed")


def fail(qty: int) -> None:
    raise LookupError(qty)


def fail_always() -> None:
    raise LookupError


def fail_around(proceed: Callable[..., Any]) -> Any:
    raise LookupError


@pytest.mark.parametrize(
    ("kind", "hook", "call"),
    [
        ("pre", fail, "pre_1(qty)"),
        ("around", fail_around, "around_1(proceed)"),
        ("post", fail, "post_1(qty)"),
        ("exception", fail, "exception_1(qty)"),
        ("always", fail_always, "always_1()"),
    ],
)
def test_the_traceback_of_a_failing_hook_shows_the_line_that_called_it_and_who_it_is(
    f: Any, kind: str, hook: Any, call: str
) -> None:
    hooks(f).add(kind, hook)  # type: ignore[arg-type]
    amount = -1 if kind == "exception" else 1
    for turn in range(3):  # in the first call, the chain is linked
        found = frames(f, "tea", amount)
        *_, caller, inner = found
        assert caller.line == f"answer = {call}  # {place(hook)}", turn
        assert caller.colno is None  # functions with other names of parameters share this code: no carets
        assert caller.filename.startswith("<aspecthook shop:price#")
        assert (inner.name, inner.filename) == (hook.__name__, __file__)
        assert found[0].name == "price"


def test_the_traceback_of_a_failing_target_shows_the_line_that_called_it(f: Any) -> None:
    f.pre(clamp)
    f.exception(report)
    f.always(report)
    f("tea")
    ours, target = frames(f, "tea", -1)
    assert (ours.line, ours.colno) == ("result = target(item, qty); break", None)
    assert (target.line, target.filename) == ("raise ValueError(qty)", __file__)


def test_the_traceback_shows_the_source_of_the_chain_as_it_is_after_each_change(f: Any) -> None:
    # The layers of around hooks were linked under a name that was never registered, once their shape had been seen.
    def other(proceed: Callable[..., Any]) -> Any:
        raise LookupError

    def through(proceed: Callable[..., Any]) -> Any:
        return proceed()

    for hook in (fail_around, other, fail_around):
        f.around(hook)
        for _ in range(2):
            caller = frames(f, "tea")[-2]
            assert (caller.name, caller.line) == ("price", f"answer = around_1(proceed)  # {place(hook)}")
        f.around(through, priority="HIGH")
        for _ in range(2):
            proceeds, caller = frames(f, "tea")[-3:-1]
            assert (proceeds.name, proceeds.line) == ("proceed", "return inside(item, qty)")
            assert (caller.name, caller.line) == ("layer_2", f"answer = around_2(proceed)  # {place(hook)}")
        hooks(f).clear()


@pytest.mark.parametrize("name", ["a\nimport os", "a\x0cb"])
def test_a_traceback_shows_the_right_line_whatever_the_names_of_hooks_are(f: Any, name: str) -> None:
    f.pre(clamp, name=name)
    f.post(fail)
    assert frames(f, "tea")[-2].line == f"answer = post_1(qty)  # {place(fail)}"


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
def test_generated_code_has_a_file_name_that_the_file_system_can_be_asked_for(name: str) -> None:
    # linecache asks. A ValueError here came out of every traceback that was to be shown.
    f = hookable(lambda: 3, name=name)
    f.pre(report)
    assert f() == 3
    with pytest.raises(FileNotFoundError):
        os.stat(f.__code__.co_filename)


# Tools that look at file names


def test_debuggers_show_the_generated_source_and_not_a_file_of_that_name(f: Any) -> None:
    # Of a name without the closing bracket, bdb made a path, and pdb showed lines of an unrelated file.
    f.pre(fail)
    filename = frames(f, "tea")[-2].filename
    assert bdb.Bdb().canonic(filename) == filename
    session = pdb.Pdb(stdin=io.StringIO("list\nquit\n"), stdout=(printed := io.StringIO()))
    session.runcall(f, "tea")
    assert f"answer = pre_1(qty)  # {place(fail)}" in printed.getvalue()


@pytest.mark.parametrize(
    ("first", "second"), [("item", "qty"), ("result", "answer"), ("argument_1", "__tracebackhide__")]
)
def test_functions_that_share_a_template_each_show_the_names_of_their_own_parameters(first: str, second: str) -> None:
    def look(args: tuple[object, ...]) -> None:
        frame = inspect.currentframe()
        while (
            frame is not None
            and (frame := frame.f_back) is not None
            and frame.f_code.co_filename.startswith("<aspecthook")
        ):
            seen.append((frame.f_locals[first], frame.f_locals[second]))

    def wrapped(proceed: Callable[..., Any], args: tuple[object, ...]) -> Any:
        return look(args) or proceed()

    space: dict[str, Any] = {}
    exec(f"def price({first}, *, {second}=2):\n    return {first}, {second}", space)
    f, seen = hookable(space["price"]), list[tuple[object, object]]()
    f.pre(look)
    f.around(wrapped)
    for _ in range(2):
        assert f("tea") == ("tea", 2)
        assert seen and set(seen) == {("tea", 2)}
        with pytest.raises(TypeError, match=rf"^price\(\) missing 1 required positional argument: '{first}'$"):
            f()
    assert str(inspect.signature(f)) == f"({first}, *, {second}=2)"
    assert source_of(f).splitlines()[0] == f"def price({first}, *, {second}):"
    session = pdb.Pdb(stdin=io.StringIO("args\nquit\n"), stdout=(printed := io.StringIO()))
    session.runcall(f, "tea")
    assert f"{first} = 'tea'\n{second} = 2\n" in printed.getvalue()


CHAINS: dict[str, Callable[[Any], object]] = {
    "pre and post": lambda mount: (mount.pre(lambda: None), mount.post(lambda: None)),
    "one yield": lambda mount: mount.around(one_yield),
    "every kind": lambda mount: [
        mount.add(kind, hook)
        for kind, hook in [("pre", report), ("around", one_yield), ("exception", report), ("always", report)]
    ],
}


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("turn", ["first call", "second call"])
def test_warnings_and_log_records_of_a_hooked_function_name_the_line_that_called_it(
    f: Any, chain: str, turn: str, caplog: pytest.LogCaptureFixture
) -> None:
    # They named a line of generated code: warnings of different callers became one, and a DeprecationWarning that the
    # default filters show for __main__ was hidden.
    @hookable
    def old() -> None:
        warnings.warn("old", DeprecationWarning, stacklevel=2)
        logging.getLogger("aspecthook.tests").warning("old", stacklevel=2)

    CHAINS[chain](hooks(old))
    if turn == "second call":
        with pytest.warns(DeprecationWarning, match="old"):
            old()
        caplog.clear()
    line = inspect.currentframe().f_lineno + 2  # type: ignore[union-attr]
    with pytest.warns(DeprecationWarning, match="old") as caught:
        old()
    assert (caught[0].filename, caught[0].lineno) == (__file__, line)
    assert (caplog.records[0].pathname, caplog.records[0].lineno) == (__file__, line)


# linecache

code_can_die = pytest.mark.skipif(
    "free-threading" in sys.version, reason="code is immortal there, as its constants are"
)


def test_the_source_is_in_linecache_while_hooks_are_attached_and_goes_with_them(f: Any) -> None:
    # The code that stands in until the first call, and that of closures, was kept for the next time.
    before = shown()
    f.pre(clamp)
    f("tea")
    assert f.__code__.co_filename in shown() - before
    hooks(f).clear()
    assert shown() <= before


@code_can_die
def test_the_source_stays_as_long_as_a_traceback_can_show_it(f: Any) -> None:
    f.pre(fail)
    with pytest.raises(LookupError) as caught:
        f("tea")
    hooks(f).clear()
    gc.collect()
    assert f"answer = pre_1(qty)  # {place(fail)}" in "".join(traceback.format_exception(caught.value))


@code_can_die
def test_code_that_is_collected_takes_no_entry_out_of_linecache() -> None:
    # `linecache.checkcache`, which debuggers call, failed when an entry vanished while it looked at another one.
    f = new_price()
    f.pre(clamp)
    f("tea")
    filename, before = f.__code__.co_filename, set(linecache.cache)
    assert filename in before
    del f
    gc.collect()
    assert set(linecache.cache) == before
    assert not linecache.getlines(filename)
    again = new_price()
    again.pre(clamp)
    again("tea")  # the next code that is shown takes it out
    assert filename not in linecache.cache


# What tracebacks show


HIDDEN = """
import asyncio
import math

from aspecthook import Args, hookable, hooks, weave


@hookable
def price(item, qty=1):
    return 1 / qty

@price.pre
def no_tea(qty):
    return Args(qty=0)

@price.around
def around(proceed):
    return proceed()

@price.always
def first():
    pass

@price.exception(KeyError)
def second():
    pass

def test_function():
    price("tea")

def test_generator():
    @hookable
    def items():
        yield 1
        raise ValueError
    items.item(lambda item: None)
    items.around(lambda proceed: proceed())
    list(items())

def test_async():
    @hookable
    async def fails():
        raise ValueError
    @fails.around
    async def around(proceed):
        return await proceed()
    fails.around(lambda: (yield))
    asyncio.run(fails())

def test_c_function():
    with weave("math:sqrt", pre=lambda: None):
        math.sqrt(-1)

def test_two_failures():
    hooks(price).always(lambda: 1 / 0)
    hooks(price).always(lambda: None, name="last", priority=100)
    price("tea")

def test_refused():
    price.pre(lambda qyt: None)

def test_refused_weaving():
    weave("math:sqrrt", pre=lambda: None)
"""


def test_frames_of_the_library_are_not_in_the_tracebacks_of_pytest(tmp_path: Path) -> None:
    # There were three generated frames for one of the user's, and nine of the library for a refusal.
    file = tmp_path / "test_hidden.py"
    file.write_text(HIDDEN)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "-n0", str(file)]
    output = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path).stdout
    assert "7 failed" in output
    places = [line.partition(":")[0] for line in output.splitlines() if re.match(r"\S+:\d+: in ", line)]
    assert "test_hidden.py" in places
    ours = (os.path.dirname(hookable.__code__.co_filename), "<aspecthook")
    assert not [place for place in places if place.startswith(ours)]


def add_refused(function: Any) -> None:
    function.pre(lambda qyt: None)


def register_refused(function: Any) -> None:
    host, plugin = ModuleType("host"), ModuleType("plugin")
    host.price, plugin.price = function, pre(lambda qyt: None)  # type: ignore[attr-defined]
    Plugins(host).register(plugin)


REFUSED: dict[str, Callable[[Any], object]] = {
    "f.pre": add_refused,
    "f.pre(...)": lambda function: function.pre(priority="x")(report),
    "hooks(f).pre": lambda function: hooks(function).pre(lambda qyt: None),
    "add": lambda function: hooks(function).add("pre", report, priority=300),
    "remove": lambda function: hooks(function).remove("nobody"),
    "index": lambda function: hooks(function)["nobody"],
    "hooks": lambda _: hooks(len),
    "hookable": lambda _: hookable(len),
    "hookable(...)": lambda _: hookable(name="x")(len),
    "event": lambda _: event(len),  # type: ignore[type-var]
    "event(...)": lambda _: event(name="x")(len),  # type: ignore[type-var]
    "weave": lambda _: weave("math:sqrrt", pre=report),
    "register": register_refused,
}


@pytest.mark.parametrize("way", REFUSED)
def test_a_refusal_has_one_frame_of_the_library(f: Any, way: str) -> None:
    with pytest.raises(AspecthookError) as caught:
        REFUSED[way](f)
    # Not every path with the word: the checkout may be in a folder of that name.
    package = os.path.dirname(aspecthook.__file__)
    ours = [frame for frame in traceback.extract_tb(caught.tb) if frame.filename.startswith(package + os.sep)]
    assert len(ours) == 1


def test_a_refusal_in_code_of_the_user_that_the_library_calls_keeps_its_frames(f: Any) -> None:
    def where(_: object) -> bool:
        add_refused(f)
        return True

    with pytest.raises(AspecthookError) as caught:
        weave("math:sqrt", pre=report, where=where)
    assert [frame.name for frame in traceback.extract_tb(caught.tb) if frame.filename == __file__][1:] == [
        "where",
        "add_refused",
    ]


def test_completion_of_a_mount_point_shows_what_a_user_may_use() -> None:
    @hookable
    def f(x: int) -> int:
        return x

    public = {"add", "clear", "displaced", "explain", "function", "members", "name", "paused", "remove"}
    assert set(dir(hooks(f))) == public | {"pre", "around", "on", "item", "exception", "post", "always"}
    assert all(hasattr(hooks(f), name) for name in dir(hooks(f)))
    hook = hooks(f).add("pre", report)
    assert dir(hook) == ["failures", "function", "kind", "name", "priority", "remove"]
    assert all(hasattr(hook, name) for name in dir(hook))
