"""A chain to look at: the table that `print(hooks(f))` shows, and notebooks."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from aspecthook import around, hookable, hooks

HERE = Path(__file__).name


def new_price() -> Any:
    def price(item: str, qty: int = 1) -> int:
        if qty < 0:
            raise KeyError(item)
        return qty

    return hookable(price, name="shop:price")


def clamp(qty: int) -> None: ...


def report() -> None: ...


def line(function: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return where a function of this file is written, as it is shown from the folder above this one."""
    monkeypatch.chdir(Path(__file__).parents[1])
    return f"{Path('core') / HERE}:{function.__code__.co_firstlineno}"


def test_the_table_has_a_line_for_each_hook_in_the_order_in_which_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    price = new_price()
    price.post(report, priority="LOW")
    price.pre(clamp, name="second", priority=55, after="first", again=True)
    price.pre(clamp, name="first", before=["second", "thrid"], when=lambda qty: qty, times=3)
    price.exception(KeyError, OSError)(report)
    price.always([].append, isolate=True, reentrant=False, every=2)
    price.around(around.wrap(functools.cache), times=1)
    where = [line(one, monkeypatch) for one in (clamp, report)]
    got = [one.split("  ") for one in str(hooks(price)).splitlines()]
    cells = [[cell.strip() for cell in one if cell.strip()] for one in got]
    cache = cells[5].pop()
    assert cache.startswith("/") and "functools.py:" in cache
    assert cells == [
        ["shop:price, 6 hooks"],
        ["#", "kind", "name", "priority", "order", "conditions", "where"],
        ["1", "pre", "first", "NORMAL", "before='second' before='thrid' (?)", "when=<lambda>, times=3", where[0]],
        ["before='thrid': no pre hook has that name"],
        ["2", "pre", "second", "55", "after='first'", where[0]],
        ["3", "around", "cache", "NORMAL", "once"],
        ["4", "exception", "report", "NORMAL", "KeyError or OSError", where[1]],
        ["5", "post", "report", "LOW", where[1]],
        ["6", "always", "append", "NORMAL", "every=2, isolate, reentrant=False"],
    ]


def test_columns_that_say_nothing_are_left_out_and_no_hooks_are_one_line() -> None:
    price = new_price()
    assert str(hooks(price)) == "shop:price, 0 hooks"
    price.post([].append)
    assert str(hooks(price)).splitlines() == [
        "shop:price, 1 hook",
        "  #  kind  name    priority",
        "  1  post  append  NORMAL",
    ]


def test_the_table_says_what_has_become_of_a_hook(caplog: pytest.LogCaptureFixture) -> None:
    price = new_price()
    price.pre(lambda: 1 / 0, name="broken", isolate=True)
    price("tea")
    price("tea")
    hooks(price).set_paused((hooks(price)["broken"],), paused=True)
    assert "isolate, paused, failed 2×" in str(hooks(price))


def test_a_hook_of_an_instance_is_shown_in_the_table_of_its_instance_alone() -> None:
    class Shop:
        @hookable
        def price(self) -> int:
            return 1

    shop = Shop()
    hooks(shop.price).post(report)
    assert "report" in str(hooks(shop.price)) and "report" not in str(hooks(Shop.price))


def test_files_of_hooks_are_whole_where_the_current_folder_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    price = hookable(lambda item: item, name="price")
    hooks(price).add("pre", report)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert f"{__file__}:" in str(hooks(price))
