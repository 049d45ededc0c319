"""Running a program that is not changed: its command line, its environment, its signals and its exit status."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence

from aspecthook._errors import AspecthookError
from aspecthook._hints import Any, Never, final

from ._names import VARIABLE, names_of

_STARTUP = os.path.join(os.path.dirname(__file__), "_startup")
# With one of these Python does not read PYTHONPATH, or does not import `site`.
_ISOLATING = frozenset("IES")
_WITH_VALUE = frozenset("WX")
_SUFFIXES = (".py", ".pyw", ".pyc", ".pyz")
# How often the output of the program is looked at while it runs.
_SECONDS = 0.2


class ProgramError(AspecthookError, ValueError):
    """A program that cannot be run."""


@final
class Program:
    """A program to run, as it was given after ``--``.

    ``command`` is what to execute, ``name`` what to call it, ``path`` where it finds its modules first.
    What this module imports delays the start of the program; so `json` is imported later, and `subprocess` not at all.
    """

    __slots__ = ("_child", "_pipe", "command", "name", "path")

    def __init__(self, words: Sequence[str]) -> None:
        if not words:
            raise ProgramError("there is no program to run; name it after '--', as in: -- app.py, or: -- pytest")
        self.command, self.path = _command(list(words))
        self.name = next(iter(names_of(words)), "python")
        self._child = 0  # its process, once it has been started
        self._pipe = -1  # by which it gets its settings, as long as it waits for them

    def start(self) -> None:
        """Start Python, which loads what it needs and then waits for `watch`; what is not Python is not started.

        Without `watch`, it ends before the first line of the program: when `close` is called, or this process ends.
        """
        if _is_python(self.command[0]):
            end, self._pipe = os.pipe()
            os.set_inheritable(end, True)
            self._spawn(str(end))
            os.close(end)

    def close(self) -> None:
        """End a program that has been started and waits."""
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
            _wait(self._child)

    def _spawn(self, settings: str) -> None:
        self._child = os.posix_spawn(self.command[0], self.command, _environment(settings))

    def _begin(self, settings: Mapping[str, Any]) -> None:
        text = self._text(settings, spawned=True)
        if not self._child:
            self._spawn(text)
            return
        pipe, self._pipe = self._pipe, -1
        try:
            with open(pipe, "w", encoding="utf-8") as file:
                file.write(text)
        except BrokenPipeError:  # it has been killed meanwhile
            pass

    def _text(self, settings: Mapping[str, Any], *, spawned: bool) -> str:
        import json

        names = names_of(self.command[1:])
        return json.dumps({**settings, "path": self.path, "names": names, "process": os.getpid(), "spawned": spawned})

    def execute(self, settings: Mapping[str, Any]) -> Never:
        """Become the program: the process stays the same one."""
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(self.command[0], self.command, _environment(self._text(settings, spawned=False)))

    def watch(self, settings: Mapping[str, Any], look: Callable[[], None]) -> int:
        """Run the program in a process of its own. Return its exit status, below zero for the signal that ended it.

        Args:
            settings: What to do in each of its processes.
            look: Called again and again while it runs, for the first time as it starts.
        """
        from threading import Thread

        begun = False
        early: list[int] = []
        statuses: list[int] = []

        def forward(number: int, _: object) -> None:
            if not begun:
                early.append(number)
            elif not statuses and (number not in _KEYS or not _has_terminal()):  # a terminal tells the program itself
                try:
                    os.kill(self._child, number)
                except ProcessLookupError:  # it has just ended
                    pass

        before = {number: signal.signal(number, forward) for number in _FORWARDED}
        try:
            self._begin(settings)
            begun = True
            for number in early:
                forward(number, None)
            waiter = Thread(target=lambda: statuses.append(_wait(self._child)), daemon=True)
            waiter.start()
            while waiter.is_alive():
                look()
                waiter.join(_SECONDS)
            return statuses[0]
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _environment(settings: str) -> dict[str, str]:
    """Return the environment in which each Python process of a program begins with these settings."""
    before = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one and one != _STARTUP]
    return {**os.environ, VARIABLE: settings, "PYTHONPATH": os.pathsep.join([_STARTUP, *before])}


def _wait(process: int) -> int:
    """Wait for the end of a process. Return its exit status, below zero for the signal that ended it."""
    try:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    except ChildProcessError:  # SIGCHLD was ignored as the command was started, and no status is kept
        return 0


_KEYS = (signal.SIGINT, signal.SIGQUIT)
_FORWARDED = (*_KEYS, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def end_as(status: int) -> int:
    """Return an exit status, or end as the program has ended if a signal has killed it."""
    if status >= 0:
        return status
    import resource

    number = -status
    sys.stdout.flush()
    sys.stderr.flush()
    resource.setrlimit(
        resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1])
    )  # the program has left one
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number  # not reached, unless the signal is blocked


def _has_terminal() -> bool:
    """Whether a key that is pressed at the terminal sends its signal to the program as well as to us."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _is_python(file: str) -> bool:
    """Whether it is this Python, or a script that begins with its name."""
    if file == sys.executable:
        return True
    try:
        with open(file, "rb") as script:
            return script.readline(512).rstrip() == b"#!" + os.fsencode(sys.executable)
    except OSError:
        return False


def _command(words: list[str]) -> tuple[list[str], str]:
    first = words[0]
    if first.startswith("-"):
        _refuse_isolation(words)
        return [sys.executable, *words], os.getcwd()
    is_folder = os.path.isdir(first)
    if is_folder or (os.path.isfile(first) and (first.endswith(_SUFFIXES) or not os.access(first, os.X_OK))):
        path = os.path.realpath(first)
        return [sys.executable, *words], path if is_folder else os.path.dirname(path)
    from shutil import which

    beside = os.path.dirname(sys.executable)  # the commands of this environment, whether it is activated or not
    found = which(first, path=beside) or which(first)
    if found is None:
        raise ProgramError(f"there is no file {first!r} and no command of that name; for a module write: -- -m {first}")
    if os.path.basename(found).startswith("python"):
        _refuse_isolation(words[1:])
    return [os.path.abspath(found), *words[1:]], os.getcwd()


def _refuse_isolation(words: Sequence[str]) -> None:
    """Refuse options of Python with which our `sitecustomize` would not run."""
    for word in words:
        if not word.startswith("-") or word in ("-", "--") or word[1] in "mc" or word.startswith("--"):
            return
        for letter in word[1:]:
            if letter in _WITH_VALUE or letter in "mc":
                break
            if letter in _ISOLATING:
                raise ProgramError(
                    f"with {word} Python starts without what aspecthook adds, and nothing is woven; leave out -{letter}"
                )
