"""Programs that nobody has changed: they run as without us, and so do their children, and their calls are seen."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from aspecthook.cli._names import VARIABLE
from aspecthook.record import read

from .conftest import Run, environment

APP = '''\
"""A program."""
import os, sys

def price(item, token="s3cret-token"):
    return {"tea": 3.5}[item]

class Cart:
    def __init__(self):
        self.total = 0

    def add(self, item):
        self.total += price(item)

def main():
    cart = Cart()
    cart.add("tea")
    price("tea")
    print(cart.total, sys.argv, sys.path, __name__, __file__, __spec__ and __spec__.name)
    print(sys.flags, sys.stdin.read(), "sitecustomize" in sys.modules)
    print("to stderr", file=sys.stderr)
    if "fail" in sys.argv:
        price("milk")
    sys.exit(3)

if __name__ == "__main__":
    main()
'''


@pytest.fixture
def app(tmp_path: Path) -> Path:
    path = tmp_path / "app.py"
    path.write_text(APP)
    return path


def test_a_program_is_what_it_is_without_us(aspecthook: Run, python: Run, app: Path) -> None:
    alone = python("app.py", "a b", "--flag")
    traced = aspecthook("trace", "__main__:*", "--", "app.py", "a b", "--flag")
    assert (traced.returncode, traced.stdout) == (alone.returncode, alone.stdout) and alone.returncode == 3
    assert traced.stderr.startswith("to stderr\n")
    alone, traced = python("-X", "dev", "-m", "app"), aspecthook("trace", "app:Cart.*", "--", "-X", "dev", "-m", "app")
    assert (traced.returncode, traced.stdout) == (3, alone.stdout) and "dev_mode=True" in traced.stdout
    assert "__main__:Cart.add" in traced.stderr and "__main__:price" not in traced.stderr


def test_the_tree_and_the_table_are_shown(aspecthook: Run, app: Path) -> None:
    lines = aspecthook("trace", "__main__:*", "--", "app.py").stderr.splitlines()
    tree = [line.rpartition("  ")[0] for line in lines[1:5]]
    assert tree == [
        "__main__:main() raised SystemExit: 3",
        "  __main__:Cart.add(item='tea') -> None",
        "    __main__:price(item='tea', token='s3cret-token') -> 3.5",
        "  __main__:price(item='tea', token='s3cret-token') -> 3.5",
    ]
    assert lines[6].split() == ["function", "calls", "errors", "total", "own", "p50", "p99"]
    rows = {line.split()[0]: line.split()[1:3] for line in lines[7:]}
    assert rows == {"__main__:main": ["1", "1"], "__main__:Cart.add": ["1", "0"], "__main__:price": ["2", "0"]}


@pytest.mark.parametrize("target", ["app:price", "__main__:price"])
def test_the_file_of_a_program_has_two_names(aspecthook: Run, app: Path, target: str) -> None:
    done = aspecthook("trace", target, "-o", "calls.jsonl", "--lines", "0", "--", "app.py")
    tape = read(app.parent / "calls.jsonl")
    assert [call.label for call in tape] == ["__main__:price", "__main__:price"] and "Cart" not in done.stderr


def test_code_that_a_program_executes_does_not_end_the_watch_for_its_definitions(
    aspecthook: Run, tmp_path: Path
) -> None:
    """Dataclasses are made so; up to Python 3.11 nothing that followed was traced."""
    (tmp_path / "app.py").write_text("""
def fail(): raise KeyError
try: fail()
except KeyError: exec('pass')
def second(): ...
if second is None:
    def slow(): return 2
else:
    @staticmethod
    def slow(): return 3
second(), slow()
square = lambda x: x * x
square(3)
for x in range(2000): square(x)
late = lambda: 1
late()
""")
    said = aspecthook("trace", "app:*", "--", "app.py").stderr
    assert "__main__:second() -> None" in said and "__main__:slow() -> 3" in said
    # What an expression makes after the last `def` was not traced, nor was a last `def` with a decorator.
    assert "__main__:<lambda>(x=3) -> 9" in said and "__main__:<lambda>()" not in said  # the watch has an end


def test_what_is_redacted_is_in_no_output(aspecthook: Run, app: Path) -> None:
    done = aspecthook(*("trace", "app:*", "--redact", "*token*", "-o", "a.jsonl", "-o", "a.json", "--", "app.py"))
    assert done.returncode == 3 and "token=<redacted>" in done.stderr
    outputs = [done.stderr, *[(app.parent / name).read_text() for name in ("a.jsonl", "a.json")]]
    assert not [text for text in outputs if "s3cret" in text]
    assert json.loads(outputs[2])


def test_a_depth_limits_what_is_shown_however_many_calls_there_are(aspecthook: Run) -> None:
    program = "def g(): ...\ndef f(): g()\nfor _ in range(11_000): f()"
    done = aspecthook("trace", "__main__:*", "--max-depth", "1", "--lines", "1", "--", "-c", program)
    assert "__main__:f " in done.stderr and "__main__:g" not in done.stderr


def test_the_last_calls_alone_can_be_kept(aspecthook: Run, app: Path) -> None:
    done = aspecthook("trace", "app:*, app:Cart.*", "--last", "2", "-o", "calls.jsonl", "--", "app.py")
    assert [call.name for call in read(app.parent / "calls.jsonl")] == ["main", "price"]
    assert "__main__:price " in done.stderr and "Cart.add" not in done.stderr


def test_without_a_pointcut_the_programs_own_code_is_traced(aspecthook: Run, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("""
import json, settings, sys, till.drawer, util
def main(): return util.add(till.drawer.count(), len(json.dumps(1)))
print(main(), sys.argv[1:])
""")
    (tmp_path / "settings.py").write_text("RATE = 1")  # nothing to trace, and no reason to complain
    for name in ("old:copy.py", "!z.py"):  # of which Python lists modules
        (tmp_path / name).touch()
    (tmp_path / "util.py").write_text("def add(a, b): return a + b")
    (tmp_path / "till").mkdir()
    (tmp_path / "till" / "__init__.py").touch()
    (tmp_path / "till" / "drawer.py").write_text("def count(): return 2")
    for words in (["app.py"], ["--", sys.executable, "-m", "app"]):
        done = aspecthook("trace", "-o", "calls.jsonl", *words, "-o", "x")
        assert (done.returncode, done.stdout) == (0, "3 ['-o', 'x']\n"), done.stderr
        tape = read(tmp_path / "calls.jsonl")
        assert [call.label for call in tape] == ["__main__:main", "till.drawer:count", "util:add"]
        assert "settings" not in done.stderr


def test_a_name_that_the_program_lacks_is_told_once(aspecthook: Run, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def work(): ...")
    said = aspecthook("trace", "app:wrk", "--", "app.py").stderr.splitlines()[-1]
    assert said == (
        "aspecthook: __main__ is imported, but __main__:wrk cannot be woven: the module __main__ has no 'wrk'; "
        "did you mean 'work'?"
    )


def test_a_module_that_is_not_there_is_told(aspecthook: Run, app: Path) -> None:
    done = aspecthook("trace", "shopp:*", "-o", "calls.html", "--", "app.py")
    assert (app.parent / "calls.html").exists()  # also where nothing was called
    assert done.returncode == 3 and "aspecthook: 'shopp:*' waits: there is no module 'shopp'" in done.stderr


def test_the_program_has_the_warnings_about_its_own_weavings(aspecthook: Run, python: Run, tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text("def f(): pass\n")
    program = "from aspecthook import weave\nweave('late:g', pre=print)\nimport late"
    words = "-W", "error::aspecthook.WeaveWarning", "-c", program
    alone, traced = python(*words), aspecthook("trace", "late:h", "--", *words)
    assert (alone.returncode, traced.returncode) == (1, 1)
    last = alone.stderr.splitlines()[-1]
    assert "late:g cannot be woven" in last and last in traced.stderr.splitlines()
    assert "aspecthook: late is imported, but late:h cannot be woven" in traced.stderr


def test_a_target_that_is_not_there_ends_a_program_before_it_begins(aspecthook: Run) -> None:
    done = aspecthook("trace", "os:no_such_function", "--", "-c", "print('it ran')")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("aspecthook: os:no_such_function cannot be woven") and done.stderr.count("\n") == 1


def test_descriptors_that_are_meant_for_the_program_reach_it(tmp_path: Path) -> None:
    """As systemd, make and shells pass them."""
    own, other = os.pipe()
    command = [sys.executable, "-m", "aspecthook", "trace", "json:*", "--", "-c", f"import os; os.write({other}, b'.')"]
    done = subprocess.run(command, env=environment(), cwd=tmp_path, pass_fds=[other], check=False, timeout=60)
    os.close(other)
    with open(own, "rb") as pipe:
        assert (done.returncode, pipe.read()) == (0, b".")


def test_the_python_children_of_another_command_are_traced(aspecthook: Run, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(f"#!/bin/sh\n{sys.executable} -c 'import json; json.dumps(1)'\necho $0\nexit 4\n")
    (tmp_path / "run.sh").chmod(0o700)
    done = aspecthook("trace", "json:*", "--", "./run.sh")
    assert (done.returncode, done.stdout) == (4, f"{tmp_path / 'run.sh'}\n") and "json:dumps(obj=1" in done.stderr


def test_ctrl_c_ends_a_program_by_its_signal(aspecthook: Run, python: Run) -> None:
    """Showing its traceback loaded modules that evaluate text, after which Python up to 3.12 ended with status 1."""
    program = "import json; json.dumps(1); raise KeyboardInterrupt"
    traced = aspecthook("trace", "json:dumps", "--lines", "0", "--", "-c", program)
    assert traced.returncode == python("-c", program).returncode == -signal.SIGINT
    assert "KeyboardInterrupt\n" in traced.stderr


@pytest.mark.parametrize(("number", "status"), [("SIGTERM", 15), ("SIGKILL", 9), ("SIGINT", 2)])
def test_a_signal_that_kills_the_program_kills_the_command(aspecthook: Run, number: str, status: int) -> None:
    kill = f"signal.signal(2, signal.SIG_DFL); os.kill(os.getpid(), signal.{number})"
    missing = "with suppress(OSError): os.execv('nowhere', ['x'])"  # it goes on, and is recorded as before
    program = f"from contextlib import suppress; import os, signal, json\n{missing}\njson.dumps(1); {kill}"
    done = aspecthook("trace", "json:dumps", "--", "-c", program)
    assert done.returncode == -status
    assert "json:dumps(obj=1" in done.stderr and "function" in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("number", ["HUP", "INT"])
def test_a_signal_that_is_ignored_as_under_nohup_stays_ignored(tmp_path: Path, number: str) -> None:
    program = f"import os, signal; os.kill(os.getpid(), signal.SIG{number}); print('on')"
    command = [sys.executable, "-m", "aspecthook", "trace", "json:dumps", "--", "-c", program]
    shell = f"trap '' {number}; exec {shlex.join(command)}"
    done = subprocess.run(
        ["sh", "-c", shell], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout == "on\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP])
def test_signals_reach_the_program(tmp_path: Path, number: signal.Signals) -> None:
    program = f"""
import json, signal, sys, time
told = []  # no Event: its `set` waits for a lock that `wait`, which the handler interrupts, may hold
signal.signal({int(number)}, lambda number, frame: told.append(number))
print("ready", flush=True)
while not told: time.sleep(0.05)
json.dumps("told")
sys.exit(7)
"""
    command = [sys.executable, "-m", "aspecthook", "trace", "json:dumps", "--", "-c", program]
    process = subprocess.Popen(
        command,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        start_new_session=True,  # without a terminal, which would send Ctrl-C to the program itself
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 7 and "obj='told'" in err


def test_the_tree_is_shown_while_the_program_runs(tmp_path: Path) -> None:
    (tmp_path / "serve.py").write_text(
        "import sys\ndef inner(n): ...\ndef serve():\n    for line in sys.stdin:\n        inner(line)\nserve()\n"
    )
    command = [sys.executable, "-m", "aspecthook", "trace", "serve:*", "--", "serve.py"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, env=environment(), cwd=tmp_path, stdin=pipe, stderr=pipe, text=True)
    with process:
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write("first\n")
        process.stdin.flush()
        assert process.stderr.readline().startswith("  __main__:inner(n='first\\n') -> None")
        process.stdin.close()
        assert process.stderr.readline().startswith("__main__:serve() -> None")


def test_standard_error_that_is_closed_does_not_disturb_the_program(app: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "aspecthook", "trace", "app:*", "--", "-c", "import app; print(app.price('tea'))"]
    done = subprocess.run(
        command, env=environment(), cwd=app.parent, stdout=subprocess.PIPE, stderr=write_end, check=False, timeout=60
    )
    os.close(write_end)
    assert (done.returncode, done.stdout) == (0, b"3.5\n")


FAILING = """
import asyncio, logging, threading, traceback

class Shop:
    def price(self, item, deep=2):
        return self.price(item, deep - 1) if deep else {}[item]

    def prices(self, items):
        yield self.price(items[0])

async def order(item):
    await asyncio.sleep(0)
    return Shop().price(item)

def main():
    thread = threading.Thread(target=Shop().price, args=("tea",))
    thread.start()
    thread.join()
    try:
        list(Shop().prices(["milk"]))
    except KeyError as error:
        frames = list(traceback.walk_tb(error.__traceback__))
        logging.exception("failed")
        assert list(traceback.walk_tb(error.__traceback__)) == frames
        traceback.print_exc()
    try:
        asyncio.run(order("oats"))
    except KeyError as error:
        raise LookupError("oats") from error

main()
"""


def test_tracebacks_have_no_frames_of_ours(aspecthook: Run, python: Run, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(FAILING)
    alone = python("app.py")
    traced = aspecthook("trace", "app:*, app:Shop.*", "--lines", "0", "--", "app.py")
    assert (alone.returncode, traced.returncode) == (1, 1)
    shown, _, table = traced.stderr.rpartition("\nfunction ")
    assert shown.rstrip() == alone.stderr.rstrip() and "__main__:Shop.price" in table


DEEP = """
import functools

def down(n):
    return 0 if n == 0 else 1 + down(n - 1)

@functools.lru_cache
def cached(n):
    return 0 if n == 0 else 1 + cached(n - 1)

def forever(n):
    return forever(n + 1)

def after(n): ...

print(down(980), cached(450))
try:
    forever(0)
except RecursionError:
    print("handled")
after("all")
"""


def test_a_program_recurses_as_deep_as_without_us_and_is_recorded_after_its_recursion_errors(
    aspecthook: Run, python: Run, tmp_path: Path
) -> None:
    # Python 3.12 counts calls through C by themselves, by a limit that nobody can raise: a cache gets half its depth.
    cached = 240 if sys.version_info[:2] == (3, 12) else 450
    (tmp_path / "app.py").write_text(DEEP.replace("cached(450)", f"cached({cached})"))
    alone = python("app.py")
    traced = aspecthook("trace", "app:*", "--lines", "0", "-o", "calls.jsonl", "--", "app.py")
    assert (traced.returncode, traced.stdout) == (0, alone.stdout) and alone.stdout == f"980 {cached}\nhandled\n"
    tape = read(tmp_path / "calls.jsonl")
    assert (len(tape.calls("down")), len(tape.calls("cached")), len(tape.calls("after"))) == (981, cached + 1, 1)
    assert all(call.ended for call in tape) and "Warning" not in traced.stderr

    # The same, where calls are only counted, in a process that ends without exit handlers.
    many = "def many(n): ...\nfor n in range(20_000): many(n)\n"
    end = "import os, sys\nsys.stdout.flush()\nos._exit(0)\n"
    (tmp_path / "app.py").write_text(many + (tmp_path / "app.py").read_text() + end)
    counted = aspecthook("trace", "app:*", "--lines", "1", "--", "app.py")
    table = counted.stderr.partition("\nfunction ")[2].splitlines()[1:]
    rows = {line.split()[0].removeprefix("__main__:"): line.split()[1:3] for line in table}
    assert counted.stdout == alone.stdout and int(rows.pop("forever")[0]) > 300
    want = {"many": 20_000, "down": 981, "cached": cached + 1, "after": 1}
    assert rows == {name: [str(calls), "0"] for name, calls in want.items()}


def test_a_program_that_closes_all_descriptors_gets_nothing_of_ours_in_its_files(
    aspecthook: Run, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text("""
import os
def note(n): ...
note(1)
os.closerange(3, 2048)
with open("its own", "w") as file, open("another", "w"):
    note(2)
    file.write("mine")
note(3)
""")
    done = aspecthook("trace", "app:*", "-o", "calls.jsonl", "--", "app.py")
    assert (done.returncode, (tmp_path / "its own").read_text(), (tmp_path / "another").read_text()) == (0, "mine", "")
    assert [call.shown_arguments() for call in read(tmp_path / "calls.jsonl")] == [{"n": "1"}, {"n": "2"}, {"n": "3"}]


# Children


CHILDREN = {
    "subprocess": "subprocess.run([sys.executable, '-c', 'import shop; shop.price(1)'], check=True)",
    "fork": "multiprocessing.get_context('fork').Pool(1).map(shop.price, [1])",
    "spawn": "multiprocessing.get_context('spawn').Pool(1).map(shop.price, [1])",
    "forkserver": "multiprocessing.get_context('forkserver').Pool(1).map(shop.price, [1])",
    "os.fork": "os.fork() or (shop.price(1), os._exit(0)); os.wait()",
}


@pytest.mark.parametrize("way", CHILDREN)
def test_calls_of_children_are_traced(aspecthook: Run, tmp_path: Path, way: str) -> None:
    (tmp_path / "shop.py").write_text("def price(n): return n")
    (tmp_path / "app.py").write_text(
        "import multiprocessing, os, subprocess, sys, shop\ndef price(): ...\n"
        f"if __name__ == '__main__':\n    shop.price(0)\n    {CHILDREN[way]}"
    )
    done = aspecthook("trace", "shop:*, app:price", "-o", "calls.jsonl", "-o", "calls.json", "--", "app.py")
    assert done.returncode == 0 and "aspecthook: " not in done.stderr, done.stderr  # it spoke of `__mp_main__`
    calls = read(tmp_path / "calls.jsonl").calls("shop:price")
    assert [call.shown_arguments() for call in calls] == [{"n": "0"}, {"n": "1"}]
    processes = {call.process: f"process {call.process}" for call in calls}
    assert len(processes) == 2
    events = json.loads((tmp_path / "calls.json").read_text())["traceEvents"]
    slices = [one for one in events if one["ph"] == "X"]
    begins = {one["pid"]: one["ts"] for one in slices}
    assert begins == {call.process: pytest.approx(call.begin * 1e6, abs=1) for call in calls}
    names = {one["pid"]: one["args"]["name"] for one in events if one["name"] == "process_name"}
    assert processes.items() <= names.items()
    lanes = {(one["pid"], one["tid"]) for one in events if one["name"] == "thread_name"}
    assert lanes == {(one["pid"], one["tid"]) for one in slices} and len({lane for _, lane in lanes}) == 2


def test_a_child_that_cannot_be_woven_says_so_and_runs_without_hooks(aspecthook: Run, tmp_path: Path) -> None:
    program = f"""
import json, os, subprocess, sys
settings = json.loads(os.environ[{VARIABLE!r}])
settings["trace"]["targets"] = ["os:nothing"]
os.environ[{VARIABLE!r}] = json.dumps(settings)
sys.exit(subprocess.run([sys.executable, "-c", "print('it ran')"]).returncode)
"""
    done = aspecthook("trace", "json:dumps", "-o", "calls.json", "--", "-c", program)
    assert (done.returncode, done.stdout) == (0, "it ran\n")
    assert re.search(r"^aspecthook: process \d+ runs without hooks: os:nothing cannot be", done.stderr, re.MULTILINE)
    assert (tmp_path / "calls.json").read_text().count("process_name") == 1  # the child has left no recording


def test_a_subinterpreter_begins_without_us(aspecthook: Run, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("""
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
one = interpreters.create()
failed = interpreters.run_string(one, "import sys; assert not [name for name in sys.modules if 'aspecthook' in name]")
print("failed" if failed else "fine")
""")
    done = aspecthook("trace", "json:*", "--", "app.py")
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr


# The start-up module


def test_the_sitecustomize_of_the_environment_runs_too(aspecthook: Run, tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("print('mine', __file__)")
    root = environment()["PYTHONPATH"]
    program = "import sys, sitecustomize; print(sitecustomize.__file__, [one for one in sys.path if '_startup' in one])"
    done = aspecthook("trace", "json:*", "--", "-c", program, env={"PYTHONPATH": f"{folder}{os.pathsep}{root}"})
    mine = folder / "sitecustomize.py"
    assert done.stdout.splitlines()[-2:] == [f"mine {mine}", f"{mine} []"]


def test_a_program_that_replaces_itself_is_still_traced(aspecthook: Run, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "import os, sys, json\njson.dumps(len(sys.argv))\nfor n in range(20_000): json.loads('1')\n"
        "if len(sys.argv) == 1: os.execv(sys.executable, [sys.executable, 'app.py', 'again'])\n"
    )
    # Calls that were only counted were lost, those of the last half second.
    table = aspecthook("trace", "json:loads", "--lines", "0", "--", "app.py").stderr
    assert " 40000 " in table, table
    done = aspecthook("trace", "json:dumps", "-o", "calls.jsonl", "--", "app.py")
    assert done.returncode == 0 and "obj=1" in done.stderr and "obj=2" in done.stderr
    assert [call.shown_arguments()["obj"] for call in read(tmp_path / "calls.jsonl")] == ["1", "2"]


# run and list


def test_run_weaves_what_a_file_names(aspecthook: Run, app: Path) -> None:
    folder = app.parent / "config"
    folder.mkdir()
    (folder / "ops.py").write_text("""
from aspecthook import post, Priority

class Times:
    def __init__(self, factor, kind=None):
        self.factor, self.kind = factor, kind
    @post
    def change(self, result):
        print(self.kind)
        return result * self.factor
def note(item): print("note", item)
""")
    (folder / "aspects.toml").write_text("""
[[weave]]
target = "app:price"
aspect = "ops:Times"
arguments = { factor = 10, kind = { import = "builtins:KeyError" } }

[[weave]]
target = "app:price"
pre = "ops:note"
name = "noted"
every = 2
""")
    done = aspecthook("run", "--config", "config/aspects.toml", "--", "app.py")
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("<class 'KeyError'>\nnote tea\n<class 'KeyError'>\n35.0 ['app.py']")
    listed = aspecthook("list", "--config", "config/aspects.toml", "--", "app.py")
    assert listed.returncode == 3
    assert "__main__:price, 2 hooks" in listed.stderr and " noted " in listed.stderr
    assert listed.stderr.endswith("\n1 mount point\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[weave]", "is not valid TOML"),
        ("", "has no table [[weave]]; add one, in double brackets"),
        ("weave = [1]", "number 1 is an int; write a table, [[weave]]"),
        ("[[weave]]\ntarget = 'app:f'\naspect = 'retry'\narguments = { attemps = 5 }", "unexpected keyword argument"),
        ("weaves = 1", "has 'weaves'; did you mean 'weave'?"),
        ("[[weave]]\naspect = 'retry'", 'has no target; name one: target = "module:name"'),
        ("[[weave]]\ntarget = 'app'\npre = 'builtins:print'", "has no colon"),
        ("[[weave]]\ntarget = 'app:f'", "no hooks are given for"),
        ("[[weave]]\ntarget = 'app:f'\npre = 3", "pre is 3; give a string"),
        ("[[weave]]\ntarget = 'app:f'\npre = 'builtins:print'\npriorty = 3", "no 'priorty'; did you mean 'priority'?"),
        ("[[weave]]\ntarget = 'app:f'\npre = 'ops:f'\narguments = { a = 1 }", "hooks take none"),
        ("[[weave]]\ntarget = 'app:f'\naspect = 'retry'\narguments = 5", "write a table: arguments = { name = value }"),
        ("[[weave]]\ntarget = 'app:f'\naspect = 'no such'", "there is no aspect 'no such'"),
        ("[[weave]]\ntarget = 'app:f'\naspect = 'ops:none'", "there is no module 'ops'"),
        ("[[weave]]\ntarget = 'app:f'\naspect = 'nomod:f'", "there is no module 'nomod' for the path 'nomod:f'\n"),
        ("[[weave]]\ntarget = 'app:f'\naspect = 'builtins:dict'", "the aspect {} has no marked methods"),
        ("[[weave]]\ntarget = 'app:f'\npre = 'print'", "'print' is not an import path of the form 'package.module"),
        ("[[weave]]\ntarget = 'app:f'\naspect = 'math:floor'\narguments = { x = 1 }", "does not take these arguments"),
        ("[[weave]]\ntarget = 'os:no'\npre = 'builtins:print'", "has no 'no'"),
        ("[[weave]]\ntarget = 'os:fsdecode'\npre = 'builtins:print'\ntimes = -1", "times=-1"),
    ],
)
def test_a_config_that_is_wrong_is_refused_in_one_line(aspecthook: Run, app: Path, text: str, said: str) -> None:
    (app.parent / "a.toml").write_text(text)
    done = aspecthook("run", "--config", "a.toml", "--", "app.py")
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith("aspecthook")
    assert said in done.stderr and done.stderr.count("\n") == 1


def test_only_of_what_the_program_itself_lacks_is_something_said(aspecthook: Run, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("[[weave]]\ntarget = 'wave:no, colorsys:no'\npre = 'builtins:print'\n")
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import wave'], check=True)"
    (tmp_path / "app.py").write_text(f"{child}\nimport colorsys\n")
    said = aspecthook("run", "--config", "a.toml", "--", "app.py").stderr
    assert "colorsys:no cannot be woven" in said and "wave is imported" not in said


def test_run_is_the_program_and_no_process_beside_it(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("[[weave]]\ntarget = 'json:dumps'\npre = 'builtins:print'\n")
    words = ["run", "--config", "a.toml", "--", "-c", "import os; print(os.getpid())"]
    command = [sys.executable, "-m", "aspecthook", *words]
    process = subprocess.Popen(command, env=environment(), cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    out, _ = process.communicate(timeout=60)
    assert int(out) == process.pid
