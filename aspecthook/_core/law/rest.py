"""The rest of a chain, by interpretation: what the exception and always hooks still do after one of them has raised.

Compiled calls come here only for that, which is rare. Each function is here twice, for sync and for async functions:
driving the async one with ``send(None)`` would not do, as a hook's StopIteration would leave it as a RuntimeError
(PEP 479). A whole call in the same words is in `tests/oracle/law.py`, which compiled calls are compared with.

Names are deleted in `finally` blocks for this reason: a frame is in the traceback of the exceptions that pass through
it. If it refers to such an exception too, the two keep each other alive until the next garbage collection.
"""

from __future__ import annotations

from aspecthook._hints import Any

from .call import Call
from .guard import Entry
from .hook import Hook
from .invoke import Hooks, awaitable, checked, invoke, is_due

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


def recover(hooks: Hooks, call: Call, exc: BaseException) -> Any:
    """Run exception hooks on `exc` while it is being handled: return the value of the one that handles it, or raise it.

    An exception that a hook raises takes the place of `exc` for the hooks after it.
    """
    call._exc = exc
    try:
        for place, hook in enumerate(hooks):
            if isinstance(exc, hook.types):
                try:
                    answer = ask(hook, call)
                except BaseException as new:
                    return recover(hooks[place + 1 :], call, new)
                if answer is not None:
                    return answer.value
        raise exc
    finally:
        call._exc = None
        del exc, call


def finish(hooks: Hooks, call: Call, error: BaseException | None = None) -> None:
    """Run always hooks, each as if in a `finally` block of its own: the others run even if one raises.

    Args:
        hooks: The hooks that have not run yet.
        call: The call.
        error: The exception of an always hook before these.
    """
    if error is not None:
        call._exc, call._result = error, None
    try:
        for place, hook in enumerate(hooks):
            try:
                ask(hook, call)
            except BaseException as new:
                finish(hooks[place + 1 :], call, new)
                raise
    finally:
        call._exc = None
        del error, call


async def arecover(hooks: Hooks, call: Call, exc: BaseException) -> Any:
    """Run exception hooks, which may be async, as `recover` does."""
    call._exc = exc
    try:
        for place, hook in enumerate(hooks):
            if isinstance(exc, hook.types):
                try:
                    answer = await aask(hook, call)
                except BaseException as new:
                    return await arecover(hooks[place + 1 :], call, new)
                if answer is not None:
                    return answer.value
        raise exc
    finally:
        call._exc = None
        del exc, call


async def afinish(hooks: Hooks, call: Call, error: BaseException | None = None) -> None:
    """Run always hooks, which may be async, as `finish` does."""
    if error is not None:
        call._exc, call._result = error, None
    try:
        for place, hook in enumerate(hooks):
            try:
                await aask(hook, call)
            except BaseException as new:
                await afinish(hooks[place + 1 :], call, new)
                raise
    finally:
        call._exc = None
        del error, call


# One hook.


def ask(hook: Hook, call: Call) -> Any:
    """Return the answer of one hook: None if its conditions do not hold."""
    try:
        if not is_due(hook, call, call._values) or not (entry := hook.admit()):
            return None
        try:
            return checked(hook, call, invoke(hook, call, call._values))
        finally:
            leave(entry)
    except Exception as error:
        if not hook.isolate:
            raise
        return hook.failed(error)


async def aask(hook: Hook, call: Call) -> Any:
    """Return the answer of one hook, which may be async, as `ask` does."""
    try:
        due = is_due(hook, call, call._values)
        if not (await due if awaitable(due) else due) or not (entry := hook.admit()):
            return None
        try:
            answer = invoke(hook, call, call._values)
            return checked(hook, call, await answer if awaitable(answer) else answer)
        finally:
            leave(entry)
    except Exception as error:
        if not hook.isolate:
            raise
        return hook.failed(error)


def leave(entry: Entry | bool) -> None:
    """Record the end of a run of a hook with ``reentrant=False``; of other hooks there is none to record."""
    if isinstance(entry, Entry):
        entry.leave()
