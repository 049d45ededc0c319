"""The interpreter's own events: each is connected while somebody listens, and no trace is left when nobody does."""

from __future__ import annotations

import asyncio
import gc
import io
import os
import signal as signals
import socket
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aspecthook import Args, HookLookupError, HookOrderError, HookTypeError, MountError, Return, events, hooks
from aspecthook.events import _audits
from aspecthook.events._slots import Attribute, Link
from aspecthook.events._wiring import wired
from tests.threads import at_once

ROOT = Path(__file__).parents[2]
UNIX = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs Unix")
EVENTS = [getattr(events, name) for name in events.__all__ if name not in ("audit", "signal")]


def run(program: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a program in an interpreter of its own."""
    lead = "import sys\nfrom aspecthook import event, events, hooks\n"
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", *options, "-c", lead + program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def printed(program: str, *options: str) -> list[str]:
    """Give the lines that a program prints, which ends well and says nothing else."""
    done = run(program, *options)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.splitlines()


def globals_now() -> tuple[Any, ...]:
    """Give what of the interpreter the events change."""
    return (
        sys.excepthook,
        sys.unraisablehook,
        threading.excepthook,
        *[one for one in gc.callbacks if getattr(one, "__module__", "").startswith("aspecthook")],  # others: Hypothesis
        *map(signals.getsignal, sorted(signals.valid_signals())),
        *sys.meta_path,
        asyncio.base_events.BaseEventLoop.call_exception_handler.__code__,
        sys.modules["importlib"].import_module.__code__,
    )


def same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


@pytest.fixture(autouse=True)
def no_trace() -> Iterator[None]:
    """See that a test leaves the interpreter as it was, and no dispatcher that looks for anybody."""
    before = globals_now()
    yield
    listening = [event.__name__ for event in EVENTS if len(hooks(event))]
    assert listening == []
    assert same(globals_now(), before)
    assert not _audits._table
    assert _audits._hook is None or _audits._hook.__code__ is _audits._silent.__code__


@contextmanager
def replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def unraisable() -> None:
    """Raise where nobody can catch it."""

    class Failing:
        def __del__(self) -> None:
            raise ValueError("in __del__")

    Failing()


def fail() -> None:
    raise ValueError("in a thread")


def in_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work, name="worker")
    thread.start()
    thread.join(30)


# All of them


def test_importing_the_events_loads_nothing_heavy() -> None:
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import aspecthook.events; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    heavy = {"asyncio", "wrapt", "inspect", "signal", "socket", "subprocess", "logging"}
    assert heavy.intersection(done.stdout.split()) == set()


def test_no_event_changes_anything_until_somebody_listens() -> None:
    program = """
import atexit, gc, signal
events.signal("SIGTERM"), events.audit("open")
print(sys.excepthook, sys.unraisablehook, repr(signal.getsignal(signal.SIGTERM)), atexit._ncallbacks(), gc.callbacks)
"""
    assert printed(program) == printed(program.replace('events.signal("SIGTERM"), events.audit("open")', ""))


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_every_event_has_an_example_and_is_found_by_its_public_name(event: Any) -> None:
    assert ">>>" in event.__doc__
    assert hooks(event).name == f"aspecthook.events:{event.__name__}"


def test_a_refused_subscriber_leaves_nothing_connected() -> None:
    before = globals_now()
    with pytest.raises(HookOrderError):
        events.uncaught_exception.on(lambda: None, name="loop", before="loop")
    assert same(globals_now(), before) and not len(hooks(events.uncaught_exception))


def test_nothing_is_imported_under_the_lock() -> None:
    """An import could wait there for a thread that is importing, is told of it, and waits for the lock."""
    program = """
from aspecthook._core.mount.lock import is_changing
locked = []
class Finder:
    def find_spec(self, name, path=None, target=None):
        if is_changing(): locked.append(name)
made = [events.signal("SIGTERM"), events.audit("a.b"), events.program_exit, events.garbage_collecting]
made += [events.uncaught_exception, events.module_importing, events.file_opening]
sys.meta_path.insert(0, Finder())
for event in made:
    event.on(lambda: None)
    with hooks(event).paused(): pass
    hooks(event).clear()
print(locked, "aspecthook.weave._imports" in sys.modules)
"""
    assert printed(program) == ["[] True"]


def test_hooks_of_any_kind_connect_an_event() -> None:
    before = sys.excepthook
    post = hooks(events.uncaught_exception).add("post", lambda: None)
    assert sys.excepthook is not before
    post.remove()
    assert sys.excepthook is before


# The end of the program


def test_all_subscribers_hear_of_the_end_though_one_fails() -> None:
    program = """
events.program_exit.on(lambda: print("first"))
@events.program_exit.on
def failing(): raise ValueError("no goodbye")
events.program_exit.on(lambda: print("last"))
"""
    done = run(program)
    assert done.stdout.splitlines() == ["first", "last"] and done.returncode == 0
    assert "aspecthook.events:program_exit: on hook 'failing'" in done.stderr
    assert "ValueError: no goodbye" in done.stderr


@pytest.mark.parametrize("error", ["SystemExit(3)", "KeyboardInterrupt()", "GeneratorExit()"])
def test_all_subscribers_hear_of_the_end_though_one_ends_more_than_itself(error: str) -> None:
    """They ended the telling, where `atexit` itself runs everything that is registered."""
    program = f"""
import atexit
atexit.register(print, "registered before")
events.program_exit.always(lambda: print("always"))
events.program_exit.on(lambda: print("first"))
@events.program_exit.on
def leaving(): raise {error}
@events.program_exit.on
def failing(): raise ValueError("no goodbye")
events.program_exit.on(lambda: print("last"))
"""
    done = run(program)
    assert done.stdout.splitlines() == ["first", "last", "always", "registered before"] and done.returncode == 0
    assert "ValueError: no goodbye" in done.stderr


@pytest.mark.parametrize(
    ("ending", "lines"),
    [
        ("", ["goodbye"]),
        ("hooks(events.program_exit).clear()", []),
        ("pause = hooks(events.program_exit).paused(); pause.__enter__()", []),
        ("del goodbye; import gc; gc.collect()", []),  # without the GIL a function is freed by a collection
    ],
    ids=["there", "removed", "paused", "gone"],
)
def test_who_has_left_does_not_hear_of_the_end(ending: str, lines: list[str]) -> None:
    program = f"""
def goodbye(): print("goodbye")
registered = []
import atexit
atexit.register, atexit.unregister = registered.append, registered.remove
events.program_exit.on(goodbye)
hooks(events.program_exit).remove(goodbye)
events.program_exit.on(goodbye, weak=True)
{ending}
for one in registered: one()
"""
    assert printed(program) == lines


def test_a_subscriber_can_come_and_go_once_at_the_end() -> None:
    program = """
events.program_exit.on(lambda: print("once"), once=True)
import atexit
atexit._run_exitfuncs()
print(len(hooks(events.program_exit)))
"""
    assert printed(program) == ["once", "0"]


# Exceptions that nobody has caught


def test_the_traceback_follows_the_subscribers() -> None:
    program = """
events.uncaught_exception.on(lambda error, origin, source: print(repr(error), origin, source, file=sys.stderr))
1 / 0
"""
    done = run(program)
    lines = done.stderr.splitlines()
    assert lines[0] == "ZeroDivisionError('division by zero') main None"
    assert lines[1] == "Traceback (most recent call last):" and lines[-1] == "ZeroDivisionError: division by zero"
    assert "aspecthook" not in done.stderr  # no frame of ours is in the traceback
    assert done.returncode == 1


def test_an_answer_hides_the_report_but_the_program_fails_all_the_same() -> None:
    done = run("events.uncaught_exception.on(lambda: True)\n1 / 0\n")
    assert (done.returncode, done.stderr, done.stdout) == (1, "", "")


def test_a_subscriber_that_fails_hides_neither_its_own_failure_nor_the_first() -> None:
    program = """
@events.uncaught_exception.on
def failing(): raise LookupError("of the subscriber")
events.uncaught_exception.on(lambda error: print("told", repr(error)))
1 / 0
"""
    done = run(program)
    assert done.stdout == "told ZeroDivisionError('division by zero')\n"
    assert "LookupError: of the subscriber" in done.stderr
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")


def test_what_was_hooked_before_is_called_with_what_it_would_have_been() -> None:
    calls: list[tuple[Any, ...]] = []
    with replaced(sys, "excepthook", lambda *args: calls.append(args)):
        before = sys.excepthook
        told: list[Any] = []
        with pytest.raises(ValueError, match="in a thread") as caught:
            fail()
        with hooks(events.uncaught_exception).add("on", lambda call: told.append(call.args)):
            sys.excepthook(caught.type, caught.value, caught.tb)
        assert calls == [(caught.type, caught.value, caught.tb)] and sys.excepthook is before
        assert told == [(caught.value, "main", None)]


def test_an_exception_in_a_thread_is_told_with_the_thread() -> None:
    told: list[tuple[Any, ...]] = []
    reported: list[Any] = []
    with replaced(threading, "excepthook", reported.append):
        before = threading.excepthook
        events.uncaught_exception.on(lambda error, origin, source: told.append((str(error), origin, source.name)))
        in_thread(fail)
        hooks(events.uncaught_exception).clear()
        assert threading.excepthook is before
    assert told == [("in a thread", "thread", "worker")]
    assert [str(args.exc_value) for args in reported] == ["in a thread"]


def test_a_thread_that_exits_has_not_failed() -> None:
    reported: list[object] = []
    told: list[object] = []
    with replaced(threading, "excepthook", lambda args: reported.append(args.exc_type)):
        events.uncaught_exception.on(lambda error: told.append(error))
        in_thread(sys.exit)
        hooks(events.uncaught_exception).clear()
    assert told == [] and reported == [SystemExit]


def test_an_unraisable_exception_is_told_with_its_object() -> None:
    told: list[tuple[Any, ...]] = []
    reported: list[str] = []
    with replaced(sys, "unraisablehook", lambda args: reported.append(str(args.exc_value))):
        before = sys.unraisablehook
        events.uncaught_exception.on(
            lambda error, origin, source: told.append((str(error), origin, getattr(source, "__name__", source)))
        )
        unraisable()
        events.uncaught_exception.on(lambda: "handled", name="handler")
        unraisable()
        hooks(events.uncaught_exception).clear()
        assert sys.unraisablehook is before
    # Since 3.14 Python gives its message alone, which names the function; the source was None.
    assert [row[:2] for row in told] == [("in __del__", "unraisable")] * 2 and reported == ["in __del__"]
    assert all(row[2] == "__del__" if sys.version_info < (3, 14) else ".__del__ at" in row[2] for row in told)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
@pytest.mark.parametrize("place", ["excepthook", "unraisablehook"])
def test_what_ends_more_than_a_subscriber_leaves_no_exception_unreported(place: str, error: BaseException) -> None:
    """The report of the exception was lost."""
    reported: list[object] = []

    def leaving() -> None:
        raise error

    unraisable: Any = types.SimpleNamespace(exc_value=KeyError("x"), object=None, err_msg=None)
    with (
        replaced(sys, place, lambda *args: reported.append(args)),
        hooks(events.uncaught_exception).add("on", leaving),
        pytest.raises(type(error)),
    ):
        if place == "excepthook":
            sys.excepthook(KeyError, KeyError("x"), None)
        else:
            sys.unraisablehook(unraisable)
    assert len(reported) == 1


def test_a_subscriber_whose_own_objects_fail_is_not_told_for_ever() -> None:
    reported: list[str] = []
    told: list[str] = []

    def subscriber(error: BaseException) -> None:
        told.append(str(error))
        unraisable()

    with replaced(sys, "unraisablehook", lambda args: reported.append(str(args.exc_value))):
        events.uncaught_exception.on(subscriber)
        unraisable()
        hooks(events.uncaught_exception).clear()
    assert len(told) == 1 and len(reported) == 2


BEFORE = "import asyncio"
# Some versions of wrapt, which weaving needs, import asyncio themselves.
LATER = """
class Asyncio: __getattr__ = lambda self, name: print
sys.modules["asyncio"] = Asyncio()
import wrapt
del sys.modules["asyncio"]
"""


@pytest.mark.parametrize("first", [BEFORE, LATER], ids=["imported before", "imported later"])
def test_what_an_asyncio_task_leaves_behind_is_told_with_the_context(first: str) -> None:
    program = f"""{first}
@events.uncaught_exception.on
def told(error, origin, source):
    print(repr(error), origin, source["message"])
    return "handled" if "quiet" in str(error) else None
print("asyncio.base_events" in sys.modules)
import asyncio, gc
async def failing(word):
    raise ValueError(word)
async def main(word):
    asyncio.create_task(failing(word))
    asyncio.get_running_loop().call_soon(lambda: 1 / 0)
    await asyncio.sleep(0.01)
    gc.collect()
asyncio.run(main("loud"))
asyncio.run(main("quiet"))
plain = asyncio.BaseEventLoop.call_exception_handler
hooks(events.uncaught_exception).clear()
print(plain.__code__.co_filename == asyncio.base_events.__file__, hasattr(plain, "__wrapped__"))
asyncio.run(main("after"))
"""
    done = run(program)
    there, *lines = done.stdout.splitlines()
    assert there == str(first is BEFORE)
    assert lines.count("ValueError('loud') asyncio Task exception was never retrieved") == 1
    assert lines.count("ValueError('quiet') asyncio Task exception was never retrieved") == 1
    assert len([line for line in lines if "ZeroDivisionError" in line]) == 2
    assert lines[-1] == "True False" and len(lines) == 5
    assert done.stderr.count("ValueError: loud") == done.stderr.count("ValueError: after") == 1
    assert "ValueError: quiet" not in done.stderr and done.stderr.count("ZeroDivisionError: div") == 3


def test_an_import_of_asyncio_that_is_under_way_is_waited_for() -> None:
    program = f"""{LATER}
@events.file_opening.on
def listen(path):
    base = sys.modules.get("asyncio.base_events")
    if base is not None and not len(hooks(events.uncaught_exception)):
        print(hasattr(base, "BaseEventLoop"))
        events.uncaught_exception.on(lambda: None)
from asyncio.base_events import BaseEventLoop
print(hasattr(BaseEventLoop.call_exception_handler, "__wrapped__"))
hooks(events.uncaught_exception).clear()
print(hasattr(BaseEventLoop.call_exception_handler, "__wrapped__"))
"""
    assert printed(program) == ["False", "True", "False"]


def test_what_waits_for_an_import_leaves_no_trace_when_it_was_in_vain() -> None:
    program = f"""{LATER}
finders = list(map(id, sys.meta_path))
with hooks(events.uncaught_exception).add("on", lambda: None):
    with hooks(events.uncaught_exception).paused():
        print(list(map(id, sys.meta_path)) == finders)
    print(list(map(id, sys.meta_path)) == finders, "asyncio" in sys.modules)
print(list(map(id, sys.meta_path)) == finders)
import asyncio
print(hasattr(asyncio.BaseEventLoop.call_exception_handler, "__wrapped__"))
"""
    assert printed(program) == ["True", "False False", "True", "False"]


def test_who_is_told_of_imports_and_who_has_woven_there_come_and_go_in_any_order() -> None:
    program = """
from aspecthook import weave
import importlib
plain = importlib.import_module.__code__
calls = []
def subscribe(): return hooks(events.module_importing).add("on", lambda name: calls.append(name))
def woven(): return weave("importlib:import_module", pre=lambda name: calls.append("woven"))
for first, second in ((subscribe, woven), (woven, subscribe)):
    for order in (1, -1):
        handles = [first(), second()]
        try: importlib.import_module("not_there")
        except ImportError: pass
        for handle in handles[::order]: handle.remove()
        assert importlib.import_module.__code__ is plain and "__wrapped__" not in vars(importlib.import_module)
print(calls.count("not_there"), calls.count("woven"))
"""
    assert printed(program) == ["4 4"]


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="imports by a call are audited, and need no hook there")
def test_what_others_put_where_a_hook_of_ours_would_be_is_reported() -> None:
    program = """
import importlib
plain, event = importlib.import_module, events.module_importing
code = plain.__code__
event.on(lambda name: print("told of", name))
importlib.import_module.__code__ = (lambda name, package=None: "theirs").__code__
print(hooks(event).displaced, importlib.import_module("colorsys"))
plain.__code__ = code
hooks(event).clear()
print(hooks(event).displaced)
importlib.import_module = print  # has no code that a hook could be put into
event.on(lambda name: print("told of", name))
print(hooks(event).displaced)
import colorsys
hooks(event).clear()
importlib.import_module = plain
print(hooks(event).displaced, plain.__code__ is code)
"""
    assert printed(program) == ["True theirs", "False", "True", "told of colorsys", "False True"]


def test_what_an_event_loop_reports_without_an_exception_is_not_told() -> None:
    told: list[object] = []
    loop = asyncio.new_event_loop()
    reported: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: reported.append(context))
    with hooks(events.uncaught_exception).add("on", lambda error: told.append(error)):
        loop.call_exception_handler({"message": "a task was destroyed"})
    loop.close()
    assert told == [] and reported == [{"message": "a task was destroyed"}]


def test_calling_the_event_by_hand_reports_nothing() -> None:
    reported: list[object] = []
    with replaced(sys, "excepthook", lambda *args: reported.append(args)):
        with hooks(events.uncaught_exception).add("on", lambda origin: f"from {origin}"):
            assert events.uncaught_exception(ValueError(), "main", None) == "from main"
        assert events.uncaught_exception(ValueError(), "main", None) is None
    assert reported == []


def test_the_other_kinds_of_hooks_act_on_an_event_of_the_interpreter() -> None:
    told: list[str] = []
    reported: list[object] = []
    event = events.uncaught_exception
    with replaced(sys, "excepthook", lambda *args: reported.append(args)):
        event.on(lambda error: told.append(str(error)))
        event.pre(lambda: Args(error=ValueError("instead")))
        sys.excepthook(KeyError, KeyError("x"), None)
        event.pre(lambda: Return("kept from happening"))
        sys.excepthook(KeyError, KeyError("x"), None)
        hooks(event).clear()
    assert told == ["instead"] and len(reported) == 1


# Others who want the same place


def covered(owner: Any, name: str) -> tuple[Any, Any]:
    """Put theirs over what is there, which calls through; give both."""
    below = getattr(owner, name)

    def theirs(*args: Any) -> Any:
        return below(*args)

    setattr(owner, name, theirs)
    return theirs, below


PLACES = [(sys, "excepthook"), (threading, "excepthook"), (sys, "unraisablehook")]


def happen(owner: Any, name: str) -> None:
    """Have the interpreter call what is in a place."""
    if name == "unraisablehook":
        unraisable()
    elif owner is threading:
        in_thread(fail)
    else:
        sys.excepthook(ValueError, ValueError("x"), None)


@pytest.mark.parametrize(("owner", "name"), PLACES, ids=["main", "thread", "unraisable"])
def test_theirs_over_ours_is_left_alone_and_ours_goes_inert(owner: Any, name: str) -> None:
    told: list[object] = []
    reported: list[object] = []
    event = events.uncaught_exception
    with replaced(owner, name, lambda *args: reported.append(args[0])):
        before = getattr(owner, name)
        event.on(lambda origin: told.append(origin), name="listener")
        theirs, ours = covered(owner, name)
        assert hooks(event).displaced
        happen(owner, name)
        assert len(told) == len(reported) == 1  # ours acts inside theirs

        hooks(event).remove("listener")
        assert getattr(owner, name) is theirs and hooks(event).displaced
        happen(owner, name)
        assert len(told) == 1 and len(reported) == 2

        event.on(lambda origin: told.append(origin), name="listener")  # over theirs, which has ours inside
        assert not hooks(event).displaced
        happen(owner, name)
        assert len(told) == 2 and len(reported) == 3
        hooks(event).remove("listener")
        assert getattr(owner, name) is theirs and hooks(event).displaced

        setattr(owner, name, ours)  # they go, and put back what they had found
        assert not hooks(event).displaced and getattr(owner, name) is before
        setattr(owner, name, ours)
        happen(owner, name)  # or so: whoever comes first puts it right
        assert getattr(owner, name) is before and len(told) == 2 and len(reported) == 4
        reported.clear()


def test_ours_comes_back_with_the_next_change_when_somebody_has_put_back_what_was_before_us() -> None:
    told: list[object] = []
    event = events.uncaught_exception
    with replaced(sys, "excepthook", lambda *_: None):
        before = sys.excepthook
        event.on(lambda: told.append(1))
        ours = sys.excepthook
        sys.excepthook = before
        assert hooks(event).displaced
        event.on(lambda: told.append(2))
        assert sys.excepthook is ours and not hooks(event).displaced
        sys.excepthook(ValueError, ValueError(), None)
        hooks(event).clear()
        assert sys.excepthook is before
    assert told == [1, 2]


def test_a_place_that_somebody_has_emptied_is_empty_again_and_passes_on_to_python() -> None:
    program = """
del sys.excepthook
events.uncaught_exception.on(lambda: print("told"))
sys.excepthook(ValueError, ValueError("shown"), None)
hooks(events.uncaught_exception).clear()
print(hasattr(sys, "excepthook"))
"""
    done = run(program)
    assert done.stdout.splitlines() == ["told", "False"] and done.stderr == "ValueError: shown\n"


def test_what_has_come_and_gone_over_ours_is_not_remembered() -> None:
    event = events.uncaught_exception
    with replaced(sys, "excepthook", lambda *_: None):
        before = sys.excepthook
        for _ in range(3):
            event.on(lambda: None, name="listener")
            link = sys.excepthook
            covered(sys, "excepthook")
            hooks(event).remove("listener")
            sys.excepthook = before
        assert isinstance(link, Link) and link.under is None


def test_who_replaces_the_code_of_an_event_has_displaced_ours() -> None:
    event = events.audit("tests.one")
    event.on(lambda: None)
    ours = event.__code__
    event.__code__ = (lambda *args: []).__code__
    assert hooks(event).displaced
    event.__code__ = ours
    hooks(event).clear()
    assert not hooks(event).displaced


def test_what_was_put_into_a_place_is_not_made_anew_for_the_same_place() -> None:
    """Once it died while another thread was about to call it: `sys` does not keep its hooks alive (gh-130163)."""
    listen: Callable[[], None] = lambda: None
    links: list[Any] = []
    for _ in range(2):
        with hooks(events.uncaught_exception).add("on", listen):
            links.append(sys.unraisablehook)
    assert links[0] is links[1] and sys.unraisablehook is not links[0]


class SlotMachine(RuleBasedStateMachine):
    """Subscribers of ours and hooks of others come and go in one place, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.reported = 0
        self.told = 0
        self.covered = False
        self.module: Any = types.ModuleType("interpreter")
        self.original = self.module.report = self.report
        self.event: Any = wired(lambda event: Attribute(self.module, "report", event, key=0), first=True)(
            lambda what: None
        )
        self.handles: list[Any] = []
        self.pauses: list[ExitStack] = []
        self.theirs: list[tuple[Any, Any]] = []

    def report(self, what: object) -> None:
        self.reported += 1

    def listen(self) -> None:
        self.told += 1

    @property
    def acting(self) -> bool:
        return bool(self.handles) and not self.pauses

    def walk(self) -> list[Any]:
        """Give what a call goes through."""
        found = [self.module.report]
        below = dict(self.theirs)
        while found[-1] != self.original:
            found.append(found[-1].before if isinstance(found[-1], Link) else below[found[-1]])
        return found

    def settled(self) -> None:
        """See what has to hold right after a change of ours."""
        if not self.acting:
            assert not isinstance(self.module.report, Link)

    @rule()
    def subscribe(self) -> None:
        began = not self.acting
        self.handles.append(hooks(self.event).add("on", self.listen, again=True))
        if began and self.acting:
            assert isinstance(self.module.report, Link)
        self.settled()

    @precondition(lambda self: self.handles)
    @rule()
    def unsubscribe(self) -> None:
        self.handles.pop().remove()
        self.settled()

    @rule()
    def pause(self) -> None:
        self.pauses.append(ExitStack())
        self.pauses[-1].enter_context(hooks(self.event).paused())
        self.settled()

    @precondition(lambda self: self.pauses)
    @rule()
    def resume(self) -> None:
        self.pauses.pop().close()
        self.settled()

    @rule()
    def cover(self) -> None:
        self.covered = True
        below = self.module.report

        def theirs(what: object) -> None:
            below(what)

        self.theirs.append((theirs, below))
        self.module.report = theirs

    @precondition(lambda self: self.theirs)
    @rule()
    def uncover(self) -> None:
        """The last of theirs puts back what it has found, whatever is there now."""
        self.module.report = self.theirs.pop()[1]

    @rule()
    def put_back_the_first(self) -> None:
        self.module.report = self.original

    @rule()
    def happen(self) -> None:
        reachable = any(isinstance(one, Link) for one in self.walk())
        told, reported = self.told, self.reported
        self.module.report(object())
        assert self.reported == reported + 1
        assert self.told == told + (len(self.handles) if self.acting and reachable else 0)

    @invariant()
    def it_is_displaced_exactly_while_ours_is_not_there(self) -> None:
        displaced = hooks(self.event).displaced
        if self.acting:
            assert displaced == (not isinstance(self.module.report, Link))
        else:
            assert not isinstance(self.module.report, Link)  # looking puts right what somebody has put back
            assert displaced <= self.covered

    def teardown(self) -> None:
        while self.pauses:
            self.resume()
        hooks(self.event).clear()
        self.handles.clear()
        self.happen()
        while self.theirs:
            self.uncover()
            self.happen()
        assert self.module.report == self.original


TestSlot = SlotMachine.TestCase
TestSlot.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)


# Signals


def test_a_signal_has_one_event_however_it_is_named() -> None:
    event = events.signal("SIGTERM")
    assert event is events.signal(signals.SIGTERM) is events.signal(int(signals.SIGTERM))
    assert event is not events.signal("SIGINT")
    assert hooks(event).name == "aspecthook.events:signal('SIGTERM')"


@pytest.mark.parametrize("unknown", ["SIGTREM", "sigterm", "", 0, -1, 10_000, True, None, 1.5])
def test_what_is_no_signal_is_refused(unknown: Any) -> None:
    with pytest.raises(HookLookupError, match="this system has no signal") as caught:
        events.signal(unknown)
    assert ("did you mean 'SIGTERM'?" in str(caught.value)) == (unknown in ("SIGTREM", "sigterm"))


def test_threads_that_ask_at_once_are_given_the_same_event() -> None:
    program = """
from tests.threads import at_once
sys.setswitchinterval(1e-6)
for number in range(20):
    found = []
    at_once(*[lambda: found.append(events.audit(f"a.{number}"))] * 8)
    assert len(found) == 8 and len(set(found)) == 1
found = []
at_once(*[lambda: found.append(events.signal("SIGTERM"))] * 8)
print(len(found), len(set(found)))
"""
    assert printed(program) == ["8 1"]


@UNIX
def test_what_the_system_does_by_default_follows_the_subscribers() -> None:
    program = """
import signal as signals
events.signal("SIGTERM").on(lambda signum, frame: print(signum, frame.f_code.co_name, flush=True))
signals.raise_signal(signals.SIGTERM)
print("not reached")
"""
    done = run(program)
    assert done.stdout == f"{int(signals.SIGTERM)} <module>\n" and done.returncode == -signals.SIGTERM


@UNIX
def test_a_signal_from_another_process_ends_a_program_that_waits() -> None:
    program = """
from aspecthook import events
import signal, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, and inherited
events.signal("SIGHUP").on(lambda: print("told", flush=True))
print("ready", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(signals.SIGHUP)
        assert process.stdout.read() == "told\n" and process.wait(30) == -signals.SIGHUP


def test_an_answer_keeps_the_program_alive() -> None:
    told: list[int] = []

    def finish(signum: int) -> bool:
        told.append(signum)
        return True

    with hooks(events.signal("SIGTERM")).add("on", finish):
        signals.raise_signal(signals.SIGTERM)
        signals.raise_signal(signals.SIGTERM)
    assert told == [signals.SIGTERM] * 2


@UNIX
@pytest.mark.parametrize(("name", "handler"), [("SIGTERM", signals.SIG_IGN), ("SIGCHLD", signals.SIG_DFL)])
def test_what_was_ignored_is_ignored_after_the_subscribers(
    name: str, handler: signals.Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handler stays meanwhile, or a second signal that comes right then would be lost."""
    number = signals.Signals[name]
    told: list[int] = []
    before = signals.signal(number, handler)
    try:
        handle = hooks(events.signal(number)).add("on", lambda signum: told.append(signum))
        with monkeypatch.context() as patch:
            patch.delattr(signals, "signal")
            signals.raise_signal(number)
            signals.raise_signal(number)
        handle.remove()
        assert signals.getsignal(number) is handler
    finally:
        signals.signal(number, before)
    assert told == [number] * 2


def test_the_handler_that_was_there_follows_with_the_same_arguments() -> None:
    handled: list[Any] = []
    told: list[Any] = []

    def handler(signum: int, frame: Any) -> None:
        handled.append((signum, id(frame)))

    before = signals.signal(signals.SIGTERM, handler)
    try:
        with hooks(events.signal("SIGTERM")).add("on", lambda signum, frame: told.append((signum, id(frame)))):
            signals.raise_signal(signals.SIGTERM)
        assert signals.getsignal(signals.SIGTERM) is handler
    finally:
        signals.signal(signals.SIGTERM, before)
    assert handled == told == [(signals.SIGTERM, id(sys._getframe()))]


def test_what_a_subscriber_raises_goes_to_the_code_that_was_interrupted() -> None:
    def late() -> None:
        raise TimeoutError

    with hooks(events.signal("SIGTERM")).add("on", late), pytest.raises(TimeoutError):
        signals.raise_signal(signals.SIGTERM)


def test_control_c_is_a_keyboard_interrupt_still() -> None:
    told: list[int] = []
    with hooks(events.signal("SIGINT")).add("on", lambda signum: told.append(signum)), pytest.raises(KeyboardInterrupt):
        signals.raise_signal(signals.SIGINT)
    assert told == [signals.SIGINT]


def test_a_signal_that_comes_while_it_is_being_handled_is_told_too() -> None:
    depths: list[int] = []

    def nested() -> bool:
        depths.append(len(depths))
        if len(depths) < 3:
            signals.raise_signal(signals.SIGTERM)
        return True

    with hooks(events.signal("SIGTERM")).add("on", nested):
        signals.raise_signal(signals.SIGTERM)
    assert depths == [0, 1, 2]


def test_outside_of_the_main_thread_the_first_subscriber_is_refused_and_nothing_is_left() -> None:
    event = events.signal("SIGTERM")
    before = signals.getsignal(signals.SIGTERM)
    refused: list[MountError] = []

    def subscribe() -> None:
        with pytest.raises(MountError, match="in the main thread") as caught:
            event.on(lambda: None)
        refused.append(caught.value)

    at_once(subscribe)
    assert str(refused[0]).startswith("aspecthook.events:signal('SIGTERM') cannot be connected: signal only works in")
    assert isinstance(refused[0].__cause__, ValueError)
    assert not len(hooks(event)) and signals.getsignal(signals.SIGTERM) is before


def test_later_subscribers_may_come_and_go_in_any_thread() -> None:
    event = events.signal("SIGTERM")
    before = signals.getsignal(signals.SIGTERM)
    told: list[str] = []
    event.on(lambda: told.append("main"), name="main")
    at_once(lambda: event.on(lambda: told.append("thread") or True, name="thread"))
    signals.raise_signal(signals.SIGTERM)
    assert told == ["main", "thread"]

    at_once(hooks(event).clear)  # our handler must stay, for now
    assert signals.getsignal(signals.SIGTERM) is not before
    at_once(lambda: event.on(lambda: told.append("again") or True))  # and can be used again
    signals.raise_signal(signals.SIGTERM)
    assert told == ["main", "thread", "again"]

    at_once(hooks(event).clear)
    with hooks(event).paused():  # any change in the main thread puts it right
        assert signals.getsignal(signals.SIGTERM) is before
    event.on(lambda: None)
    at_once(hooks(event).clear)
    assert not hooks(event).displaced and signals.getsignal(signals.SIGTERM) is before  # so does looking there


def test_a_handler_that_had_to_stay_goes_with_the_next_signal() -> None:
    program = """
import signal as signals, threading
handler = lambda signum, frame: print("handled")
signals.signal(signals.SIGTERM, handler)
events.signal("SIGTERM").on(lambda: print("told"))
thread = threading.Thread(target=hooks(events.signal("SIGTERM")).clear)
thread.start(), thread.join()
print(signals.getsignal(signals.SIGTERM) is handler)
signals.raise_signal(signals.SIGTERM)
print(signals.getsignal(signals.SIGTERM) is handler)
"""
    assert printed(program) == ["False", "handled", "True"]


@UNIX
@pytest.mark.parametrize("name", ["SIGKILL", "SIGSTOP"])
def test_a_signal_that_nobody_may_handle_is_refused(name: str) -> None:
    with pytest.raises(MountError, match=rf"signal\('{name}'\) cannot be connected"):
        events.signal(name).on(lambda: None)
    assert not len(hooks(events.signal(name)))


def test_a_handler_that_could_not_be_put_back_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    event = events.signal("SIGTERM")
    before = signals.getsignal(signals.SIGTERM)
    with monkeypatch.context() as patch:
        patch.setattr(signals, "getsignal", lambda _: None)  # as for one that was set by C code
        with pytest.raises(MountError, match="was not set by Python code"):
            event.on(lambda: None)
    assert signals.getsignal(signals.SIGTERM) is before and not len(hooks(event))


def test_a_handler_of_c_code_over_ours_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    event = events.signal("SIGTERM")
    event.on(lambda: None)
    with hooks(event).add("on", lambda: None) as handle, monkeypatch.context() as patch:
        patch.setattr(signals, "getsignal", lambda _: None)
        handle.remove()
        assert hooks(event).displaced
    hooks(event).clear()
    assert not hooks(event).displaced


def test_who_subscribes_while_the_event_is_paused_is_connected_with_its_end() -> None:
    event = events.signal("SIGTERM")
    before = signals.getsignal(signals.SIGTERM)
    told: list[int] = []
    with hooks(event).paused():
        at_once(lambda: event.on(lambda: told.append(1) or True))  # nothing is to be connected, or refused
        assert signals.getsignal(signals.SIGTERM) is before
    signals.raise_signal(signals.SIGTERM)
    hooks(event).clear()
    assert told == [1]


@UNIX
def test_another_handler_over_ours_is_left_alone() -> None:
    event = events.signal("SIGTERM")
    before = signals.getsignal(signals.SIGTERM)
    event.on(lambda: True)
    loop = asyncio.new_event_loop()
    try:
        loop.add_signal_handler(signals.SIGTERM, lambda: None)
        theirs = signals.getsignal(signals.SIGTERM)
        assert hooks(event).displaced
        hooks(event).clear()
        assert signals.getsignal(signals.SIGTERM) is theirs
    finally:
        loop.close()
        signals.signal(signals.SIGTERM, before)
    assert not hooks(event).displaced


def test_who_leaves_in_a_thread_is_not_refused_though_others_have_taken_our_place() -> None:
    event = events.signal("SIGTERM")
    before = signals.getsignal(signals.SIGTERM)
    event.on(lambda: None)
    with hooks(event).add("on", lambda: None) as handle:
        signals.signal(signals.SIGTERM, before)
        at_once(handle.remove)
        assert hooks(event).displaced and len(hooks(event)) == 1
    hooks(event).clear()
    assert signals.getsignal(signals.SIGTERM) is before


def test_a_subscriber_for_once_gives_the_signal_back() -> None:
    event = events.signal("SIGTERM")
    before = signals.getsignal(signals.SIGTERM)
    event.on(lambda: True, once=True)
    assert signals.getsignal(signals.SIGTERM) is not before
    signals.raise_signal(signals.SIGTERM)
    assert signals.getsignal(signals.SIGTERM) is before


def test_a_resume_that_is_refused_says_so_and_the_next_change_makes_up_for_it() -> None:
    event = events.signal("SIGTERM")
    told: list[int] = []
    event.on(lambda: told.append(1) or True)
    pause = hooks(event).paused()
    pause.__enter__()

    def resume() -> None:
        with pytest.raises(MountError, match="in the main thread"):
            pause.__exit__(None, None, None)

    at_once(resume)
    other = hooks(event).add("on", lambda: None)
    pause = hooks(event).paused()
    pause.__enter__()
    at_once(resume)
    at_once(other.remove)  # what is taken off is not refused
    event.on(lambda: None)
    signals.raise_signal(signals.SIGTERM)
    assert told == [1]
    hooks(event).clear()


# Audit events


def test_an_audit_event_has_one_event_of_its_name() -> None:
    assert events.audit("tests.one") is events.audit("tests.one") is not events.audit("tests.other")
    assert hooks(events.audit("tests.one")).name == "aspecthook.events:audit('tests.one')"
    with pytest.raises(HookTypeError, match="give a string"):
        events.audit(3)  # type: ignore[arg-type]


def test_every_frame_above_a_subscriber_of_an_audit_event_says_the_name_of_its_module() -> None:
    # The dispatcher had globals without `__name__`: who walked the stack by it, as loggers do, got a KeyError.
    def note() -> None:
        frame: types.FrameType | None = sys._getframe()
        while frame is not None:
            found.append(frame.f_globals["__name__"])
            frame = frame.f_back

    found: list[str] = []
    with hooks(events.audit("tests.one")).add("on", note):
        sys.audit("tests.one")
    assert __name__ in found[2:]


def test_an_audit_event_gives_its_arguments_and_only_those_of_its_name() -> None:
    told: list[Any] = []
    with hooks(events.audit("tests.one")).add("on", lambda args: told.append(args)):
        sys.audit("tests.one", 1, "two")
        sys.audit("tests.one")
        sys.audit("tests.other", 3)
    sys.audit("tests.one", 4)
    assert told == [(1, "two"), ()]


def test_a_subscriber_that_raises_forbids_what_is_about_to_happen(tmp_path: Path) -> None:
    path = tmp_path / "secret"

    def forbid(path: object, mode: str | None) -> None:
        if str(path).endswith("secret"):
            raise PermissionError(f"{mode}: not this one")

    with hooks(events.file_opening).add("on", forbid):
        with pytest.raises(PermissionError, match="w: not this one"):
            path.write_text("x")
        with pytest.raises(PermissionError, match="None: not this one"):
            os.open(path, os.O_CREAT)
        (tmp_path / "other").write_text("y")
    assert [one.name for one in tmp_path.iterdir()] == ["other"]
    path.write_text("x")
    assert path.exists()


def test_a_subscriber_is_not_told_of_what_it_does_itself(tmp_path: Path) -> None:
    log = tmp_path / "log"
    told: list[str] = []

    def write_down(path: object) -> None:
        told.append(os.path.basename(str(path)))
        with log.open("a") as file:
            print(path, file=file)

    with hooks(events.file_opening).add("on", write_down):
        (tmp_path / "a").write_text("a")
        (tmp_path / "b").write_text("b")
    assert told == ["a", "b"]
    assert log.read_text().splitlines() == [str(tmp_path / "a"), str(tmp_path / "b")]


def test_events_that_cause_each_other_come_to_an_end() -> None:
    told: list[str] = []

    def ping() -> None:
        told.append("ping")
        sys.audit("tests.pong")

    def pong() -> None:
        told.append("pong")
        sys.audit("tests.ping")

    with hooks(events.audit("tests.ping")).add("on", ping), hooks(events.audit("tests.pong")).add("on", pong):
        sys.audit("tests.ping")
        sys.audit("tests.pong")
    assert told == ["ping", "pong", "pong", "ping"]


def test_a_task_that_a_subscriber_has_started_is_told_once_the_subscriber_is_done() -> None:
    told: list[str] = []
    tasks: list[asyncio.Task[None]] = []

    async def later() -> None:
        sys.audit("tests.one", "in the task")

    def start(args: tuple[str, ...]) -> None:
        told.append(args[0])
        if not tasks:
            tasks.append(asyncio.get_running_loop().create_task(later()))

    async def main() -> None:
        sys.audit("tests.one", "first")
        await tasks[0]

    with hooks(events.audit("tests.one")).add("on", start):
        asyncio.run(main())
    assert told == ["first", "in the task"]


def test_a_subscriber_that_has_failed_is_told_again() -> None:
    told: list[int] = []

    def failing(args: tuple[int, ...]) -> None:
        told.append(args[0])
        raise KeyboardInterrupt if args[0] == 1 else LookupError

    with hooks(events.audit("tests.one")).add("on", failing):
        with pytest.raises(KeyboardInterrupt):
            sys.audit("tests.one", 1)
        with pytest.raises(LookupError):
            sys.audit("tests.one", 2)
    assert told == [1, 2]


def test_subscribers_may_come_and_go_inside_a_subscriber() -> None:
    told: list[str] = []
    event = events.audit("tests.one")

    def first() -> None:
        told.append("first")
        hooks(event).remove("first")
        event.on(lambda: told.append("second"), name="second")

    event.on(first, name="first")
    sys.audit("tests.one")
    sys.audit("tests.one")
    hooks(event).clear()
    sys.audit("tests.one")
    assert told == ["first", "second"]


def test_weak_subscribers_and_those_for_once_free_the_dispatcher() -> None:
    def listener() -> None: ...

    events.audit("tests.one").on(listener, weak=True)
    events.audit("tests.other").on(lambda: None, once=True)
    assert set(_audits._table) == {"tests.one", "tests.other"}
    assert _audits._hook is not None and _audits._hook.__code__ is _audits._looking.__code__
    del listener
    assert set(_audits._table) == {"tests.other"}
    sys.audit("tests.other")
    assert not _audits._table and _audits._hook.__code__ is _audits._silent.__code__


def test_what_aspecthook_does_itself_is_not_told_and_cannot_be_forbidden() -> None:
    """Whoever forbade code to be made or put into functions could not be taken off again."""
    names = ["compile", "code.__new__", "object.__setattr__", "function.__new__", "object.__getattr__"]
    program = f"""
told = []
made = [events.audit(name) for name in {names!r}]
def function(): ...
code = function.__code__
for event in made:
    def forbid(call):
        told.append(call.args)
        raise PermissionError
    event.on(forbid)
print(told)
for forbidden in (lambda: compile("1", "<test>", "eval"), lambda: setattr(function, "__code__", code)):
    try: forbidden()
    except PermissionError as error: print("forbidden")
for event in made: hooks(event).clear()
print(len(told), eval("1"))
"""
    assert printed(program) == ["[]", "forbidden", "forbidden", "2 1"]


@pytest.mark.parametrize(
    "statement",
    [
        "import colorsys",
        "from colorsys import rgb_to_hsv",
        "__import__('colorsys')",
        "importlib.import_module('colorsys')",
    ],
)
def test_an_import_is_told_once_and_can_be_forbidden(statement: str) -> None:
    program = f"""
import importlib
told = []
@events.module_importing.on
def forbid(name):
    told.append(name)
    if len(told) == 1: raise ImportError("not this one")
try: {statement}
except ImportError as error: print(error, "colorsys" in sys.modules)
{statement}
{statement}
hooks(events.module_importing).clear()
del sys.modules["colorsys"]
{statement}
print(told)
"""
    assert printed(program) == ["not this one False", "['colorsys', 'colorsys']"]


def test_relative_names_and_extension_modules_are_told_once_by_their_full_names() -> None:
    program = """
import importlib
told = []
events.module_importing.on(lambda name: told.append(name))
sys.modules.pop("_json", None)
importlib.import_module(".dom", "xml")
importlib.import_module("_json")
for wrong in (("not.there",), (".relative",), ("...far", "xml")):
    try: importlib.import_module(*wrong)
    except (ImportError, TypeError) as error: print(type(error).__name__)
print([name for name in told if name in ("xml.dom", "_json", "not.there") or "relative" in name or "far" in name])
"""
    errors = ["ModuleNotFoundError", "TypeError", "ImportError"]
    assert printed(program) == [*errors, "['xml.dom', '_json', 'not.there']"]


class Disguised(str):
    """A path that says it ends otherwise."""

    __slots__ = ()

    def endswith(self, *_: object) -> bool:  # type: ignore[override]
        return False

    def __str__(self) -> str:
        return "harmless.txt"

    __fspath__ = __str__


@pytest.mark.parametrize("case", ["str", "bytes", "Path", "subclass", "link", "link to a link", "descriptor's path"])
def test_the_guard_that_the_docs_show_sees_the_file_behind_its_names(tmp_path: Path, case: str) -> None:
    """`open(b"secret.key")`, a link and a subclass of str passed it."""
    source = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
    body = source[source.index("def no_keys") : source.index("for disguise in")]
    space: dict[str, Any] = {"os": os}
    exec(body, space)
    key, link, other = tmp_path / "secret.key", tmp_path / "link.txt", tmp_path / "other.txt"
    key.write_text("key")
    link.symlink_to(key)
    other.symlink_to(link)
    with key.open() as opened:
        names: dict[str, Any] = {
            "str": str(key),
            "bytes": os.fsencode(key),
            "Path": key,
            "subclass": Disguised(key),
            "link": link,
            "link to a link": str(other),
            "descriptor's path": f"/proc/self/fd/{opened.fileno()}",
        }
        if case == "descriptor's path" and not Path(names[case]).exists():
            pytest.skip("this system has no such paths")
        with hooks(events.file_opening).add("on", space["no_keys"]):
            for opening in (open, io.open, lambda name: os.open(name, os.O_RDONLY)):
                with pytest.raises(PermissionError, match=r"^secret\.key is not to be opened$"):
                    opening(names[case])
            with open(os.dup(opened.fileno())) as again:  # what is open already
                assert again.read() == "key"


def test_a_connection_is_told_before_it_is_made() -> None:
    told: list[Any] = []

    def forbid(socket: Any, address: Any) -> None:
        told.append((socket, address))
        raise PermissionError("offline")

    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        address = server.getsockname()
        with hooks(events.socket_connecting).add("on", forbid), socket.socket() as client:
            with pytest.raises(PermissionError, match="offline"):
                client.connect(address)
            with pytest.raises(PermissionError, match="offline"):
                client.connect_ex(address)
            assert told == [(client, address)] * 2
        told.clear()
        with socket.create_connection(address, timeout=30) as client:
            assert client.getpeername() == address


def test_a_program_is_told_before_it_starts() -> None:
    told: list[Any] = []
    command = [sys.executable, "-c", "print(1)"]
    event = events.subprocess_starting
    with hooks(event).add("on", lambda executable, command, cwd, env: told.append((executable, command, cwd, env))):
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, "A": "b"}, capture_output=True, check=True)
    assert done.stdout.strip() == b"1"
    assert told == [(sys.executable, command, ROOT, {**os.environ, "A": "b"})]


STARTS = {
    "os.system": ("os.system('exit 3')", "[(None, 'exit 3', None, None)]"),
    "os.popen": ("os.popen('exit 3').close()", "[('/bin/sh', ['/bin/sh', '-c', 'exit 3'], None, None)]"),
    "os.posix_spawn": (
        "os.waitpid(os.posix_spawn('/bin/sh', ['sh', '-c', 'exit 3'], {'A': 'b'}), 0)",
        "[('/bin/sh', ['sh', '-c', 'exit 3'], None, {'A': 'b'})]",
    ),
    # Popen may do it by os.posix_spawn, and pty.spawn by os.exec in a child.
    "subprocess": (
        "subprocess.call(['/bin/sh', '-c', 'exit 3'], close_fds=False)",
        "[('/bin/sh', ['/bin/sh', '-c', 'exit 3'], None, None)]",
    ),
    "pty.spawn": ("pty.spawn(['/bin/sh', '-c', 'exit 3'])", "[(None, ['/bin/sh', '-c', 'exit 3'], None, None)]"),
    "os.spawnv, in the child": ("os.spawnv(os.P_WAIT, '/bin/sh', ['sh', '-c', 'exit 3'])", "[]"),
}


@pytest.mark.skipif(sys.platform == "win32", reason="starts a POSIX shell")
@pytest.mark.parametrize("case", STARTS)
def test_a_program_is_told_once_however_it_is_started(case: str) -> None:
    """`os.system` and `os.posix_spawn` were not told."""
    statement, told = STARTS[case]
    program = f"""
import os, pty, subprocess
told = []
@events.subprocess_starting.on
def note(executable, command, cwd, env): told.append((executable, command, cwd, env))
{statement}
print(told)
"""
    assert printed(program)[-1] == told


@pytest.mark.skipif(sys.platform == "win32", reason="starts a POSIX shell")
@pytest.mark.parametrize(
    "statement",
    [
        "os.system('echo started')",
        "os.posix_spawn('/bin/sh', ['sh', '-c', 'echo started'], {})",
        "os.execv('/bin/sh', ['sh', '-c', 'echo started'])",
        "pty.spawn(['/bin/sh', '-c', 'echo started'])",
        "print(os.spawnv(os.P_WAIT, '/bin/sh', ['sh', '-c', 'echo started']))",
    ],
)
def test_a_program_can_be_forbidden_however_it_is_started(statement: str) -> None:
    program = f"""
import os, pty
@events.subprocess_starting.on
def forbid(command):
    os.system("echo never told of what it does itself")
    raise PermissionError(str(command))
try: {statement}
except PermissionError as error: print(error)
"""
    lines = printed(program)
    forbidden = "127" if "spawnv" in statement else "echo started" if "system" in statement else "['"
    assert lines[-1].startswith(forbidden) and "started" not in lines
    assert lines.count("never told of what it does itself") == 1


def test_two_events_of_one_audit_event_are_both_told() -> None:
    told: list[str] = []
    with hooks(events.file_opening).add("on", lambda path: told.append("file")):
        with hooks(events.audit("open")).add("on", lambda args: told.append("audit")):
            os.close(os.open(__file__, os.O_RDONLY))
        os.close(os.open(__file__, os.O_RDONLY))
    assert told == ["file", "audit", "file"]


def test_one_dispatcher_is_installed_for_all_and_for_good() -> None:
    program = """
added = []
plain = sys.addaudithook
sys.addaudithook = lambda hook: (added.append(hook), plain(hook))
for _ in range(3):
    with hooks(events.file_opening).add("on", lambda: None), hooks(events.audit("a.b")).add("on", lambda: None):
        pass
print(len(added))
"""
    assert printed(program) == ["1"]


@pytest.mark.parametrize("hostile", ["sys.addaudithook", "aspecthook.listening"])
def test_an_audit_hook_that_keeps_ours_out_is_reported(hostile: str) -> None:
    program = f"""
on = True
def forbid(name, args):
    if on and name == {hostile!r}: raise RuntimeError("no others")
sys.addaudithook(forbid)
told = []
try: events.file_opening.on(lambda: told.append(1))
except Exception as error: print(type(error).__name__, error)
print(len(hooks(events.file_opening)))
on = False
events.file_opening.on(lambda: told.append(1))
open(sys.executable).close()
print(told)
"""
    first, *rest = printed(program)
    assert first.startswith(
        "MountError aspecthook.events:file_opening cannot be connected: an audit hook that was there"
    )
    assert rest == ["0", "[1]"]


def test_nobody_is_told_while_the_interpreter_is_torn_down() -> None:
    """What the modules of subscribers had may be gone by then."""
    program = """
import gc, os
told = []
class Late:
    def __del__(self, told=told, open=open, path=sys.executable, collect=gc.collect, write=os.write):
        told.clear()
        open(path).close()
        collect()
        try: raise ValueError
        except ValueError as error: sys.excepthook(ValueError, error, None)
        write(1, f"{sys.is_finalizing()} {told}".encode())
sys.excepthook = lambda *args: None
for event in (events.file_opening, events.audit("open"), events.garbage_collecting, events.uncaught_exception):
    event.on(lambda call: told.append(call.function.__name__))
sys.modules["late"] = Late()
"""
    assert printed(program) == ["True []"]


@UNIX
def test_a_forked_child_hears_of_what_it_does_and_can_leave() -> None:
    program = """
import os, threading, warnings
warnings.simplefilter("ignore")
told = []
events.audit("a.b").on(lambda args: told.append(args[0]), name="listener")
done = []
def keep_telling():
    while not done: sys.audit("a.b", "thread")
threads = [threading.Thread(target=keep_telling) for _ in range(2)]
for thread in threads: thread.start()
for _ in range(10):
    pid = os.fork()
    if not pid:
        told.clear()
        sys.audit("a.b", "child")
        good = told == ["child"]
        hooks(events.audit("a.b")).clear()
        sys.audit("a.b", "gone")
        events.audit("a.b").on(lambda: told.append("again"))
        sys.audit("a.b", "child")
        os._exit(0 if good and told == ["child", "again"] else 1)
    assert os.waitpid(pid, 0)[1] == 0
done.append(1)
for thread in threads: thread.join()
told.clear()
sys.audit("a.b", "parent")
print(told)
"""
    assert printed(program) == ["['parent']"]


INNER = """
import sys
sys.path.insert(0, {root!r})
from aspecthook import events, hooks
told = []
events.audit("a.b").on(lambda args: told.append(args[0]))
sys.audit("a.b", "inner")
assert told == ["inner"], told
try: events.signal("SIGTERM").on(lambda: None)
except TypeError as error: assert "cannot be connected" in str(error)
else: raise AssertionError
"""


@pytest.mark.skipif(sys.version_info < (3, 13), reason="needs _interpreters")
def test_a_subinterpreter_has_events_of_its_own() -> None:
    program = f"""
import _interpreters
told = []
events.audit("a.b").on(lambda args: told.append(args[0]))
one = _interpreters.create("legacy")
print(_interpreters.run_string(one, {INNER.format(root=str(ROOT))!r}))
_interpreters.destroy(one)
sys.audit("a.b", "outer")
print(told)
"""
    assert printed(program) == ["None", "['outer']"]


def test_threads_may_come_and_go_while_others_are_told() -> None:
    program = """
from tests.threads import at_once
from aspecthook.events import _audits
sys.setswitchinterval(1e-5)
wrong = []
def come_and_go(name):
    def work():
        event, told = events.audit(name), []
        for turn in range(200):
            handle = hooks(event).add("on", lambda args: told.append(args[0]))
            sys.audit(name, turn)
            handle.remove()
            sys.audit(name, "nobody")
        if told != list(range(200)): wrong.append((name, told))
    return work
at_once(*map(come_and_go, ("a.b", "c.d", "e.f", "g.h")))
print(wrong, _audits._table, _audits._hook.__code__ is _audits._silent.__code__)
"""
    assert printed(program) == ["[] {} True"]


# Garbage collection


def test_a_collection_is_told_twice() -> None:
    told: list[Any] = []
    with hooks(events.garbage_collecting).add("on", lambda phase, info: told.append((phase, dict(info)))):
        gc.collect()
    gc.collect()
    full = [one for one in told if one[1]["generation"] == 2]
    assert [phase for phase, _ in full] == ["start", "stop"] and "collected" in full[1][1]


def test_a_collection_in_the_middle_of_a_change_waits_for_nobody() -> None:
    program = """
import gc
from aspecthook._core.mount.lock import under_lock
told = []
@event
def other(): ...
def add_and_collect():
    handle = hooks(events.garbage_collecting).add("on", lambda: told.append("new"))
    gc.collect()
    return handle
gc.set_threshold(1)
events.garbage_collecting.on(lambda phase: told.append(phase))
for _ in range(50):
    other.on(lambda: None)
    other()
    under_lock(gc.collect)()
    hooks(other).clear()
    handle = under_lock(add_and_collect)()
    gc.collect()
    handle.remove()
hooks(events.garbage_collecting).clear()
gc.set_threshold(0)
seen = len(told)
gc.collect()
# Nobody hears of the collections in the middle of a change.
print(told.count("start") >= 50, told.count("new") >= 100, len(told) == seen, gc.callbacks)
"""
    assert printed(program) == ["True True True []"]


@pytest.mark.skipif("free-threading" in sys.version, reason="no threshold makes a collection come at each point there")
def test_a_collection_in_the_middle_of_compiling_compiles_nothing() -> None:
    """CPython 3.11 cannot make a syntax tree in the middle of another."""
    program = """
import ast, gc
told = []
for number in range(150):
    gc.set_threshold(3 + number)  # so that one comes at every point of a change
    for place in range(1 + number % 4):
        when = (lambda: True) if number >> place & 1 else None
        events.garbage_collecting.on(lambda phase: told.append(phase), when=when)
    gc.set_threshold(1)
    ast.parse("def f(a):\\n  return a + 1\\n" * 10)
    gc.set_threshold(10_000)
    if not number % 7: hooks(events.garbage_collecting).clear()
hooks(events.garbage_collecting).clear()
print(told.count("start") > 150)
"""
    assert printed(program) == ["True"]


def test_all_subscribers_hear_of_a_collection_and_failures_are_reported_whole() -> None:
    reported: list[str] = []
    told: list[str] = []
    event = events.garbage_collecting

    def failing(phase: str, info: dict[str, int]) -> None:
        if (phase, info["generation"]) == ("start", 2):
            raise ValueError("of the subscriber")

    with replaced(sys, "unraisablehook", lambda args: reported.append(type(args.exc_value).__name__)):
        event.on(failing)
        event.on(lambda phase, info: told.append(phase) if info["generation"] == 2 else None)
        gc.collect()
        event.on(failing, again=True)
        gc.collect()
        hooks(event).clear()
    assert reported == ["ValueError", "ExceptionGroup"] and told == ["start", "stop"] * 2


def test_who_empties_the_callbacks_of_the_collector_has_displaced_ours() -> None:
    event = events.garbage_collecting
    event.on(lambda: None)
    ours = gc.callbacks.pop()
    assert hooks(event).displaced
    event.on(lambda: None)
    assert gc.callbacks[-1] is ours and not hooks(event).displaced
    hooks(event).clear()
    assert ours not in gc.callbacks and not hooks(event).displaced
