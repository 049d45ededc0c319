"""The idioms of `docs/migration` are run: theirs by their library, ours by aspecthook, to the same assertions.

The convention of a page: the title names the library, a `##` heading an idiom, which has two code blocks. The info
string of a block says whose it is (``python wrapt``, ``python aspecthook``), as does the label above it. A block whose
info string names a file (``python shop.py``, ``python pluggy shop_fees.py``) is that file; those of the first page are
there for all. All blocks of one side of a page are one program, in a process of its own, so that whatever they patch
ends with it; where it has test functions, pytest runs it.
"""

from __future__ import annotations

import ast
import asyncio
import functools
import importlib
import inspect
import pickle
import subprocess
import sys
import time
import tomllib
from collections.abc import AsyncIterator, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any
from unittest import mock

import pluggy
import pytest
import wrapt

from aspecthook import (
    HookSignatureError,
    PluginError,
    Return,
    WeaveError,
    event,
    hookable,
    hooks,
    on,
    pre,
)
from aspecthook.plugins import Plugins
from aspecthook.testing import Tape, assert_calls, called

PAGES = Path(__file__).parents[2] / "docs" / "migration"
OURS = "aspecthook"
MODULES = {
    "blinker": "blinker",
    "pluggy": "pluggy",
    "wrapt": "wrapt",
    "mock": "unittest.mock",
    "aspectlib": "aspectlib",
}
NOT_RUN = {"Spring": "java"}
# Headings of prose.
PROSE = ("What differs", "What you no longer need to work around")
# Its generators are thrown into in a way that Python 3.12 deprecates.
WARNINGS = {"aspectlib": ["-W", "ignore::DeprecationWarning:aspectlib"]}


@dataclass(frozen=True)
class Block:
    """A fenced block: the first three are its info string, ``label`` is the line of text above it."""

    language: str
    side: str
    file: str
    label: str
    line: int
    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


@dataclass(frozen=True)
class Idiom:
    section: str
    title: str
    blocks: list[Block] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.section}: {self.title}"


def read(page: Path) -> list[Idiom]:
    """Return what is written under each heading of a page; its top is an idiom without a title."""
    first, *lines = page.read_text(encoding="utf-8").splitlines()
    found = [Idiom(first.removeprefix("# Coming from "), "")]
    block: Block | None = None
    label = ""
    for number, line in enumerate(lines, 2):
        if line.startswith("```"):
            if block is None:
                language, *words = line[3:].split()
                side, file = ("".join(word for word in words if ("." in word) is dotted) for dotted in (False, True))
                block = Block(language, side, file, label, number)
                found[-1].blocks.append(block)
            else:
                block = None
        elif block is not None:
            block.lines.append(line)
        elif line.startswith("## "):
            found.append(Idiom(found[-1].section, line[3:]))
        if block is None and line.strip() and not line.startswith("```"):
            label = line
    return found


SHOP = [block for part in read(PAGES / "index.md") for block in part.blocks if block.file]
FILES = {page: read(page) for page in sorted(PAGES.glob("*.md")) if page.stem != "index"}
PARTS = [part for parts in FILES.values() for part in parts]
IDIOMS = [part for part in PARTS if part.title and part.title not in PROSE]
SECTIONS = {parts[0].section: page for page, parts in FILES.items()}


def program(section: str, side: str) -> str:
    """Put the blocks of one side together, each on the lines it has in the page, so that tracebacks show these."""
    lines: list[str] = []
    for part in PARTS:
        for block in part.blocks:
            if (part.section, block.language, block.side, block.file) == (section, "python", side, ""):
                lines += [""] * (block.line - len(lines))
                lines += block.lines
    return "\n".join(lines) + "\n"


def write_files(section: str, side: str, folder: Path) -> None:
    """Write the files that the pages show, and install the project that one shows."""
    blocks = [block for part in PARTS if part.section == section for block in part.blocks]
    for block in (*SHOP, *blocks):
        if block.side not in ("", side) or not block.file:
            continue
        if block.file == "pyproject.toml":
            install(block.text, folder)
        else:
            (folder / block.file).write_text(block.text, encoding="utf-8")


def install(text: str, folder: Path) -> None:
    """Do what an installer does with a project's entry points."""
    project = tomllib.loads(text)["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    about = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(about, encoding="utf-8")
    groups = [
        "\n".join([f"[{group}]", *(f"{name} = {value}" for name, value in points.items())])
        for group, points in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups), encoding="utf-8")


def run(section: str, side: str, folder: Path) -> None:
    """Run one side of a section; what fails is shown with the lines of the page."""
    write_files(section, side, folder)
    text = program(section, side)
    script = folder / "migration.py"
    script.write_text(text, encoding="utf-8")
    warnings = ["-W", "error", *WARNINGS.get(side, [])]
    command = [sys.executable, *warnings, str(script)]
    if "def test_" in text:
        quiet = ["-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:aspectlib", "-p", "no:asyncio"]
        command = [
            sys.executable,
            "-m",
            "pytest",
            *warnings,
            *quiet,
            "--hook-leaks=error",
            f"--rootdir={folder}",
            script,
        ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}".replace(str(script), str(SECTIONS[section]))


@pytest.mark.parametrize("section", [section for section in SECTIONS if section not in NOT_RUN])
def test_their_side_of_a_page_runs(section: str, tmp_path: Path) -> None:
    pytest.importorskip(MODULES[section])
    if section == "wrapt" and not hasattr(importlib.import_module("wrapt"), "unwrap_object"):
        pytest.skip("this wrapt cannot take a wrapper off")
    run(section, section, tmp_path)


@pytest.mark.parametrize("section", SECTIONS)
def test_our_side_of_a_page_runs(section: str, tmp_path: Path) -> None:
    run(section, OURS, tmp_path)


# The convention


def test_every_library_has_a_page() -> None:
    assert {*MODULES, *NOT_RUN} == {*SECTIONS}
    assert all(page.stem == section.lower() for section, page in SECTIONS.items())


@pytest.mark.parametrize("page", FILES, ids=lambda page: page.stem)
def test_a_page_says_what_differs_after_its_idioms(page: Path) -> None:
    assert tuple(part.title for part in FILES[page])[-2:] == PROSE


@pytest.mark.parametrize("idiom", IDIOMS, ids=str)
def test_an_idiom_is_a_pair_of_blocks_that_are_labelled(idiom: Idiom) -> None:
    theirs = NOT_RUN.get(idiom.section)
    pair = [block for block in idiom.blocks if not block.file]
    whose = [(theirs or "python", "" if theirs else idiom.section), ("python", OURS)]
    assert [(block.language, block.side) for block in pair] == whose
    assert [block.label for block in pair] == [f"{idiom.section}:", f"{OURS}:"]


@pytest.mark.parametrize("idiom", [idiom for idiom in IDIOMS if idiom.section not in NOT_RUN], ids=str)
def test_both_sides_of_an_idiom_assert_the_same(idiom: Idiom) -> None:
    theirs, ours = [sorted(asserted(block.text)) for block in idiom.blocks if not block.file]
    assert theirs == ours
    assert theirs


@pytest.mark.parametrize("idiom", [idiom for idiom in IDIOMS if idiom.section in NOT_RUN], ids=str)
def test_our_side_of_what_is_not_run_asserts_something(idiom: Idiom) -> None:
    assert asserted(idiom.blocks[-1].text)


def asserted(text: str) -> Iterator[str]:
    """Return what a block asserts: its `assert` statements, and what it expects to be raised."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assert) or (
            isinstance(node, ast.With) and "pytest.raises" in ast.unparse(node.items[0])
        ):
            yield ast.unparse(node)


# The facts: what the page says that its idioms do not show


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The pages' module `shop`, with its `till`, which has copied `price` from it."""
    for block in SHOP:
        made = ModuleType(block.file.removesuffix(".py"))
        monkeypatch.setitem(sys.modules, made.__name__, made)
        exec(block.text, vars(made))
    return sys.modules["shop"]


def till() -> Any:
    return sys.modules["till"]


def plain(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)


# blinker


def test_blinker_does_not_know_a_wrong_receiver_before_it_is_sent_to() -> None:
    blinker = pytest.importorskip("blinker")
    signal = blinker.Signal()

    def clerk(sender: Any, itme: Any) -> None: ...

    signal.connect(clerk)
    with pytest.raises(TypeError):
        signal.send("ann", item="tea")

    @event
    def sold(item: Any) -> None: ...

    with pytest.raises(HookSignatureError, match="did you mean 'item'"):
        sold.on(lambda itme: None)


def test_blinker_drops_the_answers_when_a_receiver_raises() -> None:
    blinker = pytest.importorskip("blinker")
    ran: list[str] = []

    def fails(sender: Any = None) -> None:
        raise ConnectionError

    def works(sender: Any = None) -> str:
        ran.append("works")
        return "done"

    signal = blinker.Signal()
    signal.connect(fails)
    signal.connect(works)
    with pytest.raises(ConnectionError):
        signal.send()

    @event(errors="group")
    def sold() -> None: ...

    sold.on(fails)
    sold.on(works)
    ran.clear()
    with pytest.raises(ExceptionGroup):
        sold()
    assert ran == ["works"]


def test_blinker_takes_coroutine_functions_or_functions_and_not_both() -> None:
    blinker = pytest.importorskip("blinker")
    signal = blinker.Signal()

    def greet(sender: Any) -> str:
        return "hello"

    signal.connect(greet)
    with pytest.raises(RuntimeError):
        asyncio.run(signal.send_async("ann"))

    @event
    async def opened(sender: Any) -> None: ...

    opened.on(greet)
    opened.on(agreet)
    assert asyncio.run(opened("ann")) == ["hello", "hello from afar"]


async def agreet(sender: Any) -> str:
    return "hello from afar"


def test_blinker_forgets_a_lambda_and_connects_a_receiver_once() -> None:
    blinker = pytest.importorskip("blinker")
    signal = blinker.Signal()
    signal.connect(lambda sender: "heard")
    assert signal.send() == []
    signal.connect(till)
    signal.connect(till)
    assert len(signal.receivers) == 1

    @event
    def sold() -> None: ...

    sold.on(lambda: "heard")
    sold.on(till)
    sold.on(till)
    assert len(hooks(sold)) == 2
    hooks(sold).remove(till)
    assert sold() == ["heard"]


# pluggy


class Shop:
    """What pluggy's users write as hook specifications, and ours as events."""

    theirs = pluggy.HookspecMarker("shop")
    mark = pluggy.HookimplMarker("shop")

    @event
    def sold(self, item: Any) -> None: ...

    @event
    def bought(self, item: Any) -> None: ...

    @event
    async def opened(self, till: Any) -> None: ...

    @event(errors="group")
    def closed(self, till: Any) -> None: ...

    @event(fold="price")
    def priced(self, price: Any) -> None: ...


def managed() -> Any:
    class Specification:
        @Shop.theirs
        def sold(self, item: Any) -> None: ...

        @Shop.theirs
        def opened(self, till: Any) -> None: ...

        @Shop.theirs
        def closed(self, till: Any) -> None: ...

    manager = pluggy.PluginManager("shop")
    manager.add_hookspecs(Specification)
    return manager


def test_pluggy_takes_arguments_by_name_only() -> None:
    with pytest.raises(TypeError):
        managed().hook.sold("tea")
    assert Shop().sold("tea") == Shop().sold(item="tea") == []


def test_pluggy_finds_a_wrong_name_when_it_is_asked_to_and_we_refuse_it() -> None:
    manager = managed()

    class Theirs:
        @Shop.mark
        def slod(self, item: Any) -> None: ...

    manager.register(Theirs())
    with pytest.raises(pluggy.PluginValidationError):
        manager.check_pending()

    class Ours:
        @on
        def bought(self) -> str:
            return "registered"

        @on
        def slod(self, item: Any) -> None: ...

    shop = Shop()
    plugins = Plugins(shop)
    with pytest.raises(PluginError, match="did you mean 'sold'"):
        plugins.register(Ours())
    assert (len(plugins), shop.bought("tea")) == (0, [])
    with pytest.raises(PluginError, match="is a class"):
        plugins.register(Ours)


def test_a_plugin_may_not_use_the_name_of_an_event_for_something_else() -> None:
    class Audit:
        @on("sold")
        def note(self, item: Any) -> Any:
            return item

        def bought(self, colour: Any) -> None: ...

    with pytest.raises(PluginError, match="not marked"):
        Plugins(Shop()).register(Audit())
    del Audit.bought
    shop = Shop()
    Plugins(shop).register(Audit())
    assert shop.sold("tea") == ["tea"]


def test_pluggy_gives_coroutines_and_we_await_them() -> None:
    class Greeter:
        @on
        @Shop.mark
        async def opened(self, till: Any) -> str:
            return f"hello {till}"

    manager, shop = managed(), Shop()
    manager.register(Greeter())
    (given,) = manager.hook.opened(till=1)
    given.close()
    assert isinstance(given, Coroutine)
    Plugins(shop).register(Greeter())
    assert asyncio.run(shop.opened(1)) == ["hello 1"]


def test_an_exception_ends_a_call_of_pluggy_and_a_group_lets_all_run() -> None:
    ran: list[str] = []

    class Works:
        @on
        @Shop.mark
        def closed(self) -> None:
            ran.append("works")

    class Fails:
        @on
        @Shop.mark
        def closed(self) -> None:
            raise ConnectionError

    manager, shop = managed(), Shop()
    manager.register(Works())
    manager.register(Fails())
    with pytest.raises(ConnectionError):
        manager.hook.closed(till=1)
    assert ran == []
    plugins = Plugins(shop)
    plugins.register(Fails())
    plugins.register(Works())
    with pytest.raises(ExceptionGroup):
        shop.closed(1)
    assert ran == ["works"]


def test_we_say_who_answered_what_and_hand_a_value_on() -> None:
    class Tax:
        @on
        def sold(self, item: Any) -> str:
            return f"taxed {item}"

        @on
        def priced(self, price: Any) -> Any:
            return price * 2

    class Fee:
        @on
        def sold(self) -> None: ...

        @on
        def priced(self, price: Any) -> Any:
            return price + 1

    shop = Shop()
    plugins = Plugins(shop)
    plugins.register(Tax(), name="tax")
    plugins.register(Fee(), name="fee")
    assert plugins.answers("sold", "tea") == [("tax", "taxed tea")]
    assert shop.priced(10) == 21


# wrapt


def test_wrapt_does_not_reach_a_name_that_was_copied(shop: Any) -> None:
    wrapt.wrap_function_wrapper("shop", "price", lambda wrapped, instance, args, kwargs: 9.0)
    assert (shop.price("tea"), till().price("tea")) == (9.0, 2.0)


def test_we_reach_a_name_that_was_copied(shop: Any, weave: Any) -> None:
    weave("till:price", pre=lambda: Return(9.0))
    assert (shop.price("tea"), till().price("tea"), shop.checkout("tea")) == (9.0, 9.0, 9.0)


def test_wrapt_is_given_the_coroutine_and_the_generator() -> None:
    given: list[object] = []

    @wrapt.decorator
    def look(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        given.append(wrapped(*args, **kwargs))
        return given[-1]

    @look
    async def fetch() -> str:
        return "page"

    @look
    def count() -> Iterator[int]:
        yield 1

    assert asyncio.run(fetch()) == "page"
    assert list(count()) == [1]
    assert isinstance(given[0], Coroutine)
    assert isinstance(given[1], Generator)


def test_wrapt_passes_over_a_property_and_we_hook_its_getter() -> None:
    called: list[str] = []

    @wrapt.decorator
    def noted(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        called.append("wrapt")
        return wrapped(*args, **kwargs)

    def hooked(target: Any) -> Any:
        hooks(hookable(target)).add("pre", lambda: called.append("ours"))
        return target

    class Cart:
        @noted
        @property
        def theirs(self) -> int:
            return 1

        @hooked
        @property
        def ours(self) -> int:
            return 1

    assert Cart().theirs == Cart().ours == 1
    assert called == ["ours"]


def test_wrapt_wrapper_is_no_function_and_does_not_pickle(shop: Any, weave: Any) -> None:
    assert type(shop.price) is FunctionType
    weave("shop:price", pre=lambda: None)
    assert type(shop.price) is FunctionType
    assert pickle.loads(pickle.dumps(shop.price)) is shop.price
    wrapt.wrap_function_wrapper("shop", "price", plain)
    assert type(shop.price) is not FunctionType
    assert isinstance(shop.price, FunctionType)
    with pytest.raises(NotImplementedError):
        pickle.dumps(shop.price)


def test_a_reload_loses_what_wrapt_has_wrapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weave: Any) -> None:
    (tmp_path / "reloaded.py").write_text("def price():\n    return 2.0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    reloaded = importlib.import_module("reloaded")
    try:
        wrapt.wrap_function_wrapper("reloaded", "price", lambda wrapped, instance, args, kwargs: 9.0)
        assert reloaded.price() == 9.0
        importlib.reload(reloaded)
        assert reloaded.price() == 2.0
        weave("reloaded:price", pre=lambda: Return(9.0))
        importlib.reload(reloaded)
        assert reloaded.price() == 9.0
    finally:
        del sys.modules["reloaded"]


def test_wrapt_refuses_to_go_from_under_another_wrapper(shop: Any, weave: Any) -> None:
    if not hasattr(wrapt, "unwrap_object"):
        pytest.skip("this wrapt cannot take a wrapper off")
    weaving = weave("shop:price", post=lambda result: result + 1.0)
    handle = wrapt.wrap_function_wrapper("shop", "price", plain)
    wrapped = shop.price

    @functools.wraps(wrapped)
    def foreign(*args: Any) -> Any:
        return wrapped(*args)

    shop.price = foreign
    assert shop.price("tea") == 3.0
    with pytest.raises(wrapt.WrapperNotOutermostError):
        wrapt.unwrap_object("shop", "price", handle)
    weaving.remove()
    assert shop.price("tea") == 2.0


# mock


def test_mock_does_not_reach_a_name_that_was_copied(shop: Any) -> None:
    copied = time.sleep
    with mock.patch("shop.price", return_value=9.0), mock.patch("time.sleep") as sleep:
        copied(0)
        assert till().price("tea") == 2.0
    assert sleep.call_count == 0


def test_a_mock_takes_any_arguments_without_autospec(shop: Any, weave: Any) -> None:
    with mock.patch("shop.price", return_value=9.0):
        assert shop.price("tea", 1, 2, 3, colour="green") == 9.0
    with weave("shop:price", pre=lambda: Return(9.0)), pytest.raises(TypeError):
        shop.price("tea", 1, 2, 3, colour="green")
    with pytest.raises(HookSignatureError, match="did you mean 'item'"):
        weave("shop:price", pre=lambda itme: None)


def test_a_mock_tells_positions_from_names_and_defaults(shop: Any) -> None:
    with mock.patch("shop.price", return_value=9.0) as price:
        shop.price("tea")
        with pytest.raises(AssertionError):
            price.assert_called_with(item="tea")
    with mock.patch("shop.price", autospec=True) as price:
        shop.price("tea")
        price.assert_called_with(item="tea")
        with pytest.raises(AssertionError):
            price.assert_called_with("tea", 1)
    with Tape().record("shop:price") as tape:
        shop.price("tea")
    assert_calls(tape, called("price", item="tea", qty=1))


def test_a_mocked_method_is_not_told_its_self(shop: Any, spy: Any) -> None:
    cart = shop.Cart()
    with mock.patch("shop.Cart.total") as total:
        cart.total()
    assert total.call_args == mock.call()
    tape = spy("shop:Cart.total")
    cart.total()
    assert tape.last.arguments["self"] is cart


def test_patches_that_end_in_the_wrong_order_leave_a_mock(shop: Any, weave: Any) -> None:
    price, code = shop.price, shop.price.__code__
    one, two = mock.patch("shop.price", return_value=1.0), mock.patch("shop.price", return_value=2.0)
    one.start()
    two.start()
    one.stop()
    two.stop()
    assert shop.price("tea") == 1.0
    shop.price = price
    first, second = weave("shop:price", pre=lambda: Return(1.0)), weave("shop:price", pre=lambda: Return(3.0))
    first.remove()
    assert shop.price("tea") == 3.0
    second.remove()
    assert shop.price is price
    assert price.__code__ is code


def test_a_hook_of_one_context_is_not_seen_by_another_thread(shop: Any, weave: Any) -> None:
    with ThreadPoolExecutor(1) as pool:
        with mock.patch("shop.price", return_value=9.0):
            assert pool.submit(shop.price, "tea").result() == 9.0

        @wrapt.transient_function_wrapper("shop", "price")
        def free(*wrapped: Any) -> float:
            return 0.0

        assert free(lambda: pool.submit(shop.price, "tea").result())() == 0.0
        with weave("shop:price", pre=lambda: Return(9.0), scope="context"):
            assert (shop.price("tea"), pool.submit(shop.price, "tea").result()) == (9.0, 2.0)


# aspectlib


@pytest.fixture
def aspectlib() -> Any:
    return pytest.importorskip("aspectlib")


@pytest.fixture
def looks(aspectlib: Any) -> Any:
    """An aspect that only looks."""

    @aspectlib.Aspect
    def looks(*args: Any, **kwargs: Any) -> Iterator[Any]:
        yield aspectlib.Proceed

    return looks


def test_aspectlib_breaks_async_generators(looks: Any) -> None:
    @looks
    async def count() -> AsyncIterator[int]:
        yield 1

    made = count()
    assert not hasattr(made, "__aiter__")
    made.close()


def test_aspectlib_does_not_reach_a_name_that_was_copied(aspectlib: Any, shop: Any) -> None:
    @aspectlib.Aspect
    def free(item: Any) -> Iterator[Any]:
        yield aspectlib.Return(0.0)

    with aspectlib.weave("shop.price", free):
        assert (shop.price("tea"), till().price("tea")) == (0.0, 2.0)


def test_aspectlib_rolls_back_in_reverse_order_only(aspectlib: Any, looks: Any, shop: Any) -> None:
    price = shop.price
    one, two = aspectlib.weave("shop.price", looks), aspectlib.weave("shop.price", looks)
    one.rollback()
    two.rollback()
    assert shop.price is not price


def test_aspectlib_leaves_a_method_in_the_object(aspectlib: Any, looks: Any, shop: Any) -> None:
    cart = shop.Cart()
    aspectlib.weave(cart, looks, methods="total").rollback()
    assert "total" in vars(cart)


def test_aspectlib_passes_over_a_property(aspectlib: Any, shop: Any) -> None:
    seen: list[object] = []

    @aspectlib.Aspect
    def noted(*args: Any) -> Iterator[Any]:
        seen.append(args)
        yield

    with aspectlib.weave(shop.Cart, noted, methods="empty"):
        assert shop.Cart().empty
    assert seen == []


def test_function_woven_by_aspectlib_has_another_signature(aspectlib: Any, looks: Any, shop: Any, weave: Any) -> None:
    weave("shop:price", pre=lambda: None)
    assert str(inspect.signature(shop.price)) == "(item, qty=1)"
    with aspectlib.weave("shop.price", looks):
        assert str(inspect.signature(shop.price)) == "(*args, **kwargs)"


def test_an_aspect_of_aspectlib_is_not_told_of_a_keyboard_interrupt(aspectlib: Any) -> None:
    told: list[type[BaseException]] = []

    @aspectlib.Aspect
    def noted() -> Iterator[Any]:
        try:
            yield
        except BaseException as error:
            told.append(type(error))
            raise

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        noted(interrupted)()
    assert told == [GeneratorExit]

    def ours() -> Iterator[Any]:
        return (yield from noted.advising_function())

    hookable(interrupted).around(ours)
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert told == [GeneratorExit, KeyboardInterrupt]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="deprecated since Python 3.12")
def test_an_exception_in_what_aspectlib_has_woven_is_a_deprecation_warning(looks: Any) -> None:
    def fails() -> None:
        raise LookupError

    with pytest.warns(DeprecationWarning, match="throw"), pytest.raises(LookupError):
        looks(fails)()


def test_aspectlib_imports_what_it_weaves_and_we_wait(
    aspectlib: Any, looks: Any, shop: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, weave: Any
) -> None:
    (tmp_path / "later.py").write_text("def price():\n    return 2.0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert weave("later:price", pre=lambda: None).state == "waiting"
    assert "later" not in sys.modules
    try:
        aspectlib.weave("later.price", looks).rollback()
        assert "later" in sys.modules
    finally:
        sys.modules.pop("later", None)


# Spring


def test_pre_hooks_run_before_around_hooks_and_those_hide_exceptions_from_exception_hooks() -> None:
    seen: list[str] = []

    @hookable
    def total() -> float:
        raise KeyError("gold")

    @total.around(priority="HIGHEST")
    def careful(proceed: Any) -> float:
        seen.append("around")
        try:
            return proceed()
        except KeyError:
            return 0.0

    total.pre(lambda: seen.append("pre"), priority="LOWEST")
    total.exception(lambda: seen.append("exception"))
    total.post(lambda: seen.append("post 1"), priority=1)
    total.post(lambda: seen.append("post 2"), priority=2)
    assert total() == 0.0
    assert seen == ["pre", "around", "post 1", "post 2"]


def test_a_pointcut_that_is_misspelled_is_refused(shop: Any, weave: Any) -> None:
    with pytest.raises(WeaveError, match="did you mean 'add'"):
        weave("shop:Cart.ad", pre=lambda: None)


def test_private_and_static_methods_are_woven(monkeypatch: pytest.MonkeyPatch, shop: Any, weave: Any) -> None:
    class Cart:
        def _check(self) -> str:
            return "checked"

        @staticmethod
        def unit() -> str:
            return "box"

    monkeypatch.setattr(shop, "Cart", Cart)
    weave("shop:Cart._check, shop:Cart.unit", post=lambda result: result.upper())
    assert (Cart()._check(), Cart().unit()) == ("CHECKED", "BOX")


def test_the_hooks_of_an_aspect_run_as_they_are_written_and_may_ask_whose_method_it_is(shop: Any, weave: Any) -> None:
    seen: list[object] = []

    class Audit:
        @pre("shop:Cart.add")
        def zeta(self) -> None:
            seen.append("zeta")

        @pre("shop:Cart.add", when=lambda self: self.items)
        def alpha(self, call: Any) -> None:
            seen.append(call.arguments["self"])

    weave(Audit())
    cart = shop.Cart("tea")
    cart.add("cake")
    shop.Cart().add("cake")
    assert seen == ["zeta", cart, "zeta"]
