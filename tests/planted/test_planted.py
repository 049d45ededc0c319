"""The list of planted bugs fits the sources as they are today; `python -m tests.planted` runs the bugs themselves."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from .bugs import AREAS, BUGS, Bug

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_applies_once_and_compiles(bug: Bug) -> None:
    source = (ROOT / "aspecthook" / bug.file).read_text()
    assert source.count(bug.old) == 1
    patched = source.replace(bug.old, bug.new)
    assert patched != source
    compile(patched, bug.file, "exec", dont_inherit=True)


def test_the_names_of_planted_bugs_are_unique() -> None:
    assert [name for name, count in Counter(bug.name for bug in BUGS).items() if count > 1] == []


def test_no_two_planted_bugs_are_one_patch() -> None:
    assert len({(bug.file, bug.old, bug.new) for bug in BUGS}) == len(BUGS)


def test_the_areas_of_planted_bugs_are_known_and_none_is_empty() -> None:
    assert {bug.area for bug in BUGS} == {*AREAS}


def test_the_likely_tests_of_planted_bugs_are_there() -> None:
    assert [path for bug in BUGS for path in bug.tests if not (ROOT / path).exists()] == []


def test_there_are_many_planted_bugs() -> None:
    assert len(BUGS) >= 80
