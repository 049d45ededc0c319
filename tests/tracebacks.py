"""What pytest shows of a traceback."""

from __future__ import annotations

import traceback


def shown_frames(error: BaseException) -> list[str]:
    """Return the frames of ours that pytest shows in the traceback of an error: it leaves marked ones out."""
    return [
        f"{frame.f_code.co_filename}:{frame.f_code.co_qualname}"
        for frame, _ in traceback.walk_tb(error.__traceback__)
        if frame.f_globals["__name__"].startswith("aspecthook.") or frame.f_code.co_filename.startswith("<aspecthook")
        if not (frame.f_locals.get("__tracebackhide__") or frame.f_globals.get("__tracebackhide__"))
    ]
