"""Profiles of Hypothesis, by HYPOTHESIS_PROFILE, and which tests `make test` leaves to `make test-all`.

The profiles: `dev` unless one is given, `brief` on other Pythons, `full` in CI for laws and removal, `deep` for a hunt.
The first two draw the same examples in each run, so that a failure comes again; the others draw new ones.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies

slow = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dev", parent=slow, max_examples=50, derandomize=True)
settings.register_profile("brief", parent=slow, max_examples=25, derandomize=True)
settings.register_profile("full", parent=slow, max_examples=200)
settings.register_profile("deep", parent=slow, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

# Folders of tests that take long and seldom fail: other libraries beside ours, and the pages of the documentation.
WIDE = ("docs", "third_party")


@pytest.fixture(scope="session")
def _first_property() -> None:
    """Have Hypothesis register its random numbers: it asks who refers to them, and after a freeze 3.14 says nobody."""

    @settings(derandomize=True, max_examples=1)
    @given(strategies.none())
    def holds(_: None) -> None:
        pass

    holds()


@pytest.fixture(autouse=True, scope="module")
def _quick_collections(_first_property: None) -> None:
    """Leave what a module of tests did not make itself out of its garbage collections: some tests collect often."""
    gc.collect()
    gc.freeze()


# A shell that starts us in the background has Ctrl-C ignored, and so would be the one that tests press.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Trace the next test as this one was traced: pdb stops tracing when it ends, and coverage.py traces."""
    before = sys.gettrace()
    try:
        return (yield)
    finally:
        if sys.gettrace() is not before:
            sys.settrace(before)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the wide folders."""
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).parts[0] in WIDE:
            item.add_marker("wide")
