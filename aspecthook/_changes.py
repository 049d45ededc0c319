"""The one lock under which hooks are added, taken off and linked.

It is only ever taken by a `with` statement on the lock itself, which no interrupt can leave halfway; a context
manager written in Python can be left between its steps. It is reentrant, since finalizers that the garbage collector
runs in the middle of a change may make changes of their own.
"""

from __future__ import annotations

import os
from threading import RLock

lock = RLock()

if hasattr(os, "register_at_fork"):
    # A child must not inherit a lock that some other thread of its parent held.
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
