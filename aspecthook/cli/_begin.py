"""What happens as a process of a program starts: hooks are woven, or calls are recorded, before its first line runs."""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from contextlib import suppress
from math import inf

from aspecthook._errors import WarningsTo, WeaveWarning, plural
from aspecthook._hints import Any

from ._definitions import end_main, watch_main
from ._names import of_main

# What has been woven is kept for as long as the process lives.
_kept: list[object] = []


def begin(text: str) -> None:
    """Do what the settings, in JSON, say. What fails ends the program that was named; its children go on without."""
    settings: dict[str, Any] = json.loads(text)
    named = os.getpid() == settings["process"] or (settings["spawned"] and os.getppid() == settings["process"])
    try:
        watch_main()
        _begin(settings, named=named)
        atexit.register(end_main)
    except Exception as error:
        words = [f"{error}", *getattr(error, "__notes__", ())]
        lead = "aspecthook" if named else f"aspecthook: process {os.getpid()} runs without hooks"
        print(f"{lead}: {'; '.join(words)}", file=sys.stderr, flush=True)
        if named:
            os._exit(2)  # nothing has run yet; an exception here would be a fatal error of the interpreter


def _begin(settings: dict[str, Any], *, named: bool) -> None:
    config: str | None = settings.get("config")
    before = sys.path.copy()
    sys.path.insert(0, settings["path"])  # what is named is looked for where the program looks later
    try:
        if settings.get("trace"):
            _record(dict(settings["trace"]), named=named)
        if config:
            from ._config import apply

            # The children of a program need not have what it has.
            with WarningsTo(None if named else lambda _, category: category is WeaveWarning):
                _kept.append(apply(config))
    finally:
        sys.path[:] = before
    if settings.get("list"):
        atexit.register(_list, settings["process"])


def _record(options: dict[str, Any], *, named: bool) -> None:
    """Record calls until the process ends; also those of functions that other exit handlers call."""
    from aspecthook.record import record
    from aspecthook.record._json_lines import JsonLines

    from ._tracebacks import before, hide_frames

    # The number of a process is not enough: one that replaces itself keeps it.
    path = os.path.join(options.pop("to"), f"{time.time_ns()}-{os.getpid()}.jsonl")
    try:
        with noted(path, named=named):
            sink = JsonLines(path, time.time(), options.pop("last"), options.pop("whole") or inf)
            tape = record(*map(of_main, options.pop("targets")), to=sink, **options)
    except BaseException:
        if os.path.exists(path):
            os.unlink(path)
        raise
    # A recorded call takes two frames, and three if it is of an `lru_cache`; what records it takes some more.
    sys.setrecursionlimit(3 * sys.getrecursionlimit() + 100)
    atexit.register(tape.stop)
    _kept.extend((tape, hide_frames()))
    # A process that ends so, as those of `multiprocessing` do, or replaces itself runs no exit handlers.
    write_rest = tape._recorder.write_rest
    before("_exit", lambda: write_rest(ended=True))
    for name in ("execv", "execve"):
        before(name, lambda: write_rest(ended=False))


def noted(path: str, *, named: bool = True) -> WarningsTo:
    """Write our warnings down, which the command says at the end and the program must not see: they may be errors."""

    def note(message: str, category: type[Warning]) -> bool:
        taken = category.__module__.startswith("aspecthook")
        # What a child runs as `__main__` is another program, or the same one, of which its parent says what is missing.
        if taken and (named or "main__" not in message):
            # The disk may be full, or the command gone.
            with suppress(OSError), open(f"{path}.notes", "a", encoding="utf-8", errors="backslashreplace") as file:
                print(message, file=file)
        return taken

    return WarningsTo(note)


def _list(named: int) -> None:
    """Print the mount points, and which process this is unless it is the one that was named."""
    from aspecthook._core.mount.everything import mount_points
    from aspecthook._core.mount.point import mount_of

    lines = [] if os.getpid() == named else [f"process {os.getpid()}: {' '.join(sys.orig_argv)}"]
    points = [(point, point.ref()) for point in mount_points()]
    found = [f"{point}" for point, made in points if len(point) or (made is not None and mount_of(made) is point)]
    if found or not lines:
        print("\n".join([*lines, *found, plural(len(found), "mount point")]), file=sys.stderr, flush=True)
