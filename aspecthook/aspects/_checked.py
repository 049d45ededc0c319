"""Checks of arguments and results against annotations, by beartype."""

from __future__ import annotations

from types import FunctionType
from typing import cast

from aspecthook._core.law.hook import Owner
from aspecthook._errors import HookTypeError
from aspecthook.weave import around

from ._aspect import AnyHook, Aspect, needed

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


class _Checked(Aspect):
    """Makes its hooks of beartype's decorator."""

    def __init__(self) -> None:
        beartype = needed("beartype", "checked")
        super().__init__("checked", lambda _: self._decorator)
        conf = beartype.BeartypeConf(violation_type=TypeError, is_color=False)
        self._decorator = around.wrap(beartype.beartype(conf=conf))

    def make(self, mount: Owner, who: object) -> AnyHook:
        """Return the hook for one mount point."""
        if not getattr(mount.site().function(), "__annotations__", None):
            raise HookTypeError(f"{mount.name}: checked would check nothing, as there are no annotations")
        return self.dress(cast("FunctionType", self._decorator.make(mount, who)))


def checked() -> Aspect:
    """Check arguments and results against the annotations; by [beartype](https://beartype.readthedocs.io).

    What does not fit raises `TypeError`, which says what was expected. Beartype looks at one item of a container, so
    that a check takes the same time for lists of any length.

    Example:
        >>> from aspecthook import weave
        >>> def double(n: int) -> int:
        ...     return 2 * n
        >>> with weave(double, aspect=checked()):
        ...     double("tea")
        Traceback (most recent call last):
          ...
        TypeError: Function ...double() parameter n='tea' violates type hint <class 'int'>, ...
    """
    return _Checked()
