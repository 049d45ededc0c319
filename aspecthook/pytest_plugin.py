"""The pytest plugin: hooks that last as long as a test, faults put into functions, and hooks that a test leaves behind.

The invariant: what a fixture has put on comes off at the end of its test, in reverse order, whatever happened.
"""

from __future__ import annotations

import gc
import os
import sys
import weakref
from collections.abc import Callable, Generator, Iterator
from types import FrameType
from typing import Any, Literal, ParamSpec, Unpack, cast, final

import pytest

from aspecthook import _mount
from aspecthook._hook import Hook, Options
from aspecthook._instances import InstanceMountPoint
from aspecthook._mount import MountPoint
from aspecthook.weave import Weaving
from aspecthook.weave import weave as _weave

from .testing._inject import Injection
from .testing._tape import Tape

P = ParamSpec("P")

# The fixtures


@pytest.fixture(name="_aspecthook_ends")
def _ends() -> Iterator[list[Callable[[], None]]]:
    """What is to be taken off at the end of the test; the errors of all are reported."""
    ends: list[Callable[[], None]] = []
    yield ends
    errors: list[Exception] = []
    while ends:
        try:
            ends.pop()()
        except Exception as error:
            errors.append(error)
    if errors:
        raise ExceptionGroup("what was woven in the test could not all be taken off", errors)


def _until_end(function: Callable[P, Weaving], ends: list[Callable[[], None]]) -> Callable[P, Weaving]:
    def weave(*args: P.args, **kwargs: P.kwargs) -> Weaving:
        weaving = function(*args, **kwargs)
        ends.append(weaving.remove)
        return weaving

    weave.__wrapped__ = function  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess]
    weave.__doc__ = function.__doc__
    return weave


@pytest.fixture
def weave(_aspecthook_ends: list[Callable[[], None]]) -> Callable[..., Weaving]:
    """`aspecthook.weave`, but that everything woven comes off at the end of the test, in reverse order."""
    return _until_end(_weave, _aspecthook_ends)


@pytest.fixture
def tape(_aspecthook_ends: list[Callable[[], None]], request: pytest.FixtureRequest) -> Tape:
    """A `Tape` that is stopped at the end of the test: ``tape.record("shop:*")``; a failed test shows its tree."""
    made = Tape()
    _aspecthook_ends.append(made.stop)
    cast("pytest.Item", request.node).stash[_TAPE] = made
    return made


@pytest.fixture
def spy(_aspecthook_ends: list[Callable[[], None]]) -> Callable[..., Tape]:
    """Record the calls of one target: ``spy(target)`` is a `Tape` with ``.call_count`` and ``.last``."""

    def spy(target: object, /, **options: Unpack[Options]) -> Tape:
        made = Tape()
        _aspecthook_ends.append(made.stop)
        return made.record(target, **options)

    return spy


@pytest.fixture
def inject(_aspecthook_ends: list[Callable[[], None]]) -> Callable[[object], Injection]:
    """Put faults into a function: ``inject(target).fail(OSError, call=2)``; see `Injection`."""
    return lambda target, /: Injection(target, _until_end(_weave, _aspecthook_ends))


# What a test leaves behind


class HookLeakWarning(pytest.PytestWarning):
    """A test has left a hook behind on a function that outlives it."""


_MODES = ("off", "warn", "error")
_TAPE = pytest.StashKey[Tape]()
_FAR = 6  # that many objects from a module to what it holds
_watches: list[_Watch] = []  # pytest may run inside of a test: the innermost one watches


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer ``--hook-leaks``, and ``hook_leaks`` in the configuration."""
    text = "what to do about hooks that a test leaves behind: off, warn (the default) or error"
    parser.getgroup("aspecthook").addoption("--hook-leaks", choices=_MODES, help=text)
    parser.addini("hook_leaks", text, default="warn")


def pytest_configure(config: pytest.Config) -> None:
    """Watch the hooks that are added, for as long as pytest runs."""
    mode: str = config.getoption("hook_leaks") or config.getini("hook_leaks")
    if mode not in _MODES:
        raise pytest.UsageError(f"hook_leaks is {mode!r}; give one of {', '.join(_MODES)}")
    watch = _Watch(config, mode)
    config.pluginmanager.register(watch, "aspecthook-watch")
    _watches.append(watch)
    _mount.listeners = (*_mount.listeners, watch.told)
    config.add_cleanup(watch.end)


@final
class _Added:
    """A hook that a test has added, and where; it keeps nothing alive."""

    def __init__(self, mount: MountPoint, hook: Hook, place: str) -> None:
        self._mount = weakref.ref(mount)
        self._hook = weakref.ref(hook)
        self._place = place

    def stays(self) -> bool:
        """Say whether the hook is still on something that is still there."""
        mount, hook = self._mount(), self._hook()
        return mount is not None and _mounted(mount) is not None and any(one is hook for one in mount.members)

    def outlives(self, known: dict[int, bool]) -> bool:
        """Say whether the hook is on something that is there for other tests too; what is known is not asked again."""
        mount = self._mount()
        if mount is None or not self.stays():
            return False
        if id(mount) not in known:
            # What has no Python code has its proxy where it was found: in a class or a module.
            known[id(mount)] = hasattr(mount, "proxy") or _is_kept(_mounted(mount))
        return known[id(mount)]

    def __str__(self) -> str:
        mount, hook = self._mount(), self._hook()
        what = f"{hook.kind} hook {hook.name!r}" if hook is not None else "a hook"
        return f"{what} on {mount.name if mount is not None else 'a function'}, attached at {self._place}"


def _mounted(mount: MountPoint) -> object:
    return mount._instance() if isinstance(mount, InstanceMountPoint) else mount._ref()


def _is_kept(thing: object) -> bool:
    """Say whether a module or a fixture of many tests holds this: a traceback's frames keep it, but not for others."""
    spaces = {id(getattr(module, "__dict__", None)) for module in list(sys.modules.values())}
    seen: set[int] = set()
    level = [thing]
    for _ in range(_FAR):
        holders: list[Any] = gc.get_referrers(*level)
        seen.update((id(level), id(holders)))
        level = [one for one in holders if id(one) not in seen and not isinstance(one, _NO_HOLDERS)]
        if any(id(one) in spaces or (isinstance(one, pytest.FixtureDef) and one.scope != "function") for one in level):
            return True
        seen.update(map(id, level))
        if not level:
            return False
    return False


@final
class _Watch:
    """Is told of every hook, and says of each test which mount points it has touched and what it has left behind."""

    def __init__(self, config: pytest.Config, mode: str) -> None:
        self._root = str(config.rootpath)
        self._mode = mode
        self._item: pytest.Item | None = None
        self._wide = 0  # fixtures under way that last longer than a test
        # Both forget what is gone: a test may make and drop a million of them.
        self._added: weakref.WeakKeyDictionary[Hook, _Added] = weakref.WeakKeyDictionary()
        self._touched: weakref.WeakKeyDictionary[MountPoint, None] = weakref.WeakKeyDictionary()

    def end(self) -> None:
        """Be told nothing more."""
        _watches.remove(self)
        _mount.listeners = tuple(one for one in _mount.listeners if one != self.told)

    def told(self, mount: MountPoint, hook: Hook) -> None:
        """Take note of a hook that has been added."""
        if self._item is None or _watches[-1] is not self:
            return
        self._touched[mount] = None
        if self._mode != "off" and not self._wide:
            place = _attached(self._root)
            if place is not None:
                self._added[hook] = _Added(mount, hook, place)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._item = item
        try:
            return (yield)
        finally:
            self._item = None
            self._added.clear()
            self._touched.clear()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        wide = fixturedef.scope != "function"
        self._wide += wide
        try:
            return (yield)
        finally:
            self._wide -= wide

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed:
            report.sections += self._sections(item)
        return report

    def _sections(self, item: pytest.Item) -> list[tuple[str, str]]:
        from .testing._trace import draw_chain

        mounts = [mount for mount in self._touched if len(mount)]
        chains = [draw_chain(mount) for mount in mounts[:20]]
        chains += [f"... and {len(mounts) - 20} more mount points"] if len(mounts) > 20 else []
        taped = item.stash.get(_TAPE, None)
        found = [("hook chains", "\n\n".join(chains)), ("tape", str(taped) if taped is not None else "")]
        return [(name, text) for name, text in found if text]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        # Only now has pytest itself let go of what the test and its fixtures have made.
        item = self._item
        if item is None or item.nodeid != nodeid:
            return
        if _TAPE in item.stash:
            del item.stash[_TAPE]
        left = self._left()
        if left:
            lines = "\n".join(f"  {one}" for one in left)
            self._report(
                item,
                f"{nodeid} has left {len(left)} hook{'s' * (len(left) > 1)} behind:\n{lines}\n"
                f"put them on with the fixture `weave`, or take them off before the test ends",
            )

    def _left(self) -> list[_Added]:
        for generation in (1, 2):  # what a test has just made is young, and found fast
            if any(one.stays() for one in list(self._added.values())):
                gc.collect(generation)
        known: dict[int, bool] = {}
        return [one for one in list(self._added.values()) if one.outlives(known)]

    def _report(self, item: pytest.Item, text: str) -> None:
        if self._mode == "warn":
            try:
                item.warn(HookLeakWarning(text))
                return
            except HookLeakWarning:
                pass  # warnings are errors here
        keywords = cast("dict[str, Literal[1]]", dict.fromkeys(item.keywords, 1))
        sections = self._sections(item)
        report = pytest.TestReport(item.nodeid, item.location, keywords, "failed", text, "teardown", sections)
        item.ihook.pytest_runtest_logreport(report=report)


_NO_HOLDERS = (FrameType, _Watch)


def _attached(root: str) -> str | None:
    """Say which line of the user's has added a hook; None: one of a module that is being imported."""
    frame: FrameType | None = sys._getframe(2)
    place: str | None = None
    while frame is not None:
        name, file = str(frame.f_globals.get("__name__")), frame.f_code.co_filename
        if file.startswith("<frozen importlib"):
            return None
        if name.startswith("_pytest.") and not name.startswith("_pytest.assertion"):
            break
        if place is None and name.partition(".")[0] != "aspecthook":
            place = f"{file.removeprefix(root + os.sep)}:{frame.f_lineno}"
        frame = frame.f_back
    return place
