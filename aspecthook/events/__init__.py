"""The interpreter's own events, as mount points that are connected while they have subscribers.

The invariant: the first acting subscriber connects an event to the interpreter and the last one disconnects it; then
what was there before is there again, by identity. Only the dispatcher of audit events cannot be removed; without
subscribers it costs an empty call.

For maintainers: `_event` makes events of any kind. `_wired` has the mount point of an interpreter event. A `Slot` of
`_slots` connects it to a place that holds one callable (signals, uncaught exceptions), a `Plug` to a list of callables
(the end of the program, audit events).
"""

from __future__ import annotations

# At once: `threading` keeps the `sys.excepthook` that it finds, and cannot be imported if somebody has deleted it.
import threading  # noqa: F401  # pyright: ignore[reportUnusedImport]
from typing import TYPE_CHECKING

from aspecthook._lazy import load_lazily

if TYPE_CHECKING:
    from ._audits import audit
    from ._endings import program_exit, uncaught_exception
    from ._signals import signal

__all__ = [
    "audit",
    "program_exit",
    "signal",
    "uncaught_exception",
]

load_lazily(
    __name__,
    {
        "_audits": "audit",
        "_endings": "program_exit uncaught_exception",
        "_signals": "signal",
    },
)
