"""What generated code may name besides its own variables: the one table of it.

In a template of source, ``$word`` is a key of `TABLE`, a fact of the mount point (`FACTS`), or else a variable of the
generated code. Objects of the first two are put in when the code is linked.
"""

from __future__ import annotations

from types import CoroutineType

from aspecthook._core.law import law, law_sync, runtime
from aspecthook._core.law.answers import Args, Return
from aspecthook._core.law.call import Call

# Builtins are in the table too: a module may have a function of its own called `type`.
TABLE: dict[str, object] = {
    one.__name__: one
    for one in (
        *(Args, Call, Return, id, isinstance, type),
        *(AttributeError, BaseException, Exception, GeneratorExit, StopAsyncIteration, StopIteration),
        # The rest of a chain after a hook of it has raised.
        *(law_sync.finish, law_sync.missed, law_sync.recover, law.afinish, law.agathered, law.arecover),
        # How answers are read.
        *(runtime.awaitable, runtime.proceed_with, runtime.returned, runtime.revise, runtime.settled, runtime.wrong),
        *(runtime.shown, runtime.shown_if_there, runtime.together, runtime.without),
        # How hooks with one `yield` and streams are driven.
        *(runtime.begin, runtime.end, runtime.ended, runtime.fail, runtime.failed),
        *(runtime.abegin, runtime.aend, runtime.afail, runtime.start),
        *(runtime.lazy, runtime.relay, runtime.stream, runtime.within),
        *(runtime.alazy, runtime.arelay, runtime.astream, runtime.awithin),
    )
}
TABLE |= {"ANSWERS": (Args, Return), "CoroutineType": CoroutineType}

# What a mount point brings along; the linker knows what each is.
FACTS = frozenset(
    {
        "always_hooks",
        "exception_hooks",
        "first",
        "inside",
        "instances",
        "moved",
        "on_hooks",
        "record",
        "site",
        "slot",
        "target",
    }
)
