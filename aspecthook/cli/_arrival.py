"""What is sent to a running process, as source: it connects to the attaching side, and loads the package.

It runs in a thread of its own. The main thread may have stopped anywhere: in the middle of an import, or with a lock
held, and to import something there could get a half-made module or wait for ever. The main thread does nothing but
start that thread.

The invariant: it prints nothing, and it does nothing if nobody waits for it any more.
"""

from __future__ import annotations

import json
import signal
import socket
import sys
from importlib import import_module, machinery, util
from os import path
from types import ModuleType
from typing import Any, final


def arrive(folder: str, homes: dict[str, str]) -> None:
    """Serve the attaching side, until it leaves or the thread has to end.

    Args:
        folder: Where its socket is.
        homes: The packages that are loaded from the attaching side's own environment if this one has none; without any,
            nothing is loaded.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are for the threads of the program
    connection = socket.socket(socket.AF_UNIX)
    answer: dict[str, Any] = {"detached": 0}
    try:
        connection.connect(path.join(folder, "socket"))
        try:
            attached: Any = _load(homes)
        except Exception as error:
            attached, answer = None, {"error": f"it cannot load the package: {type(error).__name__}: {error}"}
        if attached is not None:
            attached.serve(connection, folder)
            return
        connection.sendall(json.dumps(answer).encode() + b"\n")
    except OSError:  # the attaching side has given up, or is gone
        pass
    connection.close()


def _load(homes: dict[str, str]) -> ModuleType | None:
    if homes:
        missing = {name: homes[name] for name in homes if name not in sys.modules and util.find_spec(name) is None}
        lent = _Lent(missing)
        sys.meta_path.append(lent)
        try:
            for name in (*missing, "aspecthook.cli._attached"):
                import_module(name)
        finally:
            sys.meta_path.remove(lent)
    return sys.modules.get("aspecthook.cli._attached")


@final
class _Lent:
    """The last finder: finds packages of the attaching side."""

    def __init__(self, homes: dict[str, str]) -> None:
        self._homes = homes

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> machinery.ModuleSpec | None:
        home = self._homes.get(name)
        if home is None:
            return None
        return util.spec_from_file_location(name, path.join(home, "__init__.py"), submodule_search_locations=[home])
