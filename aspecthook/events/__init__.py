"""The interpreter's own events, as mount points: they are connected for as long as somebody listens.

The invariant: with its first acting subscriber an event is connected to the interpreter, with the last it is
disconnected, and what was there before is there again, by identity. The dispatcher of audit events alone cannot be
taken out; while nobody listens it costs an empty call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aspecthook._lazy import lazy

if TYPE_CHECKING:
    from ._audits import audit, file_opening, module_importing, socket_connecting, subprocess_starting
    from ._process import garbage_collecting, program_exit
    from ._signals import signal
    from ._uncaught import uncaught_exception

__all__ = [
    "audit",
    "file_opening",
    "garbage_collecting",
    "module_importing",
    "program_exit",
    "signal",
    "socket_connecting",
    "subprocess_starting",
    "uncaught_exception",
]

__getattr__ = lazy(
    __name__,
    {
        **dict.fromkeys(
            ("audit", "file_opening", "module_importing", "socket_connecting", "subprocess_starting"), "_audits"
        ),
        **dict.fromkeys(("garbage_collecting", "program_exit"), "_process"),
        "signal": "_signals",
        "uncaught_exception": "_uncaught",
    },
)
