"""The tape: what was recorded, as a tree, a list, a table and files; and `record`, which records it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from os import PathLike
from time import time

from aspecthook._core.law.kinds import Kind
from aspecthook._errors import HookOptionError, brief, entrance, plural
from aspecthook._hints import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, cast, final
from aspecthook._values import Redact, Redaction, same, shown_time
from aspecthook.weave import weave

from ._calls import RecordedCall
from ._hooks import Recording
from ._recorder import Recorder

if TYPE_CHECKING:
    from ._functions import Table

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


class Sink(Protocol):
    """A destination of recorded calls: an object with these two methods.

    They may be called from several threads at once. If the object has a method ``forked()`` too, that is called in the
    child of a fork. A sink that raises gets no more calls, and there is one warning.

    Example:
        >>> import shlex
        >>> from aspecthook.record import record
        >>> class Names(list):
        ...     def write(self, call):
        ...         self.append(call.name)
        ...
        ...     def close(self): ...
        >>> with record("shlex:quote", to=(names := Names())):
        ...     word = shlex.quote("my file")
        >>> names
        ['quote']
    """

    def write(self, call: RecordedCall, /) -> object:
        """Take a call that has ended."""
        ...

    def close(self) -> object:
        """Take no more calls. Those that have not ended are written before."""
        ...


To: TypeAlias = "str | PathLike[str] | Sink | None"


def _sink_of(to: To) -> Any:
    """Return a sink, that of a path being JSON lines; None if calls are kept instead."""
    if isinstance(to, (str, PathLike)):
        from ._json_lines import JsonLines

        return JsonLines(to, time())
    if to is not None and not all(callable(getattr(to, name, None)) for name in ("write", "close")):
        raise HookOptionError(f"to={brief(to)}; give a path, or an object with write(call) and close()")
    return to


@final
class Tape:
    """Recorded calls, in the order in which they began; ``print(tape)`` prints their tree.

    ``record(...)`` makes a tape and records until the end of the ``with`` block or `Tape.stop`.

    Args:
        targets: Targets of `weave`: functions, classes, modules, pointcuts (``"shop:*"``); `Tape.record` adds others.
        where: A predicate that selects among the functions found.
        arguments: Whether to keep arguments and results; recording without them is faster.
        redact: The names of arguments to redact, which may be globs (``"*token*"``), or a predicate
            ``(name, value) -> bool``; ``result`` and ``error`` are names too.
        max_depth: The greatest number of levels of a tree that are recorded.
        to: Where calls go as they end, instead of into memory: a path, for JSON lines, or a `Sink`.

    Raises:
        WeaveError: A target cannot be woven, or does not exist; then nothing is recorded.
        HookOptionError: An option has an invalid value.

    Example:
        >>> import shlex
        >>> with record("shlex:*") as tape:
        ...     line = shlex.join(["cat", "my file"])
        >>> for text in tape.lines(times=False):
        ...     print(text)
        join(split_command=['cat', 'my file']) -> "cat 'my file'"
          quote(s='cat') -> 'cat'
          quote(s='my file') -> "'my file'"
        >>> len(tape), tape.last.arguments, tape.last.parent.name
        (3, {'s': 'my file'}, 'join')
    """

    @entrance
    def __init__(
        self,
        *targets: object,
        where: Callable[[Any], object] | None = None,
        arguments: bool = True,
        redact: Redact = None,
        max_depth: int | None = None,
        to: To = None,
    ) -> None:
        if max_depth is not None and (not isinstance(cast("object", max_depth), int) or max_depth < 1):
            raise HookOptionError(f"max_depth={brief(max_depth)}; give a number of 1 or more, or None for no limit")
        self._recorder = Recorder(Redaction(redact), max_depth, _sink_of(to))
        kinds: tuple[Kind, ...] = ("pre", "around", "always")
        self._hooks: dict[str, Any] = {kind: Recording(kind, self._recorder, keep=arguments) for kind in kinds}
        self._woven = ExitStack()
        try:
            for target in targets:
                self.record(target, where=where)
        except BaseException:
            self.stop()
            raise

    def record(self, target: object, /, *, where: Callable[[Any], object] | None = None) -> Self:
        """Record the calls of a function, a class, a pointcut, or any other target of `weave`, until `stop`.

        Args:
            target: A target of `weave`.
            where: A predicate that selects among the functions found.

        Raises:
            WeaveError: The target cannot be woven, or does not exist.
            HookOptionError: The tape has stopped, and its files are closed.
        """
        if self._recorder.live and self._recorder.sink is None:
            raise HookOptionError("this tape has stopped, and where its calls went is closed; make a new one")
        woven = weave(target, **self._hooks, where=where, name="tape")
        self._woven.callback(woven.remove)
        return self

    def stop(self) -> None:
        """Stop recording, and keep the calls. A sink gets those that still run, and is closed."""
        self._woven.close()
        self._recorder.write_rest(ended=True)

    # The calls

    def __iter__(self) -> Iterator[RecordedCall]:
        return iter(self._recorder.collect())

    def __len__(self) -> int:
        return len(self._recorder.collect())

    def __bool__(self) -> bool:
        return True  # a tape without calls is a tape

    def calls(self, name: str | None = None, /, **arguments: Any) -> list[RecordedCall]:
        """Return the calls that match, in the order in which they began.

        Args:
            name: The name of the function, the end of that name, or the whole label (``"shop:Cart.save"``).
            arguments: The values of some arguments; other arguments may have any value.
        """
        named = [call for call in self if name in (None, call.label) or f".{call.name}".endswith(f".{name}")]
        for word, value in arguments.items():
            named = [call for call in named if word in call.arguments and same(call.arguments[word], value)]
        return named

    def find(self, name: str | None = None, /, **arguments: Any) -> RecordedCall:
        """Return the first call that matches, see `calls`.

        Raises:
            LookupError: There is no such call.
        """
        found = self.calls(name, **arguments)
        if found:
            return found[0]
        wanted = f"{name or 'a call'}({', '.join([f'{word}={brief(value)}' for word, value in arguments.items()])})"
        known = ", ".join(dict.fromkeys(call.name for call in self))
        raise LookupError(
            f"{wanted} is not on the tape, which has {plural(len(self), 'call')}, of {known or 'nothing'}"
        )

    @property
    def last(self) -> RecordedCall:
        """The call that began last.

        Raises:
            LookupError: There was no call.
        """
        calls = list(self)
        if not calls:
            raise LookupError("nothing that this tape records has been called")
        return calls[-1]

    def functions(self) -> Table:
        """Return a table of the functions, with the calls, errors and times of each."""
        from ._functions import Totals

        return Totals(self).table()

    def save(self, path: str | PathLike[str]) -> None:
        """Write the calls to a file, in the format of its suffix.

        ``.jsonl``: JSON lines, which `read` reads; ``.json``: Chrome's trace format, which ui.perfetto.dev and
        speedscope.app open; ``.html``: one page, for a browser.

        Raises:
            ValueError: The suffix is none of these.
        """
        from ._json_lines import lines
        from ._saving import save

        save(lines(self, self._recorder.started, self._recorder.headers), path)

    # Showing

    def __repr__(self) -> str:
        return f"<tape of {plural(len(self), 'call')}>"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, *, times: bool = True) -> list[str]:
        """Return the lines of the tree, with or without modules and times."""
        tree = ["  " * depth + (line_of(call) if times else str(call)) for depth, call in self._tree()]
        return tree or ["nothing was called"]

    def _tree(self) -> Iterator[tuple[int, RecordedCall]]:
        """Yield the calls below their parents, each with its depth; those of several tasks began in turns."""
        waiting = [(0, call) for call in reversed(list(self)) if call.parent is None]
        while waiting:
            depth, call = waiting.pop()
            yield depth, call
            waiting += [(depth + 1, one) for one in reversed(call.children)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


# What makes a tape is called by what it does.
record = Tape


def line_of(call: RecordedCall) -> str:
    """Return a call as a line, with its module and how long it took."""
    module, colon, _ = call.label.partition(":")
    duration = "" if call.duration is None else f"  {shown_time(call.duration)}"
    return f"{module + colon if colon else ''}{call}{duration}"
