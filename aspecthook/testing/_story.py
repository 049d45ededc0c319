"""A failure of a machine, written as a test function that repeats it."""

from __future__ import annotations

from collections.abc import Iterable
from types import FrameType, TracebackType
from typing import Any

from aspecthook._errors import is_ours

_RUNNERS = {"hypothesis", "unittest", "contextlib", "_pytest"}


def test_function(machine: type[Any], name: str, lines: Iterable[str]) -> str:
    """Write a test function of these lines, in which ``state`` is the machine."""
    if "<locals>" in machine.__qualname__:
        found = f"# {machine.__name__} is made in {machine.__qualname__.partition('.')[0]} of {machine.__module__}."
    else:
        found = f"from {machine.__module__} import {machine.__qualname__.partition('.')[0]}"
    suffix = "".join([char if char.isalnum() else "_" for char in name]).strip("_") or "story"
    made = machine.__name__ if "<locals>" in machine.__qualname__ else machine.__qualname__
    body = [f"state = {made}()", *(line for several in lines for line in several.splitlines()), "state.teardown()"]
    return "\n".join([found, "", "", f"def test_{suffix}():", *(f"    {line}" for line in body)])


def with_story(error: BaseException, machine: type[Any], lines: Iterable[str]) -> BaseException:
    """Add the test function that repeats a failure to an error, in place of the steps that Hypothesis prints."""
    text = test_function(machine, getattr(error, "law", "") or "story", lines)
    notes = [note for note in getattr(error, "__notes__", ()) if not _is_step(note)]
    error.__notes__ = [f"To see it again:\n\n{text}\n", *notes]
    return error.with_traceback(_of_users(error.__traceback__))


def _is_step(note: str) -> bool:
    return note.startswith(("state.", "state = ", "Falsifying example"))


def _of_users(traceback: TracebackType | None) -> TracebackType | None:
    """Leave out the frames that come before the first of the user's own."""
    while traceback is not None and _is_internal(traceback.tb_frame):
        traceback = traceback.tb_next
    return traceback


def _is_internal(frame: FrameType) -> bool:
    return is_ours(frame) or str(frame.f_globals.get("__name__")).partition(".")[0] in _RUNNERS
