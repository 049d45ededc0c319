"""The call: one run of a mount point, as its hooks see it; and the site, what is known of the mount point itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import CodeType, MappingProxyType
from typing import TYPE_CHECKING, Any, final

from aspecthook._errors import described

from .signature import Emission, Signature

if TYPE_CHECKING:
    from .hook import Hook

    # Looks at an answer of a subscriber and at what it would replace, and gives what is taken for the answer.
    Fits = Callable[["Site", Any, Any, Any], Any]
    # Notes what a call was given, and gives the hooks that have come too late to be in the chain of this call.
    Record = Callable[[tuple[object, ...], tuple[Hook, ...]], tuple[Hook, ...]]


@final
class Site:
    """What generated code and errors need to know of a mount point; it keeps neither the target nor its hooks alive."""

    __slots__ = ("find", "fits", "function", "label", "model", "record", "signature")

    def __init__(
        self,
        label: str,
        model: CodeType,
        function: Callable[[], Callable[..., object] | None],
        find: Callable[[str, object], Hook | None],
        emission: Emission | None = None,
        record: Record | None = None,
    ) -> None:
        self.label = label
        self.model = model
        self.signature = Signature(model, emission)
        self.function = function
        self.find = find
        # Keeps the calls of an event that replays them.
        self.record = record
        # Called with this, the function that has answered, its answer, and the value that is folded.
        self.fits: Fits | None = None


@final
class State(dict[str, Any]):
    """What the hooks of one call share: a dict whose entries are attributes too.

    Example:
        >>> state = State()
        >>> state.started = 3
        >>> state["started"]
        3
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no hook of this call has set state.{name}; set are: {list(self)}") from None

    def __setattr__(self, name: str, value: object) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        self.pop(name)


@final
class Call:
    """One run of a mount point, given to the hooks that ask for ``call``. It exists only if some hook does.

    It is to be read: what a hook wants changed it answers, with `Args`, `Return` or a value.

    Example:
        >>> from aspecthook import hookable
        >>> @hookable
        ... def area(width, height=2):
        ...     return width * height
        >>> @area.always
        ... def show(call):
        ...     print(call.function.__name__, dict(call.arguments), call.result, call.exc)
        >>> area(3)
        area {'width': 3, 'height': 2} 6 None
        6
    """

    __slots__ = ("__weakref__", "_exc", "_result", "_site", "_state", "_values")

    def __init__(self, site: Site, values: tuple[object, ...]) -> None:
        self._site = site
        self._values = values
        self._result: object = None
        self._exc: BaseException | None = None
        self._state: State | None = None

    @property
    def function(self) -> Callable[..., Any] | None:
        """The mounted function itself."""
        return self._site.function()

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments by the names of the target's parameters, defaults filled in; read-only."""
        return MappingProxyType(self._site.signature.arguments(self._values))

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments, as the target gets them."""
        return self._site.signature.split(self._values)[0]

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments, as the target gets them."""
        return self._site.signature.split(self._values)[1]

    @property
    def result(self) -> Any:
        """The result so far; None before there is one, and if the call failed."""
        return self._result

    @property
    def exc(self) -> BaseException | None:
        """The exception that the call is failing with, or None; once the call is over, None."""
        return self._exc

    @property
    def state(self) -> State:
        """What the hooks of this call share; empty as the call begins."""
        if self._state is None:
            self._state = State()
        return self._state

    def __repr__(self) -> str:
        # Not the values: where a call is logged, they may be secrets. Who wants them asks for `arguments`.
        given = [f"{name}: {described(value)}" for name, value in self.arguments.items()]
        return f"<call of {self._site.label} with {', '.join(given) or 'no arguments'}>"
