"""`hooks(f).diagram()`: a call as an image, from the caller to the target and back."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from aspecthook import hookable, hooks

SVG = "{http://www.w3.org/2000/svg}"


def note() -> None: ...


def layer(proceed: Any) -> Any:
    return proceed()


def shown(mount: Any) -> dict[str, tuple[float, float]]:
    """Return the texts of an image with where they stand."""
    root = ET.fromstring(hooks(mount).diagram())
    return {text.text or "": (float(text.get("x", 0)), float(text.get("y", 0))) for text in root.iter(f"{SVG}text")}


def test_each_hook_stands_where_a_call_comes_to_it() -> None:
    @hookable(name="shop:count")
    def count(n: int) -> Any:
        yield n

    count.pre(note, name="p2")
    count.pre(note, name="p1", before="p2", again=True)
    count.around(layer, name="outer")
    count.around(layer, name="inner", again=True)
    count.item(lambda item: None, name="each")
    count.exception(note, name="caught")
    count.post(note, name="done")
    count.always(note, name="last")
    places = shown(count)
    names = ["caller", "p1", "p2", "outer", "inner", "shop:count", "each", "caught", "done", "last"]
    assert sorted(names, key=lambda name: places[name][1]) == names
    assert places["p1"][0] == places["last"][0] < places["outer"][0] < places["inner"][0]


def test_the_image_says_in_words_what_it_shows_and_needs_nothing_else() -> None:
    @hookable(name="shop:price")
    def price(qty: int) -> None: ...

    price.pre(note, priority="HIGH", when=lambda qty: qty > 1)
    image = hooks(price).diagram()
    root = ET.fromstring(image)
    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None and description is not None and description.text is not None
    assert root.get("role") == "img"
    assert root.get("aria-label") == title.text == "A call of shop:price, from the caller to the target and back"
    assert description.text.startswith("pre hook note, priority HIGH, when=<lambda>, ")
    assert "prefers-color-scheme: dark" in image
    assert re.findall(r"(?:https?:|url\(|href|@import)[^\"]*", image) == ["http://www.w3.org/2000/svg"]
    svg = getattr(image, "_repr_svg_")()  # what notebooks call
    assert svg == image and type(svg) is str


def test_of_many_hooks_the_first_and_the_last_are_drawn() -> None:
    @hookable
    def price() -> None: ...

    for turn in range(1000):
        price.pre(note, name=f"p{turn}", again=True)
        price.around(layer, name=f"a{turn}", again=True)
    texts = list(shown(price))
    assert [text for text in texts if re.fullmatch(r"p\d+", text)] == ["p0", "p1", "p2", "p3", "p997", "p998", "p999"]
    assert [text for text in texts if re.fullmatch(r"a\d+", text)] == ["a0", "a1", "a2", "a3", "a997", "a998", "a999"]
    assert "… 993 more" in texts


@pytest.mark.parametrize("name", ["<b>&\"'</text>", "a\nb", "a\0b\x1b", "\ud800", "x" * 500])
def test_no_name_breaks_the_image(name: str) -> None:
    price = hookable(lambda: 1, name=name)
    price.pre(note, name=name)
    price.around(layer, name=name)
    found = [text for text in shown(price) if text != "caller"]
    start = "".join([char if char.isprintable() else "?" for char in name])[:20]
    assert sum(text.startswith(start) for text in found) >= 1
    assert max(map(len, found)) <= 60
