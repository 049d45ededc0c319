"""Slots: the interpreter's places for one callable, which others use too, as `sys.excepthook` and signal handlers.

The invariant: what we put into a slot, a link, knows what was there before and always calls it. So links may stay in
any chain of callables that others build around them. Of the links that one occurrence passes, the outermost alone
notifies subscribers, and only while the slot is connected.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar, final

from aspecthook._core.mount.lock import under_lock
from aspecthook._core.mount.occupancy import Occupancy
from aspecthook._errors import MountError, brief
from aspecthook._foreign.places import ABSENT

from ._wired import Plug, is_notifying, notifying

# Any, here and below: what a slot holds, and what it is called with, depends on the slot.
Notify = Callable[..., Any]


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


class Slot(Occupancy, Plug):
    """A slot, and our links in it.

    Args:
        name: What links are called.
        notify: Calls the event.
        key: The place of the argument by which one occurrence differs from another.
    """

    # Whether what was there before is called, too, if notifying raises.
    passes_on_anyway: ClassVar[bool] = False

    __slots__ = ("_key", "_link", "_notify", "_retired", "name")

    def __init__(self, name: str, notify: Notify, *, key: int) -> None:
        super().__init__()
        self.name = name
        self._notify = notify
        self._key = key
        # The link that was put in last and is not known to be gone.
        self._link: Link | None = None
        # The link that was taken out last. It must not be freed: an exception that another thread is reporting does not
        # keep it alive (CPython gh-130163, a crash).
        self._retired: Link | None = None

    @abstractmethod
    def pass_on(self, before: Any, args: tuple[Any, ...]) -> Any:
        """Do what would be done without us."""

    # As a place that others may take too

    @property
    def before(self) -> Any:
        """What was there before our link, which is the one in the slot, or else the last one that was."""
        now = self.now()
        link = now if isinstance(now, Link) and self.is_ours(now) else self._link
        return now if link is None else link.before

    def is_ours(self, value: object) -> bool:
        """Whether this is a link of the slot."""
        return isinstance(value, Link) and value.slot is self

    def restore(self) -> None:
        """Put back what was there before the link, which is then retired."""
        link: Any = self.now()
        if self._put_or_leave(link.before):
            self._retired, self._link = link, None

    # As a plug

    def connect(self) -> None:
        """Put a link into the slot. If another callable has been put over ours, both stay."""
        now: Any = self.now()
        if self.is_ours(now):
            self._link = now
        elif not self.opened:
            made = self._retired
            if made is None or now is not made.before:
                made = Link(self, now)
            self.put(made)
            self._link = made
        elif self._link is not None and now is self._link.before:  # other code has restored what was there before us
            self._put_or_leave(self._link)
        self.opened = True

    def _put_or_leave(self, value: Any) -> bool:
        """Put something into the slot if it lets us: signal handlers can be changed in the main thread alone."""
        try:
            self.put(value)
        except MountError:
            return False
        return True

    def disconnect(self) -> None:
        """Put back what was there. A link over which others have put theirs stays, and only passes calls on."""
        self.opened = False
        self.leave()

    # What a link does

    def called(self, link: Link, args: tuple[Any, ...]) -> Any:
        """Notify subscribers, if this link is the outermost, and pass on."""
        which = args[self._key] if len(args) > self._key else None
        if self.opened and not is_notifying(self, which):
            return notifying(self, which, self._call, link, args)
        if not self.opened and self.now() is link:
            self._healed()
        return self.pass_on(link.before, args)

    @under_lock
    def _healed(self) -> None:
        self.heal()

    def _call(self, link: Link, args: tuple[Any, ...]) -> Any:
        try:
            answer = self._notify(*args)
        except BaseException:
            if self.passes_on_anyway:
                self.pass_on(link.before, args)
            raise
        if answer is None:
            return self.pass_on(link.before, args)


@final
class AttributeSlot(Slot):
    """An attribute of a module, such as `sys.excepthook`."""

    # These report exceptions. A subscriber that raises SystemExit must not hide one.
    passes_on_anyway = True

    __slots__ = ("_module",)

    def __init__(self, module: ModuleType, name: str, notify: Notify, *, key: int) -> None:
        super().__init__(name, notify, key=key)
        self._module = module

    def now(self) -> Any:
        """Return the attribute, which somebody may have deleted."""
        return vars(self._module).get(self.name, ABSENT)

    def put(self, value: Any) -> None:
        """Set the attribute."""
        if value is ABSENT:
            delattr(self._module, self.name)
        else:
            setattr(self._module, self.name, value)

    def pass_on(self, before: Any, args: tuple[Any, ...]) -> Any:
        """Call what was there before or, if there was nothing, Python's own."""
        if before is ABSENT or before is None:
            before = getattr(self._module, f"__{self.name}__")
        return before(*args)
