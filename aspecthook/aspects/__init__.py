"""Ready-made aspects for `weave`: retries, caches, limits, timeouts, logs and spans.

Each function of this module returns an aspect, and ``weave(target, aspect=retry(attempts=3))`` puts it on functions,
methods, coroutines or generators. State, such as the entries of a cache, belongs to one mount point and is dropped with
the weaving (except the times of `timed`). Several aspects of one function nest: the one with the lowest ``priority``
or, among equals, the one woven first is outermost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aspecthook._lazy import load_lazily

if TYPE_CHECKING:
    from ._aspect import Aspect
    from ._cached import Cached, cached
    from ._limited import LimitError, limited
    from ._log import log
    from ._retry import retry
    from ._span import span
    from ._timed import Timings, timed
    from ._timeout import timeout

__all__ = [
    "Aspect",
    "Cached",
    "LimitError",
    "Timings",
    "cached",
    "limited",
    "log",
    "retry",
    "span",
    "timed",
    "timeout",
]


load_lazily(
    __name__,
    {
        "_aspect": "Aspect",
        "_cached": "Cached cached",
        "_limited": "LimitError limited",
        "_log": "log",
        "_retry": "retry",
        "_span": "span",
        "_timed": "Timings timed",
        "_timeout": "timeout",
    },
)
