"""Recording the calls of a program with their arguments and outcomes, as a tree, a table or files.

For maintainers: `_hooks` note begins, turns and ends; `_recorder` makes `_calls` of the notes, and keeps them or passes
them on to a sink. `_tape` is what users see; `_functions` and `_saving` show it in other ways.
`_json_lines` is the format on disk, which `_reading` reads.
"""

from __future__ import annotations

from aspecthook._hints import TYPE_CHECKING
from aspecthook._lazy import load_lazily

if TYPE_CHECKING:
    from ._calls import RecordedCall, RecordedError
    from ._reading import RecordingError, read
    from ._tape import Sink, Tape, record

__all__ = ["RecordedCall", "RecordedError", "RecordingError", "Sink", "Tape", "read", "record"]

load_lazily(
    __name__,
    {
        "_calls": "RecordedCall RecordedError",
        "_reading": "RecordingError read",
        "_tape": "Sink Tape record",
    },
)
