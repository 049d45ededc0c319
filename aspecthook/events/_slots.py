"""Slots: the interpreter's places for one callable, which others use too, as `sys.excepthook` and signal handlers.

The invariant: what we put into a slot, a link, knows what was there before and always calls it. So links may stay in
any chain of callables that others build around them. Of the links that one occurrence passes, the outermost alone
notifies subscribers, and only while the slot is connected.

A notification is known in its own context, and in copies of it, until it has ended: nobody is notified of what
subscribers do themselves meanwhile.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
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


# What subscribers are being notified of, and of which occurrence of it; both None once that has ended.
_current: Variable[tuple[list[object], ...]] = variable("aspecthook_notifications", ())


def _is_notifying(what: object, occurrence: object = None) -> bool:
    """Whether subscribers are being notified of this in this context."""
    for known, which in _current.get():  # noqa: SIM110  # each audit event asks, and a generator takes longer
        if known is what and which is occurrence:
            return True
    return False


def _notifying(what: object, occurrence: object, work: Callable[..., Any], *args: Any) -> Any:
    """Call a function that notifies subscribers of something."""
    before = _current.get()
    one = [what, occurrence]
    try:
        # Those that have ended are here because a context was copied in the middle of them.
        _current.set((*[outer for outer in before if outer[0] is not None], one))
        return work(*args)
    finally:
        # First, and no call of C code: an interrupt that comes here must not leave it current.
        one[0] = one[1] = None
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


class Slot(Occupancy):
    """A slot, and our links in it. It is connected and disconnected under the lock, and imports nothing there.

    Args:
        name: What links are called.
        notify: Calls the event.
        key: The place of the argument by which one occurrence differs from another.
    """

    __slots__ = ("_key", "_link", "_notify", "_retired", "before", "name")

    # Whether the slot reports exceptions. A subscriber that raises SystemExit must not hide one.
    reports = False

    def __init__(self, name: str, notify: Notify, *, key: int) -> None:
        super().__init__()
        self.name = name
        self._notify, self._key = notify, key
        # The link that was put in last and is not known to be gone.
        self._link: Link | None = None
        # The link that was taken out last. It must not be freed: an exception that another thread is reporting does not
        # keep it alive (CPython gh-130163, a crash).
        self._retired: Link | None = None

    @abstractmethod
    def put(self, value: Any) -> None:
        """Put something there, or raise a `MountError` if the slot does not let us."""

    @abstractmethod
    def pass_on(self, before: Any, args: tuple[Any, ...]) -> Any:
        """Do what would be done without us, with what was there before and the arguments of the call."""

    # As a place that others may take too

    def is_ours(self, value: object) -> bool:
        """Whether this is a link of the slot."""
        return isinstance(value, Link) and value.slot is self

    def restore(self) -> None:
        """Put back what was there before the link, which is then retired."""
        link: Any = self.now()
        with suppress(MountError):  # signal handlers can be changed in the main thread alone
            self.put(link.before)
            self._retired, self._link = link, None

    def connect(self) -> None:
        """Put a link into the slot. If another callable has been put over ours, both stay."""
        now: Any = self.now()
        if self.is_ours(now):
            self._link, self.before = now, now.before
        elif not self.opened:
            made = self._retired
            if made is None or now is not made.before:
                made = Link(self, now)
            self.put(made)
            self._link, self.before = made, now
        elif self._link is not None and now is self._link.before:  # other code has restored what was there before us
            with suppress(MountError):
                self.put(self._link)
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
        return self.pass_on(link.before, args)

    def _call(self, link: Link, args: tuple[Any, ...]) -> Any:
        try:
            answer = self._notify(*args)
        except BaseException:
            if self.reports:
                self.pass_on(link.before, args)
            raise
        return self.pass_on(link.before, args) if answer is None else None


@final
class AttributeSlot(Slot):
    """The slot that is an attribute of a module, such as `sys.excepthook`; somebody may have deleted it."""

    __slots__ = ("_module",)

    reports = True

    def __init__(self, module: ModuleType, name: str, notify: Notify, *, key: int) -> None:
        super().__init__(name, notify, key=key)
        self._module = module

    def now(self) -> Any:
        return vars(self._module).get(self.name, ABSENT)

    def put(self, value: Any) -> None:
        if value is ABSENT:
            delattr(self._module, self.name)
        else:
            setattr(self._module, self.name, value)

    def pass_on(self, before: Any, args: tuple[Any, ...]) -> Any:
        # If there was nothing, Python's own is called.
        return (getattr(self._module, f"__{self.name}__") if before is ABSENT or before is None else before)(*args)
