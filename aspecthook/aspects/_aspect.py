"""What the ready-made aspects have in common: the object that is woven, and how settings are read.

The invariant: a setting that cannot work is refused when the aspect is made, in one line. Settings are plain data where
they can be, so that a TOML file can name them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pkgutil import resolve_name
from types import FrameType, FunctionType
from typing import Any, TypeAlias, cast

from aspecthook._core.law.call import Site
from aspecthook._core.law.hook import Maker
from aspecthook._core.law.invoke import awaitable
from aspecthook._core.law.signature import ASYNC_GENERATOR, COROUTINE, ITERABLE_COROUTINE
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import HookOptionError, HookTypeError, brief, is_inner_frame, nearest
from aspecthook._lazy import NamesTheLibrary

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

Types: TypeAlias = "type[BaseException] | str | tuple[type[BaseException] | str, ...] | list[str]"
# The flags of code that can await: an event loop's own cannot.
_AWAITING = COROUTINE | ITERABLE_COROUTINE | ASYNC_GENERATOR

# Any: a hook asks for what it needs by name.
AnyHook: TypeAlias = Callable[..., Any]


class Aspect(Maker):
    """An around hook with separate state for each mount point.

    Put it on code that is not yours with ``weave(target, aspect=...)``, or add it to a hookable function like any other
    around hook. Its name, for ``before=`` and ``after=``, is that of the function that returned it.

    Example:
        >>> from aspecthook import hookable, hooks
        >>> from aspecthook.aspects import retry
        >>> @hookable
        ... def fetch(url):
        ...     return f"<{url}>"
        >>> hook = fetch.around(retry(attempts=5), priority="LOW")
        >>> [hook.name for hook in hooks(fetch).around]
        ['retry']
    """

    def __init__(self, name: str, make: Callable[[Site], AnyHook], /, **settings: object) -> None:
        super().__init__(make)
        self.__name__ = name
        self._make = make
        self._settings = settings

    def make(self, mount: MountPoint, who: object) -> AnyHook:  # noqa: ARG002  # a refusal names the mount point
        """Return the hook for one mount point."""
        return self.dress(cast("FunctionType", self._make(mount.site())))

    def __repr__(self) -> str:
        given = [f"{name}={brief(value)}" for name, value in self._settings.items() if value is not None]
        return f"{self.__name__}({', '.join(given)})"


def is_async(site: Site) -> bool:
    """Whether what is woven is async."""
    return site.signature.style in ("coroutine", "async generator")


def is_generator(site: Site) -> bool:
    """Whether what is woven is a generator, sync or async."""
    return "generator" in site.signature.style


def refused(name: str, site: Site, why: str) -> HookTypeError:
    """Return the error for an aspect that could never work on a target."""
    return HookTypeError(f"{site.label}: {name} cannot be woven on this {site.signature.style}: {why}")


# Any: each library has names of its own.
def needed(library: str, name: str) -> Any:
    """Return a library that an aspect needs.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    with NamesTheLibrary(f"aspecthook.aspects.{name}"):
        return import_module(library)


# Settings.


def number(name: str, setting: str, value: object, *, zero: bool = False, whole: bool = False) -> float:
    """Return a setting that is a number above zero, or zero where that makes sense; a whole one if need be."""
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        raise HookTypeError(f"{name}: {setting}={brief(value)}; give a {'whole ' if whole else ''}number")
    if not (value > 0 or (zero and value == 0)):
        raise HookOptionError(f"{name}: {setting}={brief(value)}; give a number {'from 0 up' if zero else 'above 0'}")
    return value


def named(name: str, setting: str, value: object) -> Any:
    """Return what a setting such as ``"requests:ConnectionError"`` names; other values as they are."""
    if not isinstance(value, str):
        return value
    path = value if ":" in value else f"builtins:{value}"
    try:
        return resolve_name(path)
    except (ImportError, AttributeError, ValueError) as error:
        near = nearest(error.name, dir(error.obj), 0.7) if isinstance(error, AttributeError) and error.name else ""
        advice = near or "; write it as 'module:Name'"
        raise HookOptionError(f"{name}: {setting}={brief(value)} cannot be found ({error}){advice}") from error


def exceptions(name: str, setting: str, value: object) -> tuple[type[BaseException], ...]:
    """Return a setting that is an exception type, its name, or several of them."""
    given = cast("tuple[object, ...]", value if isinstance(value, (tuple, list)) else (value,))
    found = tuple([named(name, setting, one) for one in given])
    unfit: list[object] = [one for one in found if not (isinstance(one, type) and issubclass(one, BaseException))]
    if unfit or not found:
        raise HookTypeError(
            f"{name}: {setting}={brief(unfit[0] if unfit else given)}; give exception types such as ConnectionError, "
            f"or their names as 'module:Name'"
        )
    return found


# Waiting.


async def wait_by(sleep: Callable[[float], Any], seconds: float) -> None:
    """Wait in an async function by a function that is sync or async."""
    answer = sleep(seconds)
    if awaitable(answer):
        await answer


# The caller.


def caller(site: Site) -> tuple[str, int, str]:
    """Return the file, the line and the function of the program that call the woven function.

    If only a thread or an event loop does, they are those of the woven function.
    """
    frame: FrameType | None = sys._getframe(1)
    # Between them may be a library by which another aspect makes the call, or what begins a thread.
    while frame is not None and (
        is_inner_frame(frame) or str(frame.f_globals.get("__name__")).partition(".")[0] in ("tenacity", "threading")
    ):
        frame = frame.f_back
    if frame is None or (is_async(site) and not frame.f_code.co_flags & _AWAITING):
        file, line = site.definition() or (site.model.co_filename, site.model.co_firstlineno)
        return file, line, site.model.co_name
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
