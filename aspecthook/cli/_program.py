"""Running a program that is not changed: its command line, its environment, its signals and its exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

from aspecthook._errors import AspecthookError
from aspecthook._hints import Any, Never, final

from ._names import VARIABLE, names_of

_STARTUP = os.path.join(os.path.dirname(__file__), "_startup")
# With one of these Python does not read PYTHONPATH, or does not import `site`.
_DEAF = frozenset("IES")
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
    """

    __slots__ = ("_child", "_pipe", "command", "name", "path")

    def __init__(self, words: Sequence[str]) -> None:
        if not words:
            raise ProgramError("there is no program to run; name it after '--', as in: -- app.py, or: -- pytest")
        self.command, self.path = _command(list(words))
        self.name = next(iter(names_of(words)), "python")
        self._child: subprocess.Popen[bytes] | None = None
        self._pipe = -1

    def start(self) -> None:
        """Start Python, which loads what it needs and then waits for `watch`; what is not Python is not started.

        Without `watch`, it ends before the first line of the program: when `close` is called, or this process ends.
        """
        if _is_python(self.command[0]):
            end, self._pipe = os.pipe()
            self._child = self._popen(self.environment({"pipe": end}, spawned=True), pass_fds=(end,))
            os.close(end)

    def close(self) -> None:
        """End a program that has been started and waits."""
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
            if self._child is not None:
                self._child.wait()

    def _popen(self, environment: Mapping[str, str], *, pass_fds: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self.command, env=environment, restore_signals=False, pass_fds=pass_fds)

    def _begin(self, settings: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        environment = self.environment(settings, spawned=True)
        if self._child is None:
            return self._popen(environment)
        pipe, self._pipe = self._pipe, -1
        try:
            with open(pipe, "w", encoding="utf-8") as file:
                file.write(environment[VARIABLE])
        except BrokenPipeError:  # it has been killed meanwhile
            pass
        return self._child

    def environment(self, settings: Mapping[str, Any], *, spawned: bool) -> dict[str, str]:
        """Return the environment in which each Python process of the program begins with these settings."""
        before = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one and one != _STARTUP]
        return {
            **os.environ,
            VARIABLE: json.dumps(
                {
                    **settings,
                    "path": self.path,
                    "names": names_of(self.command[1:]),
                    "process": os.getpid(),
                    "spawned": spawned,
                }
            ),
            "PYTHONPATH": os.pathsep.join([_STARTUP, *before]),
        }

    def execute(self, settings: Mapping[str, Any]) -> Never:
        """Become the program: the process stays the same one."""
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(self.command[0], self.command, self.environment(settings, spawned=False))

    def watch(self, settings: Mapping[str, Any], look: Callable[[], None]) -> int:
        """Run the program in a process of its own. Return its exit status, below zero for the signal that ended it.

        Args:
            settings: What to do in each of its processes.
            look: Called again and again while it runs.
        """
        child: subprocess.Popen[bytes] | None = None
        early: list[int] = []

        def forward(number: int, _: object) -> None:
            if child is None:
                early.append(number)
            elif number not in _KEYS or not _has_terminal():  # a terminal tells the program itself
                child.send_signal(number)

        before = {number: signal.signal(number, forward) for number in _FORWARDED}
        try:
            child = self._begin(settings)
            for number in early:
                forward(number, None)
            ended = threading.Event()
            waiter = threading.Thread(target=_await, args=(child, ended), daemon=True)
            waiter.start()
            while not ended.wait(_SECONDS):
                look()
            waiter.join()
            return child.returncode
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _await(child: subprocess.Popen[bytes], ended: threading.Event) -> None:
    child.wait()
    ended.set()


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
        _refuse_deaf(words)
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
        _refuse_deaf(words[1:])
    return [os.path.abspath(found), *words[1:]], os.getcwd()


def _refuse_deaf(words: Sequence[str]) -> None:
    """Refuse options of Python with which our `sitecustomize` would not run."""
    for word in words:
        if not word.startswith("-") or word in ("-", "--") or word[1] in "mc" or word.startswith("--"):
            return
        for letter in word[1:]:
            if letter in _WITH_VALUE or letter in "mc":
                break
            if letter in _DEAF:
                raise ProgramError(
                    f"with {word} Python starts without what aspecthook adds, and nothing is woven; leave out -{letter}"
                )
