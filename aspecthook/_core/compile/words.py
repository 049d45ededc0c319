"""The names that generated code may use besides its own variables, in one table.

In a template of source, ``$word`` is a key of `TABLE`, a fact of the mount point (`FACTS`), or else a variable of the
generated code. The objects of the first two are put in when the code is linked.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import CoroutineType
from weakref import getweakrefcount

from aspecthook._core.law import answers, invoke, rest, streams
from aspecthook._core.law.answers import Args, Return
from aspecthook._core.law.call import Call

# Builtins are in the table too: a module may have a function of its own called `type`.
TABLE: Mapping[str, object] = {
    one.__name__: one
    for one in (
        *(Args, Call, Return, getweakrefcount, id, isinstance, len, next, partial, type),
        *(AttributeError, BaseException, Exception, GeneratorExit, StopAsyncIteration, StopIteration, TypeError),
        # The arguments of hooks, and how their answers are read.
        *(invoke.awaitable, invoke.shown, invoke.shown_if_there, invoke.without),
        *(answers.revise, answers.settled, answers.unnamed_values, answers.wrong),
        # Hooks with one `yield`, and streams.
        *(streams.ended, streams.failed, streams.never_yielded),
        *(streams.abegin, streams.aended, streams.afailed, streams.start),
        *(streams.lazy, streams.relay, streams.stream, streams.within),
        *(streams.arelay, streams.astream),
        # The rest of a chain after one of its hooks has raised.
        *(rest.finish, rest.recover, rest.afinish, rest.arecover),
    )
} | {
    "ANSWERS": frozenset({Args, Return}),
    "CoroutineType": CoroutineType,
    "ENDED": streams.ENDED,
}

# What belongs to one mount point, or to one link; the linker has the objects.
FACTS = frozenset(
    {
        "always_hooks",
        "exception_hooks",
        "first",
        "inside",
        "instances",
        "moved",
        "on_hooks",
        "site",
        "slot",
        "target",
    }
)
