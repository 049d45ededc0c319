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
from importlib import import_module, util
from os import path
from typing import Any


def arrive(folder: str, homes: dict[str, str]) -> None:
    """Serve the attaching side, until it leaves or the thread has to end.

    Args:
        folder: Where its socket is.
        homes: The packages that are loaded from the attaching side's own environment if this one has none.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are for the threads of the program
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path.join(folder, "socket"))
        try:
            _load(homes)
            attached: Any = import_module("aspecthook.cli._attached")
        except Exception as error:
            answer = {"error": f"it cannot load the package: {type(error).__name__}: {error}"}
            connection.sendall(json.dumps(answer).encode() + b"\n")
        else:
            attached.serve(connection, folder)
            return
    except OSError:  # the attaching side has given up, or is gone
        pass
    connection.close()


def _load(homes: dict[str, str]) -> None:
    for name, home in homes.items():
        if name not in sys.modules and util.find_spec(name) is None:
            file = path.join(home, "__init__.py")
            spec: Any = util.spec_from_file_location(name, file, submodule_search_locations=[home])
            module = sys.modules[name] = util.module_from_spec(spec)
            spec.loader.exec_module(module)
