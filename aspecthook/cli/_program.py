"""Running a program that is not changed: its command line, its environment, its signals and its exit status."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from threading import Thread

from aspecthook._errors import AspecthookError
from aspecthook._hints import Any, Never, final

from ._names import VARIABLE, names_of, read_words

_STARTUP = os.path.join(os.path.dirname(__file__), "_startup")
_SUFFIXES = (".py", ".pyw", ".pyc", ".pyz")
# How often the output of the program is looked at while it runs.
_SECONDS = 0.2


class ProgramError(AspecthookError, ValueError):
    """A program that cannot be run."""


@final
class Program:
    """A program to run, as it was given after ``--``.

    ``command`` is what to execute, ``path`` where it finds its modules first.
    """

    def __init__(self, words: Sequence[str]) -> None:
        if not words:
            raise ProgramError("there is no program to run; name it after '--', as in: -- app.py, or: -- pytest")
        self.command, self.path = _command(list(words))

    def _environment(self, settings: Mapping[str, Any], *, spawned: bool) -> dict[str, str]:
        """Return the environment in which each Python process of the program begins with these settings."""
        own = {"path": self.path, "names": names_of(self.command[1:]), "process": os.getpid(), "spawned": spawned}
        before = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one and one != _STARTUP]
        path = os.pathsep.join([_STARTUP, *before])
        return {**os.environ, VARIABLE: json.dumps({**settings, **own}), "PYTHONPATH": path}

    def execute(self, settings: Mapping[str, Any]) -> Never:
        """Become the program: the process stays the same one, where the system can do that."""
        if sys.platform == "win32":
            sys.exit(self.watch(settings, lambda: None))
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(self.command[0], self.command, self._environment(settings, spawned=False))

    def watch(self, settings: Mapping[str, Any], look: Callable[[], None]) -> int:
        """Run the program in a process of its own. Return its exit status, below zero for the signal that ended it.

        Args:
            settings: What to do in each of its processes.
            look: Called again and again while it runs, for the first time as it starts.
        """
        early: list[int] = []
        child: subprocess.Popen[bytes] | None = None

        def forward(number: int, _: object) -> None:
            if child is None:
                early.append(number)
            elif number not in _KEYS or not _has_terminal():  # a terminal tells the program itself
                child.send_signal(number)

        environment = self._environment(settings, spawned=True)
        with handling(heard(_FORWARDED), forward):
            # The program inherits the descriptors that it would get without us, and what is ignored, as under `nohup`.
            child = subprocess.Popen(self.command, env=environment, close_fds=False)
            with handling(_FORWARDED, forward):
                for number in early:
                    forward(number, None)
                waiter = Thread(target=child.wait, daemon=True)
                waiter.start()
                while waiter.is_alive():
                    look()
                    waiter.join(_SECONDS)
                return child.wait()


def signals(*names: str) -> tuple[signal.Signals, ...]:
    """Return those of some signals that there are here: Windows lacks most."""
    return tuple(signal.Signals[name] for name in names if name in signal.Signals.__members__)


@contextmanager
def handling(numbers: Iterable[int], handler: Callable[[int, Any], object]) -> Generator[None]:
    """Handle signals by a function while a block runs."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def heard(numbers: Iterable[int]) -> list[int]:
    """Return those of some signals that are not ignored."""
    return [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]


_KEYS = signals("SIGINT", "SIGQUIT")
_FORWARDED = (*_KEYS, *signals("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"))


def end_as(status: int) -> int:
    """Return an exit status, or end as the program has ended if a signal has killed it."""
    if status >= 0:
        return status
    import resource

    number = -status
    sys.stdout.flush()
    sys.stderr.flush()
    # The program has left a core dump, and one is enough.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number  # not reached, unless the signal is blocked


def _has_terminal() -> bool:
    """Whether a key that is pressed at the terminal sends its signal to the program as well as to us."""
    try:
        with open("/dev/tty", "rb", buffering=0) as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return sys.platform == "win32"


def _command(words: list[str]) -> tuple[list[str], str]:
    first = words[0]
    if first.startswith("-"):
        _refuse_isolation(words)
        return [sys.executable, *words], os.getcwd()
    is_folder = os.path.isfile(os.path.join(first, "__main__.py"))
    if is_folder or (os.path.isfile(first) and (first.endswith(_SUFFIXES) or not os.access(first, os.X_OK))):
        path = os.path.realpath(first)
        return [sys.executable, *words], path if is_folder else os.path.dirname(path)
    beside = os.path.dirname(sys.executable)  # the commands of this environment, whether it is activated or not
    found = shutil.which(first, path=beside) or shutil.which(first)
    if found is None:
        raise ProgramError(f"there is no file {first!r} and no command of that name; for a module write: -- -m {first}")
    if os.path.basename(found).startswith("python"):
        _refuse_isolation(words[1:])
    return [os.path.abspath(found), *words[1:]], os.getcwd()


def _refuse_isolation(words: Sequence[str]) -> None:
    """Refuse options of Python with which it does not read PYTHONPATH, or does not import our `sitecustomize`."""
    for flag in sorted({*"IES"}.intersection(read_words(words)[0])):
        raise ProgramError(
            f"with -{flag} Python starts without what aspecthook adds, and nothing is woven; leave out -{flag}"
        )
