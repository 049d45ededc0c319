"""Showing generated code: its source in tracebacks and debuggers, for as long as the code lives.

`linecache` is where tracebacks and debuggers look for source. The invariant: an entry of ours keeps neither the code
nor any hook alive, and is empty once the code is gone.
"""

from __future__ import annotations

import linecache  # here: an import while a hook is added breaks under a signal handler that imports too (CPython 3.11)
import weakref
from collections.abc import Iterator
from functools import lru_cache
from itertools import count
from sys import version
from types import CodeType

from aspecthook._core.law.callables import code_of
from aspecthook._core.law.order import Chain
from aspecthook._core.law.signature import is_plain
from aspecthook._errors import printable
from aspecthook._hints import Any, final

from .text import Text

# Without the GIL the garbage collector looks into code objects, so their constants may lead to anything; but code that
# nobody uses any more lives until the next collection. The names in it, the file name included, are never freed.
FREE_THREADED = "free-threading" in version

_numbers = count(1)

# A hook as the source shows it: its kind, its name, its file ("" if it has none) and its line.
Origin = tuple[str, str, str, int]

# On free-threaded builds, the file names of code that is gone, by what stands before their number: they are immortal,
# so new code of the same label uses them again. And the entries of code that lives, which may be hidden meanwhile.
_unused: dict[str, list[str]] | None = {} if FREE_THREADED else None
_shown: dict[str, weakref.ref[CodeType]] | None = {} if FREE_THREADED else None


def show(code: CodeType, text: Text, names: tuple[str, ...], origins: tuple[Origin, ...]) -> None:
    """Let tracebacks and debuggers find the source of `code` for as long as it lives."""
    if _gone:
        _sweep()
    entry = _Entry(code, _forget)
    entry.filename, entry.text, entry.names, entry.origins = code.co_filename, text, names, origins
    entry.lines = None
    # Any: an entry is a tuple, or what can be used as one.
    cache: dict[str, Any] = linecache.cache
    cache[entry.filename] = entry
    if _shown is not None:
        _shown[entry.filename] = entry


def hide(code: CodeType) -> None:
    """Remove the source of code that only a collection will free."""
    if _gone:
        _sweep()
    linecache.cache.pop(code.co_filename, None)


def file_name(label: str, *, numbered: bool = True) -> str:
    """Return a new file name for generated code of a mount point, whose name is printable.

    Debuggers look for no file if a name begins with `<` and ends with `>` (`bdb.Bdb.canonic`). `warnings` (with
    `stacklevel`) and `logging` skip frames whose file name contains both `importlib` and `_bootstrap`, and so name the
    line that called the mount point, as they do without hooks.
    """
    start = f"<aspecthook {label}"
    if not numbered:
        return f"{start} importlib._bootstrap>"
    if _unused is not None:
        try:
            return _unused[start].pop()
        except LookupError:
            pass  # there is none, or another thread has taken the last one
    return f"{start}#{next(_numbers)} importlib._bootstrap>"


def origins_of(chain: Chain) -> tuple[Origin, ...]:
    """Return how the source shows the hooks of a chain, which keeps none of them alive."""
    origins: list[Origin] = []
    for hook in chain.hooks:
        code = code_of(hook.function)
        file, line = ("", 0) if code is None else (code.co_filename, code.co_firstlineno)
        origins.append((hook.kind, hook.name, file, line))
    return _shared(tuple(origins))


@lru_cache(1024)
def _shared(origins: tuple[Origin, ...]) -> tuple[Origin, ...]:
    """Return one tuple for all that are equal: functions that are woven together have the same hooks."""
    return origins


def render(text: Text, names: tuple[str, ...], name: str, origins: tuple[Origin, ...]) -> str:
    """Return the source as it is shown: with the target's own names, and beside each call which hook it calls."""
    lines = text.shown(names).split("\n")
    if is_plain(name):
        lead, _, rest = lines[0].partition("def ")
        lines[0] = f"{lead}def {name}({rest.partition('(')[2]}"
    for note in text.notes:
        alike = [origin for origin in origins if origin[0] == note.kind][note.first : note.last + 1]
        named = [(printable(name), printable(file.rpartition("/")[2]), line) for _, name, file, line in alike]
        hooks = [f"{name}, {file}:{line}" if file else name for name, file, line in named]
        few = hooks if len(hooks) <= 3 else (hooks[0], "...", hooks[-1])
        lines[note.line] += f"  # {', '.join(few)}"
    return "\n".join(lines)


@final
class _Entry(weakref.ref[CodeType]):
    """An entry of `linecache` (size, time, lines, file name) whose lines are rendered when somebody asks for them.

    linecache has lazy entries of its own, but not for file names in angle brackets. An entry without a time is not
    compared with a file. It is also the reference by which the end of its code is noticed.
    """

    __slots__ = ("filename", "lines", "names", "origins", "text")

    filename: str
    text: Text
    names: tuple[str, ...]
    origins: tuple[Origin, ...]
    lines: list[str] | None

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Iterator[Any]:
        return iter((0, None, (), self.filename))  # `linecache.checkcache`, which needs no lines

    def __getitem__(self, place: int) -> Any:
        if place != 2:
            return (0, None, (), self.filename)[place]
        code = self()
        if self.lines is None and code is not None:
            source = render(self.text, self.names, code.co_name, self.origins)
            self.lines = source.splitlines(keepends=True)
        return self.lines or []


# File names of code that is gone. A garbage collection may free code while `linecache.checkcache` iterates over the
# entries, which fails if one vanishes (before CPython 3.14). So an entry is emptied at once, and removed when
# other code is shown.
_gone: list[str] = []


def _sweep() -> None:
    """Remove the entries of code that is gone."""
    try:
        while _gone:
            linecache.cache.pop(_gone.pop(), None)
    except IndexError:
        pass  # another thread has removed the last one


def _forget(
    entry: Any,
    shown: dict[str, Any] | None = _shown,
    gone: list[str] = _gone,
    unused: dict[str, list[str]] | None = _unused,
) -> None:
    """Empty the entry of code that is gone. What it needs is bound as defaults: modules are emptied at exit."""
    filename, entry.lines, entry.origins = entry.filename, [], ()
    gone.append(filename)
    if shown is not None and unused is not None:
        shown.pop(filename, None)
        unused.setdefault(filename.rpartition("#")[0], []).append(filename)
