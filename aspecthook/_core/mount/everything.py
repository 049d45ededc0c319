"""What is hooked in the whole process: `hooks()`, as a table. Loaded when somebody looks.

The invariant: nothing is kept for it. The mount points are found among the objects that the garbage collector knows, so
that a mount point costs no more for being listed, and the list keeps no target alive.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

from aspecthook._errors import plural, printable
from aspecthook._hints import final

from .point import MountPoint
from .table import rows_of, table_of


@final
class AllHooks:
    """All mount points that have hooks, in the order of their names: what `hooks()` returns.

    Print it for a table, iterate it for the mount points. It looks anew each time.

    Example:
        >>> from aspecthook import hookable, hooks
        >>> @hookable
        ... def double(n): ...
        >>> @double.pre
        ... def check(n): ...
        >>> "check" in str(hooks())
        True
        >>> hooks(double) in list(hooks())
        True
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[MountPoint]:
        return iter([mount for mount in mount_points() if mount.members and mount.is_listed and mount.is_alive()])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __str__(self) -> str:
        """Return the hooks of all mount points as one table."""
        mounts = list(self)
        rows = [row for mount in mounts for row in rows_of(mount, mount.chains(), printable(mount.name))]
        return table_of(f"{plural(len(rows), 'hook')} on {plural(len(mounts), 'mount point')}", rows)

    __repr__ = __str__


def mount_points() -> list[MountPoint]:
    """Return all mount points, with and without hooks, by name; those of instances after that of their class.

    While something is woven by name, weaving itself has a hook on `importlib.reload`, which is left out.
    """
    # By their types: `isinstance` asks an object for its `__class__`, which runs code of those that are proxies.
    found: list[MountPoint] = [one for one in gc.get_objects() if issubclass(type(one), MountPoint)]
    shown = [one for one in found if one.name != "importlib:reload" or [hook.name for hook in one] != ["weave_again"]]
    return sorted(shown, key=lambda mount: mount.name)
