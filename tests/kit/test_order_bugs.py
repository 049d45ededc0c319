"""The example of three systems with order bugs: the kit finds each, and nothing in the repaired systems."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from aspecthook.testing import underconstrained

ROOT = Path(__file__).parents[2]

for _needed in ("httpx", "numpy", "starlette"):
    pytest.importorskip(_needed)


@pytest.fixture
def example(monkeypatch):
    found = importlib.util.spec_from_file_location("order_bugs", ROOT / "examples" / "order_bugs.py")
    module = importlib.util.module_from_spec(found)
    monkeypatch.setitem(sys.modules, "order_bugs", module)
    found.loader.exec_module(module)
    return module


def test_underconstrained_finds_the_conflicts_that_the_arguments_bring_out(example):
    def pairs(rows):
        found = underconstrained(machine.target, args=(rows,))
        return [(one.first, one.second) for one in found]

    machine = example.Cleaning()
    for step in (example.drop_empty, example.strip, example.drop_duplicates, example.lower):
        machine.target.post(step)
    ends = [("drop_empty", "strip"), ("drop_duplicates", "lower")]
    assert pairs(example.ROWS) == ends  # no two of its rows differ in blanks alone
    assert pairs([*example.ROWS, "Bob "]) == [ends[0], ("strip", "drop_duplicates"), ends[1]]


def test_the_order_bugs_are_found_by_the_shortest_stories(example, capsys):
    example.main()
    out = capsys.readouterr().out
    for law, story in [
        (
            "no_row_is_empty",
            ["state.add('post drop_empty')", "state.add('post strip')", f"state.call(({example.ROWS},))"],
        ),
        (
            "bob_does_not_see_anns_orders",
            ["state.add('pre Cache')", "state.add('pre Auth')", "state.call((['ann', 'bob'],))"],
        ),
        (
            "scaling_the_loss_changes_no_weight",
            ["state.add('pre Decay')", "state.add('pre LossScale')", "state.call(())"],
        ),
    ]:
        lines = "".join(f"    {line}\n" for line in story)
        assert f"breaks the law '{law}': it answered False" in out
        assert lines + "    state.teardown()" in out
    assert out.count("Repaired: the law holds") == 3
