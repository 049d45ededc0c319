"""Who answers what: one call of an event that notes the name of each subscriber beside its answer.

It runs the compiled chain, as any call does, with subscribers that note what they answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from types import FunctionType

from aspecthook._core.law.answers import Return
from aspecthook._core.law.hook import Hook
from aspecthook._core.mount.instance import InstanceMountPoint
from aspecthook._core.mount.lock import under_lock
from aspecthook._core.mount.point import MountPoint
from aspecthook._hints import Any, cast, final

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

# The names of subscribers, each with its answer. Any: subscribers answer what they like.
Answers = list[tuple[str, Any]]


def answers_of(mount: MountPoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Answers | Awaitable[Answers]:
    """Call an event and return who answered what, in the order of the subscribers; of an async event, an awaitable.

    The arguments are those of the function itself, ``self`` first: the hooks of that instance run too.

    Raises:
        Exception: What the event raises.
    """
    answers: Answers = []
    signature = mount.site().signature
    first = args[0] if args else kwargs.get(signature.names[0]) if signature.names else None
    of_instance = mount.instances.get(id(first))
    is_async = signature.style == "coroutine"
    call = _noting(of_instance if isinstance(of_instance, InstanceMountPoint) else mount, answers, is_async)
    result = call(*args, **kwargs)
    return _awaited(result, answers) if is_async else answers


async def _awaited(result: Awaitable[object], answers: Answers) -> Answers:
    await result
    return answers


@under_lock
def _noting(mount: MountPoint, answers: Answers, is_async: bool) -> Callable[..., Any]:
    """Compile the chain as it is now, with subscribers that note their answers."""
    chain, function = mount.chain(), cast("FunctionType", mount.function)
    subscribers = tuple([_Subscriber(hook, answers, is_async) for hook in chain.on])
    call = mount.separate(chain.replaced({"on": cast("tuple[Hook, ...]", subscribers)}))
    if call is not function:
        made = cast("FunctionType", call)
        made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return call


@final
class _Subscriber:
    """A hook whose function notes what it answers."""

    def __init__(self, hook: Hook, answers: Answers, is_async: bool) -> None:
        self._hook = hook

        # Any: what is passed, and the answer.
        def noted(answer: Any) -> Any:
            kind = cast("object", type(answer))
            if answer is not None:
                answers.append((hook.name, answer.value if kind is Return else answer))
            return answer

        async def later(answer: Awaitable[Any]) -> Any:
            return noted(await answer)

        def function(*args: Any, **kwargs: Any) -> Any:
            answer = hook.function(*args, **kwargs)
            return later(answer) if is_async and isawaitable(answer) else noted(answer)

        self.function = function

    # Any: the attributes of a hook.
    def __getattr__(self, name: str) -> Any:
        return getattr(self._hook, name)
