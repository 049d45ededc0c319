"""`aspecthook attach` on programs that run: they are traced or woven, not disturbed, and left as they were."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = 60  # nothing takes as long, unless it hangs

pytestmark = pytest.mark.skipif(sys.version_info < (3, 14), reason="attaching needs Python 3.14")

SHOP = """
    import time

    def price(item, token=None):
        return len(item)

    class Cart:
        def add(self, item):
            return price(item, token="hunter2")

    def checkout(item):
        time.sleep(0.001)
        return Cart().add(item)
"""

# What a program can see of itself, and what of it changes while it is attached.
STATE = """
    import atexit, builtins, gc, importlib, json, logging, os, signal, sys, threading, time, warnings
    import shop

    FUNCTIONS = [shop.price, shop.Cart.add, shop.checkout]

    def state():
        return {
            "codes": [id(one.__code__) for one in FUNCTIONS],
            "sources": [one.__code__.co_filename for one in (shop.price, shop.Cart.add, shop.checkout)],
            "dicts": [str(type(one.__dict__)) for one in FUNCTIONS],
            "names": [sorted(vars(shop)), sorted(vars(shop.Cart))],
            "finders": [str(one) for one in sys.meta_path],
            "path": list(sys.path),
            "reload": id(importlib.reload.__code__),
            "tasks": len(os.listdir("/proc/self/task")),
            "threads": [one.name for one in threading.enumerate()],
            "files": sorted(os.listdir("/proc/self/fd")),
            # One of ours stays, and does nothing where nothing is hooked.
            "exit": atexit._ncallbacks() - ("aspecthook._core.mount.unloading" in sys.modules),
            "filters": [str(one) for one in warnings.filters],
            "signals": {str(one): str(signal.getsignal(one)) for one in signal.valid_signals()},
            "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
            "trace": str((sys.gettrace(), sys.getprofile(), threading.gettrace())),
        }

    def stops():
        return os.path.exists("stop")

    BEFORE = state()  # the functions are kept, so that the `id` of a code is its own

    def report():
        for _ in range(500):  # a thread of ours may still be on its way out
            after = state()
            changed = {name: [BEFORE[name], after[name]] for name in BEFORE if BEFORE[name] != after[name]}
            if not changed:
                break
            time.sleep(0.01)
        print(json.dumps(changed), flush=True)
"""

APP = """
    from state import *

    print("ready", flush=True)
    while not stops():
        assert shop.checkout("tea") == 3
    report()
"""


def rest_of(pipe: IO[str] | None) -> str:
    """Return what has not been read; `communicate` would lose what is in the buffer."""
    assert pipe is not None
    return pipe.read()


class Program:
    """A program that runs in a process of its own."""

    def __init__(self, folder: Path, source: str, files: dict[str, str], options: list[str]) -> None:
        for name, text in {"app.py": source, "shop.py": SHOP, "state.py": STATE, **files}.items():
            (folder / name).write_text(textwrap.dedent(text))
        self.folder = folder
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = subprocess.Popen(
            [sys.executable, *options, "app.py"],
            cwd=folder,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # its children are killed with it
        )
        self.number = str(self.process.pid)
        self.expect("ready")

    def expect(self, wanted: str) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        assert line == wanted, (line, rest_of(self.process.stderr) if not line else "")

    def stop(self, status: int = 0) -> list[str]:
        """Stop it. Return what it has printed; nothing of it on standard error."""
        (self.folder / "stop").touch()
        out, err = rest_of(self.process.stdout), rest_of(self.process.stderr)
        assert (self.process.wait(SECONDS), err) == (status, "")
        return out.splitlines()

    def stops_unchanged(self) -> None:
        """Stop it, and make sure that it has found nothing changed."""
        assert self.stop() == ["{}"]


Run = Callable[..., Program]


@pytest.fixture
def short() -> Iterator[Path]:
    """Make a folder whose path is short enough for a socket; nothing may be left in it."""
    folder = Path(tempfile.mkdtemp(prefix="ah-"))
    yield folder
    left = list(folder.iterdir())
    shutil.rmtree(folder)
    assert left == []


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    programs: list[Program] = []

    def run(source: str = APP, *options: str, **files: str) -> Program:
        named = {f"{name}.py": text for name, text in files.items()}
        programs.append(Program(tmp_path, source, named, list(options)))
        return programs[-1]

    yield run
    for one in programs:
        if one.process.poll() is None:
            os.killpg(one.process.pid, signal.SIGKILL)
        one.process.communicate()


class Command(subprocess.Popen[str]):
    """A run of the command `aspecthook`."""

    def __init__(self, folder: Path, *words: str, **more: Any) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
        if words[0] == "attach":
            words += ("--lines", "1000000")
        super().__init__(
            [sys.executable, "-m", "aspecthook", *words],
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            **more,
        )
        self.said = ""

    def hear(self, wanted: str) -> None:
        """Wait until it says something."""
        assert self.stderr is not None
        while wanted not in self.said:
            line = self.stderr.readline()
            assert line, self.said
            self.said += line

    def end(self) -> tuple[int, str]:
        """Wait for its end. Return its status, and what it has said on standard error."""
        self.said += rest_of(self.stderr)
        assert rest_of(self.stdout) == ""
        return self.wait(SECONDS), self.said


@pytest.fixture
def command(short: Path) -> Iterator[Callable[..., Command]]:
    commands: list[Command] = []

    def start(*words: str, **more: Any) -> Command:
        commands.append(Command(short, *words, **more))
        return commands[-1]

    yield start
    for one in commands:
        one.kill()
        one.communicate()


Start = Callable[..., Command]


def test_a_running_program_is_traced_and_left_as_it_was(run: Run, command: Start) -> None:
    program = run()
    status, said = command("attach", program.number, "shop:*", "--for", "0.3").end()
    assert status == 0, said
    assert "  shop:Cart.add(item='tea') -> 3" in said
    assert "detached from process" in said
    program.stops_unchanged()


def test_nothing_need_be_installed_in_the_environment_of_the_program(run: Run, command: Start) -> None:
    app = APP.replace("from state", "import sys\n    sys.path.insert(0, '')\n    from state", 1)
    program = run(app, "-I", "-S")
    status, said = command("attach", program.number, "shop:*, math:log", "--for", "0.3").end()
    assert status == 0, said
    assert "shop:checkout(item='tea') -> 3" in said
    program.stops_unchanged()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_attachment_in_order(run: Run, command: Start, number: signal.Signals) -> None:
    program = run()
    attached = command("attach", program.number, "shop:*")
    attached.hear("3 functions woven")
    attached.send_signal(number)
    status, said = attached.end()
    assert (status, "detached from process" in said) == (0, True), said
    program.stops_unchanged()


def test_the_program_detaches_itself_if_the_command_is_killed_and_nobody_else_could_read_its_folder(
    run: Run, command: Start, short: Path
) -> None:
    program = run()
    attached = command("attach", program.number, "shop:*")
    attached.hear("3 functions woven")
    [folder] = short.iterdir()
    assert (folder.stat().st_mode & 0o777, (folder / "attach.py").stat().st_mode & 0o777) == (0o700, 0o600)
    attached.kill()
    attached.end()
    for _ in range(500):
        if not list(short.iterdir()):
            break
        time.sleep(0.02)
    program.stops_unchanged()


FORKS = """
    from state import *

    def child():
        begin = time.monotonic()
        while not os.path.exists("stop-children") and time.monotonic() - begin < 60:
            shop.checkout("milk")
        shop.checkout("milk")
        report()
        os._exit(0)

    print("ready", flush=True)
    children = []
    while not stops():
        shop.checkout("tea")
        if os.path.exists("fork"):
            os.unlink("fork")
            children.append(os.fork() or child())
            print("forked", flush=True)
    assert [os.waitpid(one, 0)[1] for one in children] == [0] * len(children)
    report()
"""


def test_a_child_of_a_fork_is_traced_and_comes_off_as_well(run: Run, command: Start) -> None:
    program = run(FORKS, "-W", "always")  # Python would warn of a fork beside a thread of ours
    attached = command("attach", program.number, "shop:*")
    attached.hear("3 functions woven")
    while len(list(Path(f"/proc/{program.number}/task").iterdir())) > 1:  # it has answered, and ends at once
        time.sleep(0.01)
    (program.folder / "fork").touch()
    program.expect("forked")
    time.sleep(0.3)
    attached.send_signal(signal.SIGINT)
    status, said = attached.end()
    assert (status, "detached from process" in said) == (0, True), said
    assert "shop:checkout(item='milk') -> 4" in said
    assert "shop:checkout(item='tea') -> 3" in said
    (program.folder / "stop-children").touch()
    assert program.stop() == ["{}", "{}"]


@pytest.mark.parametrize("ends", ["os._exit(3)", "raise SystemExit(3)"])
def test_a_program_that_ends_while_attached_ends_as_ever(run: Run, command: Start, ends: str) -> None:
    app = APP.replace("report()", f"shop.checkout('the last')\n    {ends}")
    program = run(app)
    attached = command("attach", program.number, "shop:*")
    attached.hear("3 functions woven")
    program.stop(3)
    status, said = attached.end()
    assert (status, f"process {program.number} has ended" in said) == (0, True), said
    assert "shop:checkout(item='the last') -> 8" in said


OWN = """
    from state import *

    class Cart:
        def add(self, item): return item

    def create(item): return Cart().add(item)

    codes = [create.__code__, Cart.add.__code__]
    print("ready", flush=True)
    while not stops():
        create("tea")
        time.sleep(0.001)  # without it, the test reads 100,000 lines of calls
    print(codes == [create.__code__, Cart.add.__code__])
"""


def test_the_file_of_the_program_is_known_by_the_name_that_it_is_imported_by(run: Run, command: Start) -> None:
    """Nothing was woven, a page without calls was written, and the status was 0."""
    program = run(OWN)
    status, said = command("attach", program.number, "app:*", "--for", "0.3").end()
    assert (status, "2 functions woven" in said, "  __main__:Cart.add(item='tea')" in said) == (0, True, True), said
    assert program.stop() == ["True"]


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("app:craete", "the module __main__ has no 'craete'; did you mean 'create'?"),
        ("shpo:price", "nothing is woven: there is no module 'shpo' to import; did you mean 'shop'?"),
        ("app:nothing*", "'__main__:nothing*' chooses nothing"),
    ],
)
def test_a_target_that_the_program_does_not_have_is_refused_and_nothing_written(
    run: Run, command: Start, tmp_path: Path, target: str, why: str
) -> None:
    program = run(OWN)
    page = tmp_path / "calls.html"
    status, said = command("attach", program.number, target, "-o", str(page)).end()
    assert (status, page.exists(), why in said, said.count("\n")) == (2, False, True, 1), said
    assert program.stop() == ["True"]


def test_a_target_that_is_never_imported_ends_with_a_status_and_nothing_written(
    run: Run, command: Start, tmp_path: Path
) -> None:
    program = run(OWN, late="def f(): ...")
    page = tmp_path / "calls.html"
    status, said = command("attach", program.number, "late:*", "--for", "0.3", "-o", str(page)).end()
    assert (status, page.exists()) == (1, False), said
    assert "nothing is woven yet: no module 'late' has been imported" in said
    assert "nothing was woven" in said and program.stop() == ["True"]


BLOCKED = """
    from state import *
    os.mkfifo("gate")
    print("ready", flush=True)
    open("gate").close()  # in C code, until the other end is opened
    while not stops():
        time.sleep(0.01)
    report()
"""


def test_a_program_that_does_not_answer_is_left_alone(run: Run, command: Start) -> None:
    program = run(BLOCKED)
    attaching = command("attach", program.number, "shop:*")
    attaching.hear(f"waiting for process {program.number}: its main thread has to run Python code for that")
    attaching.send_signal(signal.SIGINT)
    status, said = attaching.end()
    assert status == 1 and "nothing was woven in process" in said and "has not said" not in said
    (program.folder / "gate").open("w").close()
    program.stops_unchanged()


def test_detach_ends_all_attachments(run: Run, command: Start) -> None:
    program = run()
    both = [command("attach", program.number, "shop:*"), command("attach", program.number, "shop:price")]
    for one in both:
        one.hear("woven")
    status, said = command("detach", program.number).end()
    assert (status, "2 attachments removed" in said) == (0, True), said
    for one in both:
        status, said = one.end()
        assert (status, "was detached by aspecthook detach" in said) == (0, True), said
        assert "shop:price(" in said
    program.stops_unchanged()


def test_warnings_about_an_attachment_do_not_reach_the_program(run: Run, command: Start) -> None:
    late = "def f(): return 1"
    app = APP.replace("while", "while not os.path.exists('import'): time.sleep(0.01)\n    import late\n    while", 1)
    program = run(app, late=late)
    attached = command("attach", program.number, "shop:*, late:g")
    attached.hear("3 functions woven")
    (program.folder / "import").touch()
    time.sleep(0.3)
    attached.send_signal(signal.SIGINT)
    status, said = attached.end()
    assert (status, "late is imported, but late:g cannot be woven" in said) == (0, True), said
    program.stops_unchanged()


def test_the_program_may_have_the_package_of_another_version(run: Run, command: Start) -> None:
    program = run(f"import aspecthook; aspecthook.__version__ = '0.0.9'\n{textwrap.dedent(APP)}")
    status, said = command("attach", program.number, "shop:*").end()
    assert (status, "it has aspecthook 0.0.9, and this is" in said) == (2, True), said
    program.stops_unchanged()


# Refusals


def test_a_program_that_does_not_allow_it_is_refused(run: Run, command: Start) -> None:
    program = run(APP, "-X", "disable-remote-debug")
    status, said = command("attach", program.number, "shop:*").end()
    assert (status, "was started with -X disable-remote-debug" in said) == (2, True), said
    program.stops_unchanged()


def test_a_process_that_is_no_such_python_or_not_there_is_refused(command: Start) -> None:
    with subprocess.Popen(["sleep", "60"]) as program:
        status, said = command("attach", str(program.pid), "shop:*").end()
        program.kill()
    assert (status, "it has to run the same Python as this one" in said, said.count("\n")) == (2, True, 1), said
    status, said = command("attach", str(program.pid), "shop:*").end()
    assert (status, f"there is no process {program.pid}" in said) == (2, True), said


as_root = pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root can be another user")


@as_root
def test_a_process_of_another_user_is_refused(run: Run) -> None:
    program = run()
    code = f"import os, aspecthook.cli._attach as r; os.setuid(65534); r._send({program.number}, '/dev/null')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"the operating system does not let you into process {program.number}" in done.stderr
    program.stops_unchanged()


@as_root
def test_root_attaches_to_a_process_of_another_user(run: Run, command: Start, short: Path) -> None:
    short.chmod(0o755)
    # What it needs is loaded before it becomes another user: the test's Python may be root's alone.
    change = "import importlib.util, aspecthook.cli._attached; record('shop:*', to='warm').stop(); os.setuid(65534)"
    app = APP.replace("from", "from aspecthook.record import record\n    from", 1)
    program = run(app.replace("print", f"{change}; BEFORE = state(); print", 1))
    status, said = command("attach", program.number, "shop:*", "--for", "0.3").end()
    assert (status, "detached from process" in said) == (0, True), said
    assert "shop:checkout(item='tea') -> 3" in said
    program.process.terminate()
    assert program.process.communicate() == ("", "")
