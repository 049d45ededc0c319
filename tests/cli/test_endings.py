"""However a program ends, its output and its exit status are those that it has without us."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from .conftest import Run

LEAD = """\
import asyncio, atexit, os, signal, subprocess, sys, threading, time


def f(n):
    return n


print("begin", flush=True)
"""

ENDINGS = {
    "a status": "sys.exit(3)",
    "a text": "sys.exit('bye')",
    "a status that wraps": "sys.exit(263)",
    "an exception": "f(1); raise ValueError('é')",
    "an exception in a function": "def g(): raise ValueError('x')\ng()",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "_exit": "f(1); os._exit(5)",
    "abort": "os.abort()",
    "SIGTERM": "os.kill(os.getpid(), 15)",
    "SIGKILL": "os.kill(os.getpid(), 9)",
    "SIGINT": "os.kill(os.getpid(), 2); time.sleep(9)",
    "SIGHUP": "os.kill(os.getpid(), 1)",
    "SIGSEGV": "os.kill(os.getpid(), 11)",
    "SIGPIPE": "signal.signal(13, signal.SIG_DFL); os.kill(os.getpid(), 13)",
    "an alarm": "signal.setitimer(signal.ITIMER_REAL, 0.1); time.sleep(9)",
    "a handler": "signal.signal(10, lambda *a: print('usr')); os.kill(os.getpid(), 10)",
    "exec": "os.execv('/bin/echo', ['echo', 'hi'])",
    "exec of nothing": "os.execv('/nonexistent', ['x'])",
    "a fork": "p = os.fork()\nif not p: f(2); print('child', flush=True); os._exit(0)\nos.wait(); f(3)",
    "a fork that exits": "p = os.fork()\nif not p: sys.exit(4)\nprint(os.wait()[1])",
    "a pool": "import multiprocessing as mp\nwith mp.get_context('fork').Pool(2) as p: print(p.map(f, [1, 2]))",
    "stdout closed": "sys.stdout.close()",
    "stderr closed": "sys.stderr.close()",
    "no stdout": "sys.stdout = None; print('x')",
    "descriptor 1 closed": "os.close(1); f(1)",
    "descriptor 2 closed": "os.close(2); f(1)",
    "a thread that raises": "t = threading.Thread(target=lambda: 1/0, name='t'); t.start(); t.join()",
    "a thread that exits": "t = threading.Thread(target=sys.exit, args=(4,)); t.start(); t.join(); print('on')",
    "a daemon thread": "threading.Thread(target=time.sleep, args=(9,), daemon=True).start()",
    "a thread that is last": "threading.Thread(target=lambda: (time.sleep(0.1), print(f(7)))).start()",
    "atexit": "atexit.register(lambda: print('bye', f(9)))",
    "atexit that raises": "atexit.register(lambda: 1/0)",
    "atexit that ends": "atexit.register(lambda: os._exit(7))",
    "5,000 deep": "sys.setrecursionlimit(20000)\ndef d(n): return 0 if n == 0 else 1 + d(n-1)\nprint(d(5000))",
    "too deep": "def d(n): return d(n+1)\ntry: d(0)\nexcept RecursionError: print('deep')",
    "another folder": "os.chdir('/'); f(1); print(os.getcwd())",
    "no environment": "os.environ.clear(); f(1); print(subprocess.check_output([sys.executable, '-c', 'print(5)']))",
    "a finalizer": "class D:\n    def __del__(self): print('del', self.x)\nd = D(); d.x = f(4)",
    "a generator": "def g(say=os.write):\n    try: yield f(1)\n    finally: say(1, b'closed')\nx = g(); next(x)",
    "a file left open": "f(1); out = open('left.txt', 'w'); out.write('x')\natexit.register(lambda: print(f(2)))",
    "asyncio": "async def a(): await asyncio.sleep(0); return f(3)\nprint(asyncio.run(a()))",
    "a task that is left": "async def a(): asyncio.ensure_future(asyncio.sleep(9))\nasyncio.run(a())",
    "stdin": "print(sys.stdin.read())",
    "another tracer": "sys.settrace(lambda *a: None); f(1); print(sys.gettrace() is not None)",
    "warnings that raise": "import warnings; warnings.simplefilter('error'); f(1); print('on')",
    "few descriptors": "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16)); print(f(1))",
    "no permissions": "os.umask(0o777); f(1); print('u')",
}


@pytest.mark.skipif(os.name != "posix", reason="signals and forks")
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_traced_program_ends_as_it_does_alone(aspecthook: Run, python: Run, tmp_path: Path, ending: str) -> None:
    (tmp_path / "app.py").write_text(f"{LEAD}{ENDINGS[ending]}\n", encoding="utf-8")
    alone, traced = python("app.py"), aspecthook("trace", "--lines", "0", "app.py")
    # What the command adds, the table of functions and lines that begin with its name, is the end of standard error.
    error = re.sub(r"^(function  |aspecthook: ).*", "", traced.stderr, flags=re.DOTALL | re.MULTILINE)
    assert (traced.returncode, traced.stdout) == (alone.returncode, alone.stdout), traced.stderr
    assert re.sub("0x[0-9a-f]+", "0x", error).split() == re.sub("0x[0-9a-f]+", "0x", alone.stderr).split()
    if ending == "a file left open":
        assert (tmp_path / "left.txt").read_text() == "x"
