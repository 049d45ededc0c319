"""The tables of planted bugs fit the sources as they are today; `python -m tests.planted` runs the bugs themselves."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from .matrix import covering, report
from .table import BUGS, ROOT, Bug, planted, read

TABLE = """
[shop] tests/shop

[prices] tests/shop/test_prices.py tests/taxes

shop/_prices.py: a discount is added
- total -= discount
+ total += discount

shop/_prices.py: the tax is left out
- total *= tax
-
- total += 1
"""

SHOP = "tests/shop/test_prices.py"


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_applies_once_and_compiles(bug: Bug) -> None:
    source = (ROOT / "aspecthook" / bug.file).read_text()
    patched = planted(bug, source)
    assert patched != source
    compile(patched, bug.file, "exec", dont_inherit=True)


def test_the_names_of_planted_bugs_are_unique() -> None:
    assert [name for name, count in Counter(bug.name for bug in BUGS).items() if count > 1] == []


def test_no_two_planted_bugs_are_one_patch() -> None:
    assert len({(bug.file, bug.old, bug.new) for bug in BUGS}) == len(BUGS)


def test_the_tests_of_planted_bugs_are_there() -> None:
    assert [path for bug in BUGS for path in bug.tests if not (ROOT / path).exists()] == []


def test_the_covering_set_finds_every_bug_that_is_found() -> None:
    finders = {"one": ["a"], "two": ["a", "b"], "three": ["b", "c"], "four": ["c"], "five": []}
    assert covering(finders) == [("a", 2), ("c", 2)]


def test_a_test_that_fails_without_a_bug_finds_nothing() -> None:
    lines: list[dict[str, Any]] = [
        {"bug": None, "ran": [f"{SHOP}::a", f"{SHOP}::b[1]", f"{SHOP}::b[2]", f"{SHOP}::c"], "failed": [f"{SHOP}::c"]},
        {"bug": "a-discount-is-added", "ran": 4, "failed": [f"{SHOP}::b[2]", f"{SHOP}::c"]},
        {"bug": "the-tax-is-left-out", "ran": 4, "failed": [f"{SHOP}::c"]},
    ]
    said = report(lines, read(TABLE))
    assert "shop: 1 of 2" in said
    assert "bugs that no test finds: 1\nthe-tax-is-left-out\n" in said
    assert f"tests that find nothing, of 3: 2\n{SHOP}::a\n{SHOP}::c\n" in said
    assert f"only finder of a bug: 1\n{SHOP}::b  (a-discount-is-added)\n" in said
