"""The entry point of the pytest plugin: its options, fixtures and pytest hooks.

pytest loads this file into every run, also where nobody uses aspecthook. So it imports nothing that pytest has not
loaded already, and lies outside of the package, whose import would load the core. The rest is imported by the first
test that needs it. The core calls `hook_added` for every hook that is added, if this module is loaded.

The invariant: what a fixture has added is removed at the end of its test, in reverse order, whatever happened.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Generator, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, ParamSpec, cast, final

import pytest

if TYPE_CHECKING:
    from aspecthook._core.law.hook import Hook
    from aspecthook._core.mount.point import MountPoint
    from aspecthook.record import Tape
    from aspecthook.testing._inject import Injection
    from aspecthook.weave import Weaving

P = ParamSpec("P")

# The fixtures


@pytest.fixture(name="_aspecthook_ends")
def _ends() -> Iterator[list[Callable[[], None]]]:
    """What is removed at the end of the test; the errors of all are reported."""
    ends: list[Callable[[], None]] = []
    yield ends
    errors: list[Exception] = []
    while ends:
        try:
            ends.pop()()
        except Exception as error:
            errors.append(error)
    if errors:
        raise ExceptionGroup("not everything that the test has woven could be removed", errors)


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
    """`aspecthook.weave`, with everything woven removed at the end of the test, in reverse order."""
    from aspecthook.weave import weave

    return _until_end(weave, _aspecthook_ends)


@pytest.fixture
def tape(_aspecthook_ends: list[Callable[[], None]], request: pytest.FixtureRequest) -> Tape:
    """A `Tape` that is stopped at the end of the test: ``tape.record("shop:*")``; a failed test shows its tree."""
    from aspecthook.record import Tape

    made = Tape()
    _aspecthook_ends.append(made.stop)
    cast("pytest.Item", request.node).stash[TAPE] = made
    return made


@pytest.fixture
def spy(_aspecthook_ends: list[Callable[[], None]]) -> Callable[..., Tape]:
    """Record the calls of one target: ``spy(target)`` is a `Tape`, with ``len(tape)`` and ``.last``."""
    from aspecthook.record import Tape

    # Any: the options are those of `Tape.record`, which checks them.
    def spy(target: object, /, **options: Any) -> Tape:
        made = Tape()
        _aspecthook_ends.append(made.stop)
        return made.record(target, **options)

    return spy


@pytest.fixture
def inject(_aspecthook_ends: list[Callable[[], None]]) -> Callable[[object], Injection]:
    """Put faults into a function: ``inject(target).fail(OSError, call=2)``; see `Injection`."""
    from aspecthook.testing._inject import Injection
    from aspecthook.weave import weave

    return lambda target, /: Injection(target, _until_end(weave, _aspecthook_ends))


@pytest.fixture
def hook_orders(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Run a check in each order of hooks that is allowed, at most 120, or in that of a seed: ``hook_orders(check)``."""
    from aspecthook.testing._hook_orders import check_orders

    def hook_orders(check: Callable[[], object], *, seed: int | str = "all") -> None:
        check_orders(check, _seed_of(seed), cast("pytest.Item", request.node).nodeid, mounts)

    return hook_orders


# What a run knows of the hooks that its tests add

TAPE: pytest.StashKey[Tape] = pytest.StashKey()
_MODES = ("off", "warn", "error")
ORDERS = "hook orders"  # the section of a report that names two hooks whose order matters

watches: list[Watch] = []  # pytest may run inside of a test: the innermost one watches
mounts: weakref.WeakSet[MountPoint] = weakref.WeakSet()  # every mount point that a hook has been added to


def hook_added(mount: MountPoint, hook: Hook) -> None:
    """Record a hook that was added anywhere in the process; the core calls this."""
    mounts.add(mount)
    if watches:
        watches[-1].start()
        watches[-1].note(mount, hook)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer ``--hook-leaks``, and ``hook_leaks`` in the configuration."""
    text = "what to do about hooks that a test leaves behind: off (the default), warn or error"
    parser.getgroup("aspecthook").addoption("--hook-leaks", choices=_MODES, help=text)
    parser.addini("hook_leaks", text, default="off")
    parser.getgroup("aspecthook").addoption(
        "--hook-orders",
        nargs="?",
        const="random",
        metavar="SEED",
        help="run each test with the hooks of each mount point in another order that priorities, before= and after= "
        "allow, chosen by SEED or at random; 'all': in every such order, at most 120",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Start to watch for hooks that are added, for as long as pytest runs."""
    mode: str = config.getoption("hook_leaks") or config.getini("hook_leaks")
    if mode not in _MODES:
        raise pytest.UsageError(f"hook_leaks is {mode!r}; give one of {', '.join(_MODES)}")
    seed: str | None = config.option.hook_orders
    if seed == "random":
        # A worker of xdist parses the command line again, and must not draw a seed of its own.
        drawn = getattr(config, "workerinput", {}).get("hook_orders", str(int.from_bytes(os.urandom(3))))
        config.option.hook_orders = drawn
    elif seed is not None:
        _seed_of(seed)
    config.addinivalue_line(
        "markers", "hook_orders(seed): run the test as by --hook-orders=SEED; hook_orders(False): never"
    )
    watch = Watch(config, mode)
    watches.append(watch)
    config.add_cleanup(lambda: watches.remove(watch))
    if mounts or mode != "off":
        watch.start()


def _seed_of(seed: object) -> str:
    """Return a seed of the option, the marker or the fixture as text."""
    text = str(seed)
    if text != "all" and not text.isdigit():
        # pytest takes the word that follows the option for the seed, be it a path.
        raise pytest.UsageError(f"hook orders: {text!r}: give a whole number or 'all'; paths go before --hook-orders")
    return text


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # Any: a `WorkerController` of xdist, which may not be installed
    """Give a worker of xdist the seed that this process has drawn."""
    node.workerinput["hook_orders"] = node.config.option.hook_orders


def pytest_report_header(config: pytest.Config) -> str | None:
    """Return the line that shows in which order the hooks are run."""
    seed: str | None = config.option.hook_orders
    return None if seed is None else f"hook orders: --hook-orders={seed}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Repeat, together, which tests depend on the order of hooks."""
    failed = [*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")]
    found = [text for report in failed for title, text in report.sections if title == ORDERS]
    if found:
        terminalreporter.section(ORDERS)
        for text in found:
            terminalreporter.write_line(text)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Record which test begins. In a run that adds no hook this is all that a test costs."""
    watches[-1].begin(item)
    marker = item.get_closest_marker("hook_orders")
    given = () if marker is None else (*marker.args, *marker.kwargs.values())
    seed = given[0] if given else item.config.option.hook_orders
    if seed is None or seed is False or hasattr(getattr(item, "cls", None), "tries_orders"):
        return None
    from aspecthook.testing._hook_orders import run_item

    run_item(item, nextitem, _seed_of(seed), mounts, watches[-1].remove_added)
    return True


@final
class Watch:
    """What one run of pytest knows of the test under way: the mount points it has changed, the hooks it has added.

    Its pytest hooks are registered once there is a hook to watch.
    """

    def __init__(self, config: pytest.Config, mode: str) -> None:
        self._plugins = config.pluginmanager
        self._root = f"{config.rootpath}{os.sep}"
        self._mode = mode
        self.item: pytest.Item | None = None
        self.failed = False
        self._wide: list[str] = []  # the fixtures under way that last longer than a test
        # They forget what is gone: a test may make and drop a million of them.
        self.changed: weakref.WeakSet[MountPoint] = weakref.WeakSet()
        self.changed_by_fixture: dict[str, weakref.WeakSet[MountPoint]] = {}
        self.added: weakref.WeakKeyDictionary[Hook, tuple[weakref.ref[MountPoint], str]] = weakref.WeakKeyDictionary()

    def start(self) -> None:
        """Register the pytest hooks."""
        if not self._plugins.is_registered(self):
            self._plugins.register(self, "aspecthook-watch")

    def begin(self, item: pytest.Item) -> None:
        """Forget the last test, and record the next one."""
        self.item, self.failed = item, False
        self.changed.clear()
        self.added.clear()

    def note(self, mount: MountPoint, hook: Hook) -> None:
        """Record a hook that the running test, or one of its fixtures, has added."""
        place = _attached(self._root) if self.item is not None else None
        if place is None:
            return
        if self._wide:
            self.changed_by_fixture.setdefault(self._wide[-1], weakref.WeakSet()).add(mount)
            return
        self.changed.add(mount)
        self.added[hook] = weakref.ref(mount), place

    def remove_added(self) -> None:
        """Remove what the test has left behind, before it runs again; what imports and wide fixtures add stays."""
        for hook in list(self.added):
            hook.remove()
        self.changed.clear()
        self.added.clear()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        self._wide.append(fixturedef.argname)
        try:
            return (yield)
        finally:
            self._wide.pop()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed:
            self.failed = True
            report.sections += self.sections(item, call.excinfo)
        return report

    def sections(self, item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException] | None) -> list[tuple[str, str]]:
        """Return what a report of a failed test says of hooks. Whatever goes wrong in making it changes no outcome."""
        if not mounts:
            return []  # no hook was ever added, so the package need not be loaded
        try:
            from aspecthook.testing import _failures

            names: list[str] = getattr(item, "fixturenames", [])
            changed = [*self.changed, *(one for name in names for one in self.changed_by_fixture.get(name, ()))]
            error = None if excinfo is None else excinfo.value
            return _failures.sections(error, mounts, changed, item.stash.get(TAPE, None))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # pytest's own, such as that of `pytest.fail`, are no `Exception`
            return [("hook chains", f"could not be shown: {type(error).__name__}")]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        # Only now has pytest itself let go of what the test and its fixtures have made; and so must this.
        item = self.item
        if item is None or item.nodeid != nodeid:
            return
        self.item = None
        if TAPE in item.stash:
            del item.stash[TAPE]
        if self.added and self._mode != "off":
            from aspecthook.testing import _leaks

            fails = self._mode == "error"
            _leaks.report_leaks(item, self.added, lambda: self.sections(item, None), fails=fails, failed=self.failed)


def _attached(root: str) -> str | None:
    """Return which line of the user's has added a hook; None if a module was being imported."""
    frame: FrameType | None = sys._getframe(3)
    place: str | None = None
    while frame is not None:
        name: object = frame.f_globals.get("__name__")
        name, file = name if isinstance(name, str) else "", frame.f_code.co_filename
        if file.startswith("<frozen importlib"):
            return None
        if name.startswith("_pytest.") and not name.startswith("_pytest.assertion"):
            break
        if place is None and name.partition(".")[0] not in ("aspecthook", __name__):
            place = f"{file.removeprefix(root)}:{frame.f_lineno}"
        frame = frame.f_back
    return place
