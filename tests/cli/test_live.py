"""What the command shows and writes takes little memory, however many calls a program makes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aspecthook.cli import _live, _report
from aspecthook.cli._live import LiveTree
from aspecthook.cli._report import View
from aspecthook.record import read, record
from aspecthook.record._reading import summary
from tests.record.test_page import data_of

HEADER = {"aspecthook": "calls", "version": 1, "process": 7}


def write(folder: Path, calls: list[tuple[int, int | None]], process: int = 7) -> None:
    """Write a recording of calls, each with its number and that of its parent, in the order in which they end."""
    entries: list[dict[str, object]] = [{**HEADER, "process": process}, {"function": 0, "name": "shop:price"}]
    entries += [
        {"call": number, "parent": parent, "of": 0, "begin": number, "duration": 1, "own": 1, "result": str(number)}
        for number, parent in calls
    ]
    name = "calls.jsonl" if process == 7 else f"calls.{process}.jsonl"
    (folder / name).write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def test_calls_are_below_their_parents_in_the_order_in_which_they_began(tmp_path: Path) -> None:
    write(tmp_path, [(4, 2), (3, 2), (5, 1), (2, 1), (1, None)])  # those of tasks end in any order
    lines = [*LiveTree(tmp_path).read(final=True)]
    assert [(line.depth, line.text.split()[2]) for line in lines] == [(0, "1"), (1, "2"), (2, "3"), (2, "4"), (1, "5")]


def test_calls_of_several_processes_are_below_the_number_of_each(tmp_path: Path) -> None:
    tree, shown = LiveTree(tmp_path), list[str]()
    steps = [([], 7), ([(1, None)], 9), ([(2, None)], 7), ([(2, None), (3, None)], 7), ([(1, None), (4, None)], 9)]
    for calls, process in steps:
        write(tmp_path, calls, process)
        shown += [line.text.partition("->")[2].split()[0] if "->" in line.text else line.text for line in tree.read()]
    assert shown == ["process 9", "1", "process 7", "2", "3", "process 9", "4"]


def test_a_call_waits_for_the_call_around_it_until_that_ends_or_the_program_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_live, "_PATIENCE", 1e9)
    tree = LiveTree(tmp_path)
    write(tmp_path, [(2, 1)])
    assert [*tree.read()] == []
    write(tmp_path, [(2, 1), (1, None), (4, 3)])
    assert [(line.depth, line.text.split()[2]) for line in tree.read()] == [(0, "1"), (1, "2")]
    assert [(line.depth, line.text.split()[2]) for line in tree.read(final=True)] == [(1, "4")]


def test_a_line_that_is_half_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    tree = LiveTree(tmp_path)
    write(tmp_path, [(1, None), (2, None)])
    whole = (tmp_path / "calls.jsonl").read_bytes()
    for end in range(len(whole)):
        (tmp_path / "calls.jsonl").write_bytes(whole[:end])
        for line in tree.read():
            assert line.text.split()[2] == "1"
    (tmp_path / "calls.jsonl").write_bytes(whole)
    assert [line.text.split()[2] for line in tree.read()] == ["2"]


@pytest.mark.parametrize("most", [0, 1, 2, 3, 4])
def test_as_many_lines_are_shown_as_were_asked_for(
    most: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    view = View(str(tmp_path), most)
    write(tmp_path, [(1, None)])
    view.look()
    write(tmp_path, [(1, None), (2, None), (3, None)])
    view.look(final=True)
    shown = capsys.readouterr().err.splitlines()
    assert sum("price" in line for line in shown) == min(most, 3)
    assert ("... the calls that follow are only counted" in shown) == (0 < most < 3)


def test_what_a_process_writes_does_not_control_the_terminal(tmp_path: Path) -> None:
    """One that belongs to somebody else may write anything where `aspecthook attach` reads."""
    evil = "\x1b[2J\x07\n"
    call = {"call": 1, "parent": None, "of": 0, "begin": 0, "duration": 1, "own": 1, "thread": "MainThread"}
    rows = [
        {**HEADER, "started": 0},
        {"function": 0, "name": evil},
        {**call, "arguments": {evil: evil}, "error": {"type": evil, "message": evil}},
    ]
    (tmp_path / "calls.jsonl").write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
    (line,) = LiveTree(tmp_path).read(final=True)
    table = summary(tmp_path)
    assert all(text.isprintable() for text in (line.text, *str(table).splitlines()))


def test_a_program_that_is_faster_than_the_reader_does_not_keep_it(tmp_path: Path) -> None:
    """What it had read was never shown, and stayed in memory, where the outermost call did not end."""
    write(tmp_path, [(number, None) for number in range(3)])
    path = tmp_path / "calls.jsonl"
    last = path.read_text().splitlines(keepends=True)[-1]
    tree = LiveTree(tmp_path)
    for place, _ in enumerate(tree.read()):
        assert place < 3
        path.write_text(path.read_text() + last)
    assert len([*tree.read()]) == 3


def test_a_page_has_the_calls_that_ended_last_and_says_how_many_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole recording was read into memory, and a page of a million calls opened in no browser."""

    def work(number: int) -> None: ...

    folder = tmp_path / "calls"
    folder.mkdir()
    with record(work, to=folder / "1.jsonl"):
        for number in range(10):
            work(number)
    monkeypatch.setattr(_report, "_MOST_ON_PAGE", 3)
    page, lines, slices = (tmp_path / name for name in ("calls.html", "calls.jsonl", "calls.json"))
    View(str(folder), 0).report(["shop:*"], [str(page), str(lines), str(slices)])
    err = capsys.readouterr().err
    assert f"written: {page}, the last 3 of 10 calls\nwritten: {lines}\nwritten: {slices}\n" in err
    assert '"left_out":7' in data_of(page) and data_of(page).count('"call":') == 3
    assert [call.shown_arguments()["number"] for call in read(lines)] == [str(number) for number in range(10)]
    assert slices.read_text().count('"ph":"X"') == 10
