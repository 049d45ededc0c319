"""Warnings that a function will go."""

from __future__ import annotations

import warnings
from collections.abc import Generator

from aspecthook._core.law.call import Site
from aspecthook._errors import HookTypeError, brief

from ._aspect import AnyHook, Aspect, caller, named

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


def deprecated(
    instead: str | None = None,
    *,
    since: str | None = None,
    removed_in: str | None = None,
    category: type[Warning] | str = DeprecationWarning,
) -> Aspect:
    """Warn whoever calls a function that it will go, naming the caller's own line.

    Args:
        instead: What to call instead.
        since: The version in which it was deprecated.
        removed_in: The version that will be without it.
        category: The category of the warning, or its name as ``"module:Name"``.

    Raises:
        HookTypeError: The category is no warning.

    Example:
        >>> import shlex, warnings
        >>> from aspecthook import weave
        >>> weaving = weave("shlex:quote", aspect=deprecated("shop.quote", removed_in="2.0"))
        >>> with weaving, warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     word = shlex.quote("tea")
        >>> print(caught[0].message)
        shlex:quote is deprecated and will be removed in 2.0; use shop.quote
    """
    kind = named("deprecated", "category", category)
    if not (isinstance(kind, type) and issubclass(kind, Warning)):
        raise HookTypeError(f"deprecated: category={brief(category)}; give a warning such as DeprecationWarning")

    def make(site: Site) -> AnyHook:
        message = (
            f"{site.label} is deprecated{f' since {since}' if since else ''}"
            f"{f' and will be removed in {removed_in}' if removed_in else ''}{f'; use {instead}' if instead else ''}"
        )

        def hook() -> Generator[None]:
            at = caller(site)
            module, registry = at.space.get("__name__", "<unknown>"), at.space.setdefault("__warningregistry__", {})
            warnings.warn_explicit(message, kind, at.file, at.line, module, registry)
            yield

        return hook

    return Aspect("deprecated", make, instead=instead, since=since, removed_in=removed_in)
