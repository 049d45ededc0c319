"""The errors of aspecthook: one root, and leaves that are also the nearest builtin.

A message says, in this order: which mount point, which hook (its name and where it is written), what happened, and
what to do.
"""

from __future__ import annotations

from collections.abc import Callable


class AspecthookError(Exception):
    """The root of every error that aspecthook itself raises.

    Example:
        >>> issubclass(HookAnswerError, AspecthookError) and issubclass(HookAnswerError, TypeError)
        True
    """


class HookAnswerError(AspecthookError, TypeError):
    """A hook answered something that its kind may not answer."""


class HookOrderError(AspecthookError, ValueError):
    """The ``before`` and ``after`` of some hooks contradict each other; the message spells the cycle out."""


class HookSignatureError(AspecthookError, TypeError):
    """A hook asks for something that its mount point does not offer."""


class HookTypeError(AspecthookError, TypeError):
    """What was offered as a hook, or as one of its options, is not of a usable type."""


class HookOptionError(AspecthookError, ValueError):
    """An option of a hook has a value that it cannot have."""


class HookLookupError(AspecthookError, LookupError):
    """No hook, or no mount point, is where one was looked for."""


class MountError(AspecthookError, TypeError):
    """Something that cannot be made a mount point; the message says why and what to mount instead."""


class WeaveError(AspecthookError, ValueError):
    """Something that cannot be woven, or is not there; the message says why and what to weave instead."""


class ConfigError(AspecthookError, ValueError):
    """A config that cannot be built, or a name that is taken; the message says which and what to write instead."""


class PluginError(AspecthookError, ValueError):
    """A plugin that does not fit the specification, or whose name is taken; the message says what to change."""


class WeaveWarning(RuntimeWarning):
    """A waiting weaving could not be done as its module was imported; its ``check()`` raises the error."""


for _error in (AspecthookError, *AspecthookError.__subclasses__(), WeaveWarning):
    # A traceback names what users import and catch, not the file in which it happens to be written.
    _error.__module__ = "aspecthook"


def brief(value: object, most: int = 80) -> str:
    """Show something in a message, whatever its `repr` does."""
    try:
        text = repr(value)
    except Exception:  # it is not what went wrong
        text = object.__repr__(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


_close_matches: Callable[..., list[str]] | None = None


def nearest(word: str, words: list[str]) -> str:
    """Say which of ``words`` the misspelt ``word`` was probably meant to be, as the end of a message."""
    global _close_matches  # noqa: PLW0603  # loaded by the first message, once
    if _close_matches is None:
        from difflib import get_close_matches

        _close_matches = get_close_matches
    found = _close_matches(word, words, n=1, cutoff=0.5)
    if not found and len(word) > 1:
        found = [w for w in words if sorted(w) == sorted(word)][:1]
    return f"; did you mean {found[0]!r}?" if found else ""
