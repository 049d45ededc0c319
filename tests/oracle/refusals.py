"""What every mount point must refuse, with the error that is documented, and what it then leaves as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from aspecthook._core.law.answers import Args
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.kinds import Kind, kinds_of
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import AspecthookError, HookOptionError, HookOrderError, HookSignatureError, HookTypeError

# An argument that no target has.
NOBODYS = "an_argument_of_nobody"


class Wrong(NamedTuple):
    """A hook that is to be refused: why, its kind, what is added, with which options, and the error."""

    why: str
    kind: Kind
    function: Any
    options: dict[str, Any]
    error: type[AspecthookError]


def _wrong_hooks(mount: MountPoint) -> Iterator[Wrong]:
    """Yield hooks of each kind that a mount point must refuse."""
    signature = mount.site().signature
    for kind in kinds_of(signature):
        fits = watching if kind == "around" else nothing
        asks = asking_around if kind == "around" else asking
        yield Wrong("must run before itself", kind, fits, {"before": fits}, HookOrderError)
        yield Wrong("asks for what nobody offers", kind, asks, {}, HookSignatureError)
        yield Wrong("has a `when` that asks for what nobody offers", kind, fits, {"when": asks}, HookSignatureError)
        yield Wrong("has two positional-only parameters", kind, two_unnamed, {}, HookSignatureError)
        yield Wrong("has a priority above 100", kind, fits, {"priority": 101}, HookOptionError)
        yield Wrong("has a priority below 0", kind, fits, {"priority": -1}, HookOptionError)
        yield Wrong("runs no times", kind, fits, {"times": 0}, HookOptionError)
        yield Wrong("runs once and twice", kind, fits, {"once": True, "times": 2}, HookOptionError)
        yield Wrong("has an option that there is not", kind, fits, {NOBODYS: 1}, HookTypeError)
        yield Wrong("is not callable", kind, 5, {}, HookTypeError)
        if kind == "around":
            yield Wrong("neither proceeds nor yields", kind, nothing, {}, HookTypeError)
            yield Wrong("is isolated", kind, fits, {"isolate": True}, HookOptionError)
            if "proceed" not in signature.index:
                options = {"when": proceeding}
                yield Wrong("has a `when` that asks for `proceed`", kind, fits, options, HookSignatureError)
        else:
            yield Wrong("is a generator", kind, watching, {}, HookTypeError)
        if signature.style in ("function", "generator"):
            yield Wrong("is async on what is not", kind, later_around if kind == "around" else later, {}, HookTypeError)


def not_refused(mount: MountPoint) -> Iterator[tuple[Wrong, object]]:
    """Try to add what must be refused; yield what was not, or with another error, and remove it again."""
    for wrong in _wrong_hooks(mount):
        try:
            hook: Hook = mount.add(wrong.kind, wrong.function, **wrong.options)
        except wrong.error:
            continue
        except AspecthookError as error:
            yield wrong, error
        else:
            hook.remove()
            yield wrong, None


def nothing() -> None:
    """Do nothing."""


def asking(an_argument_of_nobody: object) -> None:
    """Ask for what no target has."""


def asking_around(proceed: object, an_argument_of_nobody: object) -> None:
    """Ask for `proceed` too."""


def two_unnamed(one: object, two: object, /) -> None:
    """Ask for two things without a name."""


def proceeding(proceed: object) -> None:
    """Ask for `proceed` alone."""


def watching() -> Any:
    """Yield once, as an around hook may."""
    yield


async def later() -> None:
    """Do nothing, asynchronously."""


async def later_around(proceed: Callable[..., Any]) -> object:
    """Proceed, and await the result."""
    return Args(of=await proceed())
