"""The mount points of a program and their chains, printed when it ends."""

from __future__ import annotations

import atexit
import os
import sys

from aspecthook._core.mount.everything import mount_points
from aspecthook._core.mount.point import MountPoint, mount_of
from aspecthook._errors import plural


def list_at_exit(*, named: bool) -> None:
    """Print the mount points as this process ends, and which process it is unless it is the one that was named."""
    process = os.getpid()

    def report() -> None:
        lines: list[str] = []
        if not named or os.getpid() != process:  # a fork has our exit handlers too
            lines = [f"process {os.getpid()}: {' '.join(sys.orig_argv)}"]
        found = [mount for mount in mount_points() if len(mount) or _is_mounted(mount)]
        if found or not lines:
            lines += map(str, found)
            lines.append(plural(len(found), "mount point"))
            print("\n".join(lines), file=sys.stderr, flush=True)

    atexit.register(report)


def _is_mounted(mount: MountPoint) -> bool:
    function = mount.ref()
    return function is not None and mount_of(function) is mount
