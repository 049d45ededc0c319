"""The end of the program, and garbage collection."""

from __future__ import annotations

import pytest

from tests.events.programs import printed, run

pytestmark = pytest.mark.usefixtures("no_trace")


# The end of the program


def test_program_exit_runs_all_subscribers_and_logs_those_that_fail() -> None:
    program = """
import atexit
atexit.register(print, "registered before")
events.program_exit.always(lambda: print("always"))
events.program_exit.on(lambda: print("first"))
@events.program_exit.on
def failing(): raise ValueError("no goodbye")
events.program_exit.on(lambda: print("last"))
"""
    done = run(program)
    assert done.stdout.splitlines() == ["first", "last", "always", "registered before"] and done.returncode == 0
    assert "aspecthook.events:program_exit: on hook 'failing'" in done.stderr
    assert "ValueError: no goodbye" in done.stderr


@pytest.mark.parametrize(
    ("ending", "lines"),
    [
        ("", ["goodbye"]),
        ("hooks(events.program_exit).clear()", []),
        ("pause = hooks(events.program_exit).paused(); pause.__enter__()", []),
    ],
    ids=["there", "removed", "paused"],
)
def test_program_exit_without_removed_and_paused_subscribers(ending: str, lines: list[str]) -> None:
    program = f"""
def goodbye(): print("goodbye")
registered = []
import atexit
atexit.register, atexit.unregister = registered.append, registered.remove
events.program_exit.on(goodbye)
hooks(events.program_exit).remove(goodbye)
events.program_exit.on(goodbye)
{ending}
for one in registered: one()
"""
    assert printed(program) == lines
