"""Slots: the interpreter's places for one callable, which others use too, as `sys.excepthook` and signal handlers.

The invariant: what we put into a slot, a link, knows what was there before and always calls it. So links may stay in
any chain of callables that others build around them. Of the links that one occurrence passes, the outermost alone
notifies subscribers, and only while the slot is connected.

A notification is known in its own context, and in copies of it, until it has ended: nobody is notified of what
subscribers do themselves meanwhile.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, final

from aspecthook._core.law.variables import Variable, variable
from aspecthook._core.mount.lock import is_changing, under_lock
from aspecthook._core.mount.occupancy import Occupancy
from aspecthook._errors import MountError, brief
from aspecthook._foreign.places import ABSENT

# Any, here and below: what a slot holds, and what it is called with, depends on the slot.
Notify = Callable[..., Any]


# Notifying


@final
class _Notification:
    """One notification: of what, and of which occurrence of it; of nothing any more, once it has ended."""

    __slots__ = ("occurrence", "what")

    def __init__(self, what: object, occurrence: object) -> None:
        self.what = what
        self.occurrence = occurrence


_current: Variable[tuple[_Notification, ...]] = variable("aspecthook_notifications", ())


def _is_notifying(what: object, occurrence: object = None) -> bool:
    """Whether subscribers are being notified of this in this context."""
    for one in _current.get():  # noqa: SIM110  # each audit event asks, and a generator takes longer
        if one.what is what and one.occurrence is occurrence:
            return True
    return False


def _notifying(what: object, occurrence: object, work: Callable[..., Any], *args: Any) -> Any:
    """Call a function that notifies subscribers of something."""
    before = _current.get()
    one = _Notification(what, occurrence)
    try:
        # Those that have ended are here because a context was copied in the middle of them.
        _current.set((*[outer for outer in before if outer.what is not None], one))
        return work(*args)
    finally:
        # First, and no call of C code: an interrupt that comes here must not leave it current.
        one.what = one.occurrence = None
        _current.set(before)


def notify(
    event: Callable[..., Any],
    *args: Any,
    ending: Callable[[], bool] = sys.is_finalizing,
    changing: Callable[[], bool] = is_changing,
) -> Any:
    """Call an event, unless subscribers are being notified of the same in this context.

    Nobody is notified while the interpreter is torn down, as modules are empty then; nor of what aspecthook itself does
    in the middle of a change. It makes code and puts it into functions: a hook that forbade that could not be removed.
    """
    # `ending` and `changing` come first and are defaults: this module may be empty, too.
    if ending() or changing() or _is_notifying(event):
        return None
    return _notifying(event, None, event, *args)


# Slots


@final
class Link:
    """What we put into a slot: notifies subscribers, then calls what was there before, unless one has handled it."""

    # Some programs ask hooks for their name.
    __slots__ = ("__name__", "before", "slot")

    def __init__(self, slot: Slot, before: Any) -> None:
        self.__name__ = slot.name
        self.slot = slot
        self.before = before

    def __call__(self, *args: Any) -> Any:
        return self.slot.called(self, args)

    def __repr__(self) -> str:
        return f"<aspecthook event {self.slot.name}, then {brief(self.before)}>"


@final
class Slot(Occupancy):
    """A slot, and our links in it. It is connected and disconnected under the lock, and imports nothing there.

    Args:
        name: What links are called.
        notify: Calls the event.
        get: Returns what is in the slot; `put` puts something there.
        put: See `get`.
        pass_on: Does what would be done without us, with what was there before and the arguments of the call.
        key: The place of the argument by which one occurrence differs from another.
        reports: Whether the slot reports exceptions. A subscriber that raises SystemExit must not hide one.
    """

    __slots__ = ("_get", "_key", "_link", "_notify", "_pass_on", "_put", "_reports", "_retired", "before", "name")

    def __init__(
        self,
        name: str,
        notify: Notify,
        get: Callable[[], Any],
        put: Callable[[Any], None],
        pass_on: Callable[[Any, tuple[Any, ...]], Any],
        *,
        key: int,
        reports: bool = False,
    ) -> None:
        super().__init__()
        self.name = name
        self._notify, self._get, self._put, self._pass_on = notify, get, put, pass_on
        self._key = key
        self._reports = reports
        # The link that was put in last and is not known to be gone.
        self._link: Link | None = None
        # The link that was taken out last. It must not be freed: an exception that another thread is reporting does not
        # keep it alive (CPython gh-130163, a crash).
        self._retired: Link | None = None

    # As a place that others may take too

    def now(self) -> Any:
        """Return what is there."""
        return self._get()

    def put(self, value: Any) -> None:
        """Put something there, or raise a `MountError` if the slot does not let us."""
        self._put(value)

    def is_ours(self, value: object) -> bool:
        """Whether this is a link of the slot."""
        return isinstance(value, Link) and value.slot is self

    def restore(self) -> None:
        """Put back what was there before the link, which is then retired."""
        link: Any = self.now()
        if self._put_or_leave(link.before):
            self._retired, self._link = link, None

    def _put_or_leave(self, value: Any) -> bool:
        """Put something into the slot if it lets us: signal handlers can be changed in the main thread alone."""
        try:
            self._put(value)
        except MountError:
            return False
        return True

    def connect(self) -> None:
        """Put a link into the slot. If another callable has been put over ours, both stay."""
        now: Any = self.now()
        if self.is_ours(now):
            self._link, self.before = now, now.before
        elif not self.opened:
            made = self._retired
            if made is None or now is not made.before:
                made = Link(self, now)
            self._put(made)
            self._link, self.before = made, now
        elif self._link is not None and now is self._link.before:  # other code has restored what was there before us
            self._put_or_leave(self._link)
        self.opened = True

    def disconnect(self) -> None:
        """Put back what was there. A link over which others have put theirs stays, and only passes calls on."""
        self.opened = False
        if self._link is not None:
            self.leave()

    # What a link does

    def called(self, link: Link, args: tuple[Any, ...]) -> Any:
        """Notify subscribers, if this link is the outermost, and pass on."""
        which = args[self._key] if len(args) > self._key else None
        if self.opened and not _is_notifying(self, which):
            return _notifying(self, which, self._call, link, args)
        if not self.opened and self.now() is link:
            under_lock(self.heal)()
        return self._pass_on(link.before, args)

    def _call(self, link: Link, args: tuple[Any, ...]) -> Any:
        try:
            answer = self._notify(*args)
        except BaseException:
            if self._reports:
                self._pass_on(link.before, args)
            raise
        return self._pass_on(link.before, args) if answer is None else None


def attribute_slot(module: ModuleType, name: str, notify: Notify, *, key: int) -> Slot:
    """Return the slot that is an attribute of a module, such as `sys.excepthook`; somebody may have deleted it."""

    def put(value: Any) -> None:
        if value is ABSENT:
            delattr(module, name)
        else:
            setattr(module, name, value)

    def pass_on(before: Any, args: tuple[Any, ...]) -> Any:
        # If there was nothing, Python's own is called.
        return (getattr(module, f"__{name}__") if before is ABSENT or before is None else before)(*args)

    return Slot(name, notify, lambda: vars(module).get(name, ABSENT), put, pass_on, key=key, reports=True)
