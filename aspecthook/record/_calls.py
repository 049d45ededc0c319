"""Recorded calls: what was called, inside which other call, with what and with what outcome."""

from __future__ import annotations

from collections.abc import Sequence

from aspecthook._core.law.call import Site
from aspecthook._hints import Any, cast, final
from aspecthook._values import PLAIN, Redaction

# A generator may be resumed without end; beyond this many, turns are added to the last one that is kept.
_MOST_TURNS = 1_000


@final
class Function:
    """What is known of a function that is recorded. It keeps the function itself not alive."""

    def __init__(self, label: str, file: str | None = None, line: int | None = None, site: Site | None = None) -> None:
        self.label: str = label
        self.name: str = label.partition(":")[2].rpartition("<locals>.")[2] or label
        self.file: str | None = file
        self.line: int | None = line
        self.site: Site | None = site
        # The names of its parameters, if all of them are passed by position, as most are: that is quicker read.
        self._names: tuple[str, ...] = ()
        if site is not None and site.signature.positional == len(site.signature.names) and site.shown() is None:
            self._names = site.signature.names
        # Whether the arguments of a call are noted as args and kwargs, and not as args alone, which is quicker.
        self.named: bool = True

    def arguments(self, given: Any, redaction: Redaction) -> dict[str, Any]:
        """Return arguments by name, without what is redacted, from those that were noted."""
        args, kwargs = cast("tuple[Any, Any]", given if self.named else (given, {}))
        if self.site is None:
            return {}
        if self._names and not redaction.active:
            return dict(zip(self._names, args))  # noqa: B905  # the function has checked how many there are
        arguments = self.site.arguments(self.site.signature.join(args, kwargs))
        return redaction.arguments(arguments, self.site.signature.extra)


@final
class RecordedError(Exception):
    """The exception of a call that was read from a file: the name of its type, and its message.

    Example:
        >>> RecordedError("KeyError", "'tea'")
        KeyError: 'tea'
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.type = kind
        self.message = message

    def __str__(self) -> str:
        return self.message

    def __repr__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


@final
class RecordedCall:
    """One call on a tape.

    ``name`` is the name of the function (``"Cart.save"`` for a method), and ``label`` includes the module
    (``"shop:Cart.save"``). ``arguments`` are by name, as the caller passed them, with defaults filled in. ``begin`` is
    in seconds since the tape began, ``duration`` in seconds, and None while the call runs. ``own`` is the time without
    the recorded calls inside; while the call runs, only of the turns that have ended. A call of a generator lasts from
    the first `next` to the end, and its ``result`` is the return value, or None if it is left early. ``turns`` are the
    times (begin and duration) in which a generator or a coroutine ran and did not wait. In a tape that was read from a
    file, values are texts.

    Example:
        >>> import shlex
        >>> from aspecthook.record import record
        >>> with record(shlex.quote) as tape:
        ...     word = shlex.quote("my file")
        >>> call = tape.find("quote")
        >>> call.name, call.arguments, call.result, call.exc, call.depth
        ('quote', {'s': 'my file'}, "'my file'", None, 0)
    """

    # What most calls have is the class's own, and a call has what differs: that is quicker made, and smaller.
    number: int = 0
    thread: str = ""
    task: str | None = None
    process: int = 0
    parent: RecordedCall | None = None
    children: Sequence[RecordedCall] = ()
    turns: Sequence[tuple[float, float]] = ()
    own: float = 0.0
    exc: BaseException | None = None
    # Whether a call of the same function is around it.
    recursive: bool = False
    # Whether its arguments and its result were recorded.
    has_values: bool = True
    # Whether the call is on the tape; else a limit has left it out, and all that it calls.
    kept: bool = True
    _arguments: dict[str, Any] | None = None
    _result: Any = None
    _end: float | None = None
    _labels: frozenset[str] | None = None
    # The recorder's own: which one, and what ran in this context before.
    _recorder: object = None
    _outer: RecordedCall | None = None

    def __init__(self, function: Function, begin: float, raw: Any = None, redaction: Redaction = PLAIN) -> None:
        self.function: Function = function
        self.begin: float = begin
        self._raw = raw
        self._redaction = redaction
        if raw is None:
            self.has_values = False

    @property
    def label(self) -> str:
        """The module and the name of the function."""
        return self.function.label

    @property
    def name(self) -> str:
        """The name of the function, with its class."""
        return self.function.name

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments by name; empty if they were not recorded."""
        if self._arguments is None:
            self._arguments = {} if self._raw is None else self.function.arguments(self._raw, self._redaction)
            self._raw = None
        return self._arguments

    @property
    def result(self) -> Any:
        """What the call returned; None while it runs, and if it failed."""
        return self._redaction.redacted("result", self._result)

    @property
    def ended(self) -> bool:
        """Whether the call has ended."""
        return self._end is not None

    @property
    def duration(self) -> float | None:
        """The time that the call took, in seconds; None while it runs."""
        return None if self._end is None else max(0.0, self._end - self.begin)

    @property
    def depth(self) -> int:
        """The number of recorded calls around this one."""
        depth, parent = 0, self.parent
        while parent is not None:
            depth, parent = depth + 1, parent.parent
        return depth

    def shown_arguments(self) -> dict[str, str]:
        """Return the arguments as shortened texts, without redacted values."""
        shortener = self._redaction.shortener
        return {name: shortener.text(value) for name, value in self.arguments.items()}

    def shown_result(self) -> str:
        """Return the result as a shortened text."""
        return self._redaction.shown_result(self._result)

    def shown_error(self) -> tuple[str, str] | None:
        """Return the name of the exception's type and its shortened message; None if the call has not failed."""
        if self.exc is None:
            return None
        if isinstance(self.exc, RecordedError):
            return self.exc.type, self.exc.message
        return self._redaction.shown_error(self.exc)

    def __str__(self) -> str:
        shown = [f"{name}={text}" for name, text in self.shown_arguments().items() if name not in ("self", "cls")]
        if self._end is None:
            outcome = " … has not ended"
        elif self.exc is not None:
            outcome = f" raised {': '.join(filter(None, self.shown_error() or ()))}"
        else:
            outcome = f" -> {self.shown_result()}" if self.has_values else ""
        return f"{self.name}({', '.join(shown)}){outcome}"

    def __repr__(self) -> str:
        return f"<{self}>"

    # What recorders and readers use.

    @property
    def labels(self) -> frozenset[str]:
        """The labels of the call and of those around it."""
        if self._labels is None:  # the labels of the parent exist already: `_add` asks for them
            around = frozenset[str]() if self.parent is None else self.parent.labels
            self._labels = around if self.label in around else around | {self.label}
        return self._labels

    def end(self, end: float, exc: BaseException | None, result: Any = None) -> None:
        """Record how the call has ended."""
        self._end, self.exc, self._result = end, exc, result

    def shift(self, seconds: float) -> None:
        """Count its times from an earlier moment."""
        self.begin += seconds
        self._end = None if self._end is None else self._end + seconds
        self.turns = [(begin + seconds, length) for begin, length in self.turns]

    def add_turn(self, begin: float, end: float) -> None:
        """Record a turn of a generator or a coroutine."""
        turns = self.turns = self.turns if isinstance(self.turns, list) else []
        if len(turns) < _MOST_TURNS:
            turns.append((begin, max(0.0, end - begin)))
        else:
            first, length = turns[-1]
            turns[-1] = (first, length + max(0.0, end - begin))

    def add_child(self, call: RecordedCall) -> None:
        """Record a call that this one has made."""
        if isinstance(self.children, list):
            self.children.append(call)
        else:
            self.children = [call]
