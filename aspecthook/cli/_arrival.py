"""What is sent to a running process, as source: it loads the package, which does what is asked for.

It runs in a thread of its own. The main thread may have stopped anywhere: in the middle of an import, or with a lock
held, and to import something there could get a half-made module or wait for ever. The main thread does nothing but
start that thread.

The invariant: it prints nothing, and it does nothing if nobody waits for it any more, or when it is sent once more.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module, util
from os import path
from typing import Any


def arrive(place: str, homes: dict[str, str], request: dict[str, Any]) -> None:
    """Do what is asked for, and write the answer.

    Args:
        place: The path of the answer, without its suffix.
        homes: The packages that are loaded from the attaching side's own environment if this one has none.
        request: What is asked for.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are for the threads of the program
    try:
        os.close(os.open(f"{place}.begun", os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        return
    try:
        _load(homes)
        answer = import_module("aspecthook.cli._attached").serve(path.dirname(place), request)
    except Exception as error:
        answer = {"error": f"it cannot load the package: {type(error).__name__}: {error}"}
    write(f"{place}.json", answer)


def write(file: str, answer: dict[str, Any]) -> None:
    """Write a file, which is there as a whole or not at all, if there still is somebody to read it."""
    with suppress(OSError):
        with open(f"{file}.tmp", "w", encoding="utf-8") as part:
            json.dump(answer, part)
        os.rename(f"{file}.tmp", file)


def _load(homes: dict[str, str]) -> None:
    for name, home in homes.items():
        if name not in sys.modules and util.find_spec(name) is None:
            file = path.join(home, "__init__.py")
            spec: Any = util.spec_from_file_location(name, file, submodule_search_locations=[home])
            module = sys.modules[name] = util.module_from_spec(spec)
            spec.loader.exec_module(module)
