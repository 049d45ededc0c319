"""The interpreter's places for one callable, which others want too: `sys.excepthook` and the like, signal handlers.

The invariant: what we put into a place, a link, knows what was there before and always passes on to it; so the links
of a place may stay in any chain that others build around them. Of the links that one occurrence comes through, the
outermost alone tells the event, and only while the place is connected.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar, final

from aspecthook._core.mount.lock import under_lock
from aspecthook._errors import MountError, brief

from ._quiet import is_under_way, running

# Any: what a place holds, is called with and gives is the interpreter's business.
Tell = Callable[..., Any]
_ABSENT: Any = object()


@final
class Link:
    """What we put into a place: tells the event, then does what was done before, unless somebody has handled it."""

    # Some programs ask hooks for their name.
    __slots__ = ("__name__", "before", "seat", "under")

    def __init__(self, seat: Seat, before: Any) -> None:
        self.__name__ = seat.name
        self.seat = seat
        self.before = before
        # An older link of this place, that others may still have in their chain.
        self.under: Link | None = None

    def __call__(self, *args: Any) -> Any:
        return self.seat.called(self, args)

    def __repr__(self) -> str:
        return f"<aspecthook tells of {self.seat.name}, then {brief(self.before)}>"


class Seat(ABC):
    """A place, and what of ours is in it."""

    # Whether what was done before is also done when telling the event raises.
    passes_on_anyway: ClassVar[bool] = False

    __slots__ = ("_connected", "_link", "_retired", "_tell", "name")

    def __init__(self, name: str, tell: Tell) -> None:
        self.name = name
        self._tell = tell
        self._connected = False
        # The link that was put there last and is not known to be gone.
        self._link: Link | None = None
        # The one that was taken out last. It must not die: an exception that another thread is reporting right now does
        # not keep it alive (CPython gh-130163, a crash).
        self._retired: Link | None = None

    @abstractmethod
    def get(self) -> Any:
        """Give what is there."""

    @abstractmethod
    def put(self, value: Any) -> None:
        """Put something there.

        Raises:
            MountError: It is refused.
        """

    @abstractmethod
    def occurrence(self, args: tuple[Any, ...]) -> object:
        """Give what tells one occurrence from another."""

    @abstractmethod
    def pass_on(self, before: Any, args: tuple[Any, ...]) -> Any:
        """Do what was done before we came."""

    def _ours(self) -> Link | None:
        now = self.get()
        return now if isinstance(now, Link) and now.seat is self else None

    # As a plug

    def prepare(self) -> None:  # noqa: B027  # there is nothing to prepare, for any of them
        """Need nothing."""

    def connect(self) -> None:
        """Have a link there. Where somebody else's callable stands on ours already, both stay."""
        now, link = self.get(), self._link
        if isinstance(now, Link) and now.seat is self:
            self._link = now
        elif not self._connected:
            while link is not None and now is link.before:
                link = link.under
            made = self._retired
            if made is None or now is not made.before:
                made = Link(self, now)
            made.under = link
            self.put(made)
            self._link = made
        elif link is not None and now is link.before:  # somebody has put back what they had seen before us
            self._put_or_leave(link)
        self._connected = True

    def _put_or_leave(self, value: Any) -> bool:
        """Put something there, but for a signal outside of the main thread: the next change there puts it right."""
        try:
            self.put(value)
        except MountError:
            return False
        return True

    def disconnect(self) -> None:
        """Put back what was there, or leave our link below what others have put there: it only passes on now."""
        self._connected = False
        self._heal()

    def _heal(self) -> None:
        link = self._ours()
        if link is not None and self._put_or_leave(link.before):
            self._retired, self._link = link, link.under

    @property
    def displaced(self) -> bool:
        """Whether somebody else's callable is where ours was put."""
        if self._connected:
            return self._ours() is None
        self._heal()
        link = self._link
        return link is not None and self._ours() is None and self.get() is not link.before

    # As what a link does

    def called(self, link: Link, args: tuple[Any, ...]) -> Any:
        """Tell the event, if this link is the outermost, and pass on."""
        which = self.occurrence(args)
        if self._connected and not is_under_way(self, which):
            return running(self, which, self._told, link, args)
        if not self._connected and self.get() is link:
            self._heal_unless_connected()
        return self.pass_on(link.before, args)

    @under_lock
    def _heal_unless_connected(self) -> None:
        if not self._connected:
            self._heal()

    def _told(self, link: Link, args: tuple[Any, ...]) -> Any:
        try:
            answer = self._tell(*args)
        except BaseException:
            if self.passes_on_anyway:
                self.pass_on(link.before, args)
            raise
        if answer is None:
            return self.pass_on(link.before, args)


@final
class Attribute(Seat):
    """An attribute of a module, such as `sys.excepthook`."""

    # These report exceptions. A subscriber that raises SystemExit must not make one unseen.
    passes_on_anyway = True

    __slots__ = ("_key", "_module")

    def __init__(self, module: ModuleType, name: str, tell: Tell, *, key: int) -> None:
        super().__init__(name, tell)
        self._module = module
        # Which of the arguments is what it is about.
        self._key = key

    def get(self) -> Any:
        """Give what is there; somebody may have deleted it."""
        return vars(self._module).get(self.name, _ABSENT)

    def put(self, value: Any) -> None:
        """Put something there."""
        if value is _ABSENT:
            delattr(self._module, self.name)
        else:
            setattr(self._module, self.name, value)

    def occurrence(self, args: tuple[Any, ...]) -> object:
        """Give what it is about."""
        return args[self._key] if len(args) > self._key else None

    def pass_on(self, before: Any, args: tuple[Any, ...]) -> Any:
        """Call what was there, or where that was nothing, what Python does by itself."""
        if before is _ABSENT or before is None:
            before = getattr(self._module, f"__{self.name}__")
        return before(*args)
