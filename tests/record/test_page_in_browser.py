"""The page of recorded calls, in a real browser, by clicks and keys."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from .browser import names, opened, search, started
from .test_page import NAMES

pytestmark = pytest.mark.wide

# To shrink a failure would take minutes: each example opens a page.
IN_BROWSER = settings(max_examples=10, phases=(Phase.explicit, Phase.reuse, Phase.generate))

HEADER = {"aspecthook": "calls", "version": 1, "process": 7, "parent": None, "command": ["app.py"], "started": 1764e6}


def function(number: int, name: str, line: int = 1) -> dict[str, object]:
    return {"function": number, "name": name, "file": f"/srv/{name.partition(':')[0]}.py", "line": line}


def call(number: int, of: int, begin: int, duration: int | None, parent: object = None, **more) -> dict[str, object]:
    more.setdefault("thread", "MainThread")
    return {"call": number, "parent": parent, "of": of, "begin": begin, "duration": duration, **more}


# A checkout of two items, the second of which is not known; a task, a thread, a generator, and what has not ended.
SHOP = [
    HEADER,
    function(0, "shop:checkout", 12),
    function(1, "shop:Cart.price", 30),
    function(2, "shop.db:load", 5),
    function(3, "shop:lines", 40),
    call(2, 1, 0, 400_000, 1, arguments={"self": "<Cart>", "item": "'tea'"}, result="3.5"),
    call(
        3, 1, 500_000, 500_000, 1, arguments={"item": "'<b>milk</b>'"}, error={"type": "KeyError", "message": "'milk'"}
    ),
    call(1, 0, 0, 1_000_000, arguments={"cart": "<Cart>"}, result="None"),
    call(4, 2, 2_000_000, 250_000, thread="worker-1", result="[1, 2]"),
    call(5, 3, 1_000_000, 900_000, task="Task-1", turns=[[1_000_000, 100_000], [1_700_000, 200_000]], result="None"),
    {"left_out": 1234, "why": "they began later"},
    call(6, 0, 3_000_000, None, arguments={"cart": "<empty>"}),
    {**HEADER, "process": 8, "parent": 7, "started": 1764e6 + 0.001, "command": ["child"]},
    function(0, "shop.db:load", 5),
    call(1, 0, 500_000, 1_500_000, [7, 6], result="'of the child'"),
]


@pytest.fixture(scope="module")
def browser():
    with started() as browser:
        yield browser


@pytest.fixture
def shop(browser, tmp_path):
    with opened(browser, SHOP, tmp_path) as page:
        yield page


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@IN_BROWSER
@given(st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=5))
def test_every_name_and_value_is_found_and_none_is_run(browser, folder, recorded):
    rows: list[dict[str, object]] = [{**HEADER, "command": [recorded[0][0]]}]
    for at, (name, value) in enumerate(recorded):
        rows.append(function(at, name))
        rows.append(call(at, at, at * 100, 50, arguments={value: value}, result=value, task=value, thread=name))
        rows.append(call(100 + at, at, at * 100 + 60, 20, error={"type": name, "message": value}))
    with opened(browser, rows, folder) as page:
        for name, value in recorded:
            for text in (name, value):
                shown = text.encode("utf-8", "replace").decode()  # half a pair of surrogates cannot be typed
                if shown != text or "\x00" in text:
                    continue
                found = search(page, text)
                assert not found.startswith("0 of"), text
            # A newline is shown as such but cannot be typed; the lines of the tree have names as they are.
            search(page, "")
            assert len(names(page)) == 2 * len(recorded)
        for view in ("timeline", "flame", "functions", "tree"):
            page.click(f"#tab-{view}")
        page.click("#tree .row >> nth=0")
        assert page.locator("#details b, #tree b, img").count() == 0
        assert page.evaluate("window.hacked") is None


def test_the_table_has_the_times_of_the_calls(shop):
    shop.click("#tab-functions")
    rows = {row.locator(".text").inner_text(): row.locator(".num") for row in shop.locator("#functions .row").all()}
    shown = [cell.get_attribute("title") or cell.inner_text() for cell in rows["shop:Cart.price"].all()]
    assert shown == ["2", "1", "900000 ns", "900000 ns", "400000 ns", "500000 ns"]
    assert rows["shop:checkout"].nth(3).get_attribute("title") == "100000 ns"


def test_the_tree_shows_each_call_below_its_caller(shop):
    lines = [
        (row.get_attribute("aria-level"), row.locator(".text").inner_text()) for row in shop.locator("#tree .row").all()
    ]
    assert lines == [
        ("1", "shop:checkout(cart=<Cart>) → None"),
        ("2", "shop:Cart.price(item='tea') → 3.5"),
        ("2", "shop:Cart.price(item='<b>milk</b>') raised KeyError: 'milk'"),
        ("1", "shop:lines() → None"),
        ("1", "shop.db:load() → [1, 2]"),
        ("1", "shop:checkout(cart=<empty>) has not ended"),
        ("2", "shop.db:load() → 'of the child'"),
    ]


def test_a_click_shows_all_of_a_call(shop):
    shop.click("#tree .row >> nth=2")
    details = shop.inner_text("#details")
    for text in ("shop:Cart.price", "/srv/shop.py:30", "500 µs", "'<b>milk</b>'", "KeyError: 'milk'", "MainThread"):
        assert text in details
    shop.click("#details .path button")
    assert "1 ms" in shop.inner_text("#details")
    assert "100 µs" in shop.inner_text("#details")  # its own
    shop.click("#details .close")
    assert not shop.is_visible("#details")


def test_the_tree_is_walked_by_keys(shop):
    shop.click("#tree .row >> nth=0")
    shop.focus("#tree .scroll")

    def press(*keys: str) -> str:
        for key in keys:
            shop.keyboard.press(key)
        return shop.inner_text("#tree .row[aria-selected=true] .text")

    assert press("ArrowDown").startswith("shop:Cart.price(item='tea')")
    assert press("ArrowLeft").startswith("shop:checkout")
    assert press("ArrowLeft").startswith("shop:checkout")
    assert shop.locator("#tree .row").count() == 5
    assert press("ArrowRight", "ArrowRight").startswith("shop:Cart.price")
    assert press("End").startswith("shop.db:load() → 'of the child'")
    assert press("Home").startswith("shop:checkout(cart=<Cart>)")
    assert press("Enter").startswith("shop:checkout")
    assert shop.locator("#tree .row").count() == 5
    assert press("*").startswith("shop:checkout")
    assert shop.locator("#tree .row").count() == 7
    shop.keyboard.press("Escape")
    assert not shop.is_visible("#details")


def test_a_search_leaves_what_is_found_and_its_callers(shop):
    assert search(shop, "MILK") == "1 of 7 calls"
    assert names(shop) == ["checkout", "Cart.price"]
    shop.keyboard.press("Escape")  # out of the field
    shop.keyboard.press("Escape")  # the selection
    shop.keyboard.press("Escape")  # the search
    assert shop.inner_text("#count") == "7 calls"
    shop.keyboard.press("/")
    assert search(shop, "load") == "2 of 7 calls"
    assert "[1, 2]" in shop.inner_text("#details")
    shop.keyboard.press("Enter")
    assert "'of the child'" in shop.inner_text("#details")
    shop.keyboard.press("Shift+Enter")
    assert "[1, 2]" in shop.inner_text("#details")
    assert search(shop, "nowhere") == "0 of 7 calls"
    assert "Nothing fits" in shop.inner_text("#tree")


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("#only", "error", 1),
        ("#only", "open", 1),
        ("#lane", "process 8", 1),
        ("#lane", "process 7 · worker-1", 1),
        ("#lane", "process 7 · MainThread", 5),
        ("#lane", "process 7 · MainThread · Task-1", 1),
        ("#least", "900 us", 3),
        ("#least", "1", 2),
        ("#least", "0.0015 s", 1),
    ],
)
def test_filters_restrict_all_views(field, value, found, shop):
    if field == "#least":
        shop.fill(field, value)
    elif field == "#lane":
        shop.select_option(field, label=value)
    else:
        shop.select_option(field, value)
    shop.wait_for_selector(f"#count:text-is('{found} of 7 calls')")
    shop.click("#tab-functions")
    counts = shop.locator("#functions .row .num:nth-child(2)").all_text_contents()
    assert sum(map(int, counts)) == found


def at(page, view: str, share: float, y: float) -> tuple[float, float]:
    box = page.locator(f"#{view} canvas").bounding_box()
    return box["x"] + share * box["width"], box["y"] + y


def title(page) -> str:
    return page.inner_text("#details h2")


def painted(page) -> None:
    """Wait until what is due has been drawn."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


@pytest.mark.parametrize("rows", [[], [HEADER], [HEADER, function(0, "shop:price")]])
def test_a_page_without_calls_says_so(rows, browser, tmp_path):
    with opened(browser, rows, tmp_path) as page:
        assert "No call was recorded." in page.inner_text("#tree")
        for view in ("timeline", "flame", "functions"):
            page.click(f"#tab-{view}")


def test_deep_recursion_is_shown(browser, tmp_path):
    deep = 5_000
    rows = [call(n, 0, n, 2 * (deep - n), n - 1 if n else None) for n in range(deep)]
    with opened(browser, [HEADER, function(0, "shop:walk"), *rows], tmp_path) as page:
        page.click("#tree .row")
        page.focus("#tree .scroll")
        page.keyboard.press("*")
        page.keyboard.press("End")
        assert page.inner_text("#tree .row[aria-selected=true] .text").startswith(f"{deep - 1}· ")
        for view in ("timeline", "flame", "functions"):
            page.click(f"#tab-{view}")
            painted(page)


@pytest.mark.parametrize("size", [5_000, pytest.param(100_000, marks=pytest.mark.stress)])
def test_many_calls_need_few_elements(size, browser, tmp_path):
    rows = (
        call(n, n % 3, n * 1000, 900, n - 1 if n % 10 else None, arguments={"n": f"{n}"}, thread=f"thread {n % 4}")
        for n in range(size)
    )
    with opened(browser, [HEADER, *[function(n, f"shop:f{n}") for n in range(3)], *rows], tmp_path) as page:
        for view in ("tree", "timeline", "flame", "functions"):
            page.click(f"#tab-{view}")
            painted(page)
            assert page.evaluate("document.querySelectorAll('*').length") < 1_000
        page.click("#tab-tree")
        assert search(page, f"n={size - 1}") == f"1 of {size:,} calls"
        assert f"n={size - 1}" in page.inner_text("#tree .row[aria-selected=true]")
        assert search(page, "") == f"{size:,} calls"
