"""CPython's own tests of `logging` and `warnings`, which look at who has called them, with both modules woven."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

PROGRAM = """
import importlib, sys, unittest
from aspecthook import weave

suite, modules, names = sys.argv[1], sys.argv[2].split(), sys.argv[3].split()
count = 0
for module in modules:
    importlib.import_module(module)
    # `warnings.warn` itself takes the frame that called it for the one to blame, by number.
    for pointcut in (f"{module}:*", f"{module}:*.*"):
        try:
            weaving = weave(pointcut, pre=lambda: None, post=lambda: None, where=lambda one: one.__name__ != "warn")
        except ValueError:
            continue  # warnings has no methods of its own on some Pythons
        count += len(weaving.mounts)
assert count > 4, count
found = importlib.import_module(f"test.{suite}")
load = unittest.defaultTestLoader
tests = load.loadTestsFromNames(names, found) if names else load.loadTestsFromModule(found)
result = unittest.TextTestRunner(verbosity=0).run(tests)
print(result.testsRun, [str(one) for one, _ in result.failures + result.errors])
"""
# The other classes of test_logging wait for sockets and processes for most of their time.
SOME = "LoggerTest ModuleLevelMiscTest ExceptionTest BasicConfigTest LogRecordTest LoggerAdapterTest FormatterTest"


@pytest.mark.parametrize(
    ("suite", "modules", "names", "least"),
    [
        ("test_warnings", "warnings", "", 100),
        ("test_logging", "logging logging.handlers logging.config", SOME, 70),
    ],
)
def test_cpythons_own_tests_pass_while_their_module_is_woven(suite: str, modules: str, names: str, least: int) -> None:
    if importlib.util.find_spec("test") is None or importlib.util.find_spec(f"test.{suite}") is None:
        pytest.skip("this Python comes without its tests")
    command = [sys.executable, "-c", PROGRAM, suite, modules, names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    count, _, failed = done.stdout.strip().partition(" ")
    assert (failed, done.returncode) == ("[]", 0), done.stderr[-4000:]
    assert int(count) >= least
