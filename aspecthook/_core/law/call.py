"""The call: one run of a mount point, as its hooks see it; and the site, what is known of the mount point itself.

The invariant: neither keeps the target or its hooks alive, once the call is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import CodeType, MappingProxyType

from aspecthook._errors import described
from aspecthook._hints import TYPE_CHECKING, Any, final

from .callables import code_of
from .signature import Emission, Shown, Signature

if TYPE_CHECKING:
    # Checks the answer of a subscriber: called with the site, the function that answered, its answer and the value that
    # is folded, it returns the answer to use.
    Fits = Callable[["Site", Any, Any, Any], Any]


# The paths of a mount point that provides none.
NOTHING_PROVIDED: Mapping[str, str] = MappingProxyType({})


class Site:
    """What generated code and messages need to know of a mount point."""

    __slots__ = ("fits", "function", "label", "model", "provides", "signature")

    def __init__(
        self,
        label: str,
        model: CodeType,
        function: Callable[[], Callable[..., object] | None],
        emission: Emission | None = None,
    ) -> None:
        self.label: str = label
        self.model: CodeType = model
        self.signature: Signature = Signature.of(model, emission)
        # Returns the mounted function; None once it is gone.
        self.function: Callable[[], Callable[..., object] | None] = function
        self.fits: Fits | None = None
        # Paths of attributes of the first argument, by the names under which hooks may ask for them.
        self.provides: Mapping[str, str] = NOTHING_PROVIDED

    def who(self, kind: str, function: object) -> str | None:  # noqa: ARG002  # a subclass looks for it
        """Return the hook of a kind that a function is here, as messages describe it; None if it is none any more."""
        return None

    def definition(self) -> tuple[str, int] | None:
        """Return the file and the line where the target is written; None for what is not written in Python.

        Of what a decorator has made it is the function that the author has decorated.
        """
        function = self.function()
        code = self.model if function is None else code_of(function)
        if code is getattr(function, "__code__", None):  # it is ours while there are hooks
            code = self.model
        return None if code is None else (code.co_filename, code.co_firstlineno)

    def shown(self) -> Shown | None:
        """Return the parameters that `inspect.signature` shows; None if they are those of the code."""
        return None

    def arguments(self, values: tuple[object, ...]) -> dict[str, object]:
        """Return the arguments of a call by the names that `inspect.signature` shows."""
        shown = self.shown()
        arguments = None if shown is None else shown.arguments(values)
        return self.signature.arguments(values) if arguments is None else arguments

    def offers(self) -> tuple[str, ...]:
        """Return the names of the parameters, as `inspect.signature` shows them."""
        shown = self.shown()
        return self.signature.names if shown is None else shown.names


@final
class Call:
    """One call of a mount point, passed to the hooks that ask for ``call``. It is created only if a hook asks for it.

    It is read-only: to change something, a hook returns `Args`, `Return` or a value.

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
        # Read and written by `law` and by generated code; hooks see the properties below.
        self._site = site
        self._values = values
        self._result: object = None
        self._exc: BaseException | None = None
        self._state: dict[Any, Any] | None = None

    @property
    def function(self) -> Callable[..., Any] | None:
        """The mounted function itself."""
        return self._site.function()

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments by the names of the target's parameters, with defaults filled in; read-only."""
        return MappingProxyType(self._site.arguments(self._values))

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
        """The result so far; None if there is none yet, or the call failed."""
        return self._result

    @property
    def exc(self) -> BaseException | None:
        """The exception with which the call is failing, or None; None again after the call."""
        return self._exc

    @property
    def state(self) -> dict[Any, Any]:
        """A dict that the hooks of this call share; empty when the call begins."""
        if self._state is None:
            self._state = {}
        return self._state

    def _revised(self, values: Iterable[object]) -> Call:
        """Return the call with other arguments, for what runs inside of an around hook that has changed them."""
        call = Call(self._site, tuple(values))
        call._state = self.state
        return call

    def __repr__(self) -> str:
        # Not the values: where a call is logged, they may be secrets. They are in `arguments`.
        types = [f"{name}: {described(value)}" for name, value in self.arguments.items()]
        return f"<call of {self._site.label} with {', '.join(types) or 'no arguments'}>"
