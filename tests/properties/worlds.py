"""Scenarios for the laws: one random target, chain and call, that can be run compiled and interpreted, and compared.

A scenario is plain data. `World` builds it anew for each run, so that the two runs share no object; what they must
agree on is the log: every hook with what it was given, the target with what it got, and how the call ended.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from aspecthook import Args, Return, event, hookable, hooks
from aspecthook._core.law import law as _law_async
from aspecthook._core.law import law_sync as _law
from aspecthook._core.law.call import Call, Site
from aspecthook._core.law.hook import Predicate
from aspecthook._core.law.order import Chain
from aspecthook._core.law.signature import Signature


class Alarm(BaseException):
    """Passes exception hooks that do not name it."""


class Mishap(Exception):
    """A failure of a user's code."""


class Trouble(Mishap):
    """A failure that hooks for Mishap take too."""


class LikeAnything(type):
    """Makes classes that are equal to every other, and the same as none."""

    def __eq__(cls, other: object) -> bool:
        return True

    def __ne__(cls, other: object) -> bool:
        return False

    __hash__ = type.__hash__


class Like(metaclass=LikeAnything):
    def __repr__(self) -> str:
        return "like"


FAILURES: dict[str, type[BaseException]] = {
    "mishap": Mishap,
    "trouble": Trouble,
    "key": KeyError,
    "alarm": Alarm,
    "interrupt": KeyboardInterrupt,
}
STYLES = ("function", "coroutine", "generator", "async generator")


@dataclass
class Spec:
    """One hook: what it asks for, what it does, its conditions."""

    kind: str
    asks: list[str]
    acts: list[str]  # what it does at its first, second, ... run; the last one is repeated
    flavour: str = "plain"  # plain, async; for around also: yield, ayield
    types: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class Scenario:
    """A target, its hooks, and one call of it."""

    style: str
    signature: str
    names: list[str]
    target_acts: list[str]
    yields: int
    specs: list[Spec]
    args: list[int]
    kwargs: dict[str, int]
    drive: list[str]
    calls: int = 1
    nested: bool = False
    event: dict[str, Any] | None = None  # what `event` is given, if it is one
    stub: bool = False  # an event without a body


class Pause:
    """An awaitable that suspends once."""

    def __await__(self) -> Generator[Any, Any, None]:
        yield self


async def _later(value: Any) -> Any:
    await Pause()
    return value


async def _through(inner: Any) -> Any:
    await Pause()
    return await inner


class World:
    """One build of a scenario, and the log of what happened in it."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.log: list[Any] = []
        self.runs: dict[str, int] = {}
        self.raised: dict[int, str] = {}
        self.kept: list[BaseException] = []
        self.coroutines: list[Any] = []
        self.target = self._build_target()
        self.functions = [self._build_hook(f"h{place}", spec) for place, spec in enumerate(scenario.specs)]

    # Acting

    def act(self, who: str, acts: list[str], given: dict[str, Any]) -> Any:
        """Note what somebody was given, and do what it does in this run."""
        turn = self.runs.get(who, 0)
        self.runs[who] = turn + 1
        self.log.append((who, {name: self.show(value) for name, value in sorted(given.items())}))
        return self.perform(who, acts[min(turn, len(acts) - 1)], turn)

    def perform(self, who: str, act: str, turn: int) -> Any:
        verb, _, rest = act.partition(" ")
        if verb == "raise":
            error = FAILURES[rest](f"{who}.{turn}")
            self.kept.append(error)
            self.raised[id(error)] = f"{who}.{turn}"
            raise error
        if verb == "args":
            return Args(**{name: f"{who}.{turn}:{name}" for name in rest.split()})
        if verb == "return":
            return Return(f"{who}.{turn}:R" if rest == "value" else None)
        if verb == "later":
            made = _later(None if rest == "none" else f"{who}.{turn}:L")
            self.coroutines.append(made)
            return made
        if verb == "like":
            return Like()
        return f"{who}.{turn}:V" if verb == "value" else None

    def show(self, value: Any) -> Any:
        """Make something comparable between two worlds."""
        if isinstance(value, BaseException):
            return self.show_error(value)
        if isinstance(value, Call):
            return (
                "call",
                {name: self.show(one) for name, one in value.arguments.items()},
                self.show(value.args),
                self.show(value.kwargs),
                self.show(value.result),
                self.show(value.exc),
                sorted(value.state),
            )
        if isinstance(value, (tuple, list)):
            return [self.show(one) for one in value]
        if isinstance(value, dict):
            return {key: self.show(one) for key, one in value.items()}
        if isinstance(value, (Args, Return)):
            return repr(value)
        return value if isinstance(value, (int, str, type(None))) else type(value).__name__

    def show_error(self, error: BaseException | None, depth: int = 0) -> Any:
        """Show an exception with the chain of its contexts; one of ours is known by who raised it."""
        if error is None or depth > 8:
            return None
        text = self.raised.get(id(error)) or str(error)
        inside = [self.show_error(one) for one in error.exceptions] if isinstance(error, BaseExceptionGroup) else []
        context = self.show_error(error.__context__, depth + 1)
        return (type(error).__name__, text, error.__suppress_context__, context, *inside)

    # Building

    def _build_target(self) -> Any:
        scenario = self.scenario
        lead = "async def" if scenario.style in ("coroutine", "async generator") else "def"
        body = [
            f"{lead} target({scenario.signature}):",
            f"    given = dict({', '.join(f'{n}={n}' for n in scenario.names)})",
        ]
        if scenario.stub:
            body = [f"{body[0]} ..."]
        else:
            body.append("    result = world.act('target', acts, given)")
        if "generator" in scenario.style:
            body += [
                f"    for turn in range({scenario.yields}):",
                "        try:",
                "            sent = yield f'item {turn}'",
                "            world.log.append(('sent', world.show(sent)))",
                "        except Mishap as error:",
                "            world.log.append(('thrown', world.show(error)))",
                "            if swallows: continue",
                "            raise",
                "        finally:",
                "            world.log.append(('left', turn))",
            ]
        if scenario.style == "coroutine" and not scenario.stub:
            body.append("    await Pause()")
        if scenario.style != "async generator" and not scenario.stub:
            body.append("    return result")
        space = {
            "world": self,
            "acts": scenario.target_acts,
            "Mishap": Mishap,
            "Pause": Pause,
            "swallows": "swallow" in scenario.drive,
        }
        exec("\n".join(body), space)
        return space["target"]

    def _build_hook(self, name: str, spec: Spec) -> Callable[..., Any]:
        # What is asked for as "x" is passed by position, "*, x" by keyword; "?x" has a default and matches nothing.
        parameters = [f"{ask[1:]}='kept'" if ask.startswith("?") else ask for ask in spec.asks]
        if spec.kind == "around" and spec.flavour in ("plain", "async"):
            parameters.insert(0, "proceed")
        given = ", ".join(
            f"'{p}': {p}" for p in (part.lstrip("*?").partition("=")[0] for part in parameters) if p and p != "proceed"
        )
        lead = "async def" if spec.flavour in ("async", "ayield") else "def"
        body = [f"{lead} {name}({', '.join(parameters)}):", f"    given = {{{given}}}"]
        if spec.kind == "around":
            body += _around_body(name, spec, self.scenario.style)
        else:
            body += ["    await Pause()"] if spec.flavour == "async" else []
            if "call" in spec.asks:
                body.append(f"    call.state[{name!r}] = 1")
            if any(act.startswith("args") for act in spec.acts):
                body.append("    Args")  # what it replaces is written in line for a hook whose code has this name
            body.append(f"    return world.act({name!r}, acts, given)")
        space = {"world": self, "acts": spec.acts, "Pause": Pause, "Mishap": Mishap, "Args": Args, "Return": Return}
        space["through"] = _through
        exec("\n".join(body), space)
        return space[name]  # type: ignore[no-any-return]

    def _build_predicate(self, name: str, act: str) -> Callable[..., Any]:
        asks = ", ".join(self.scenario.names[:1] + ["kwargs"])
        given = ", ".join(f"'{ask}': {ask}" for ask in asks.split(", "))
        space = {"world": self, "acts": ["value" if act == "yes" else act, "none"]}
        exec(f"def {name}({asks}): return world.act({name!r}, acts, {{{given}}})", space)
        return space[name]  # type: ignore[no-any-return]

    def _build_gate(self, name: str, act: str) -> Predicate:
        def holds(*args: Any) -> bool:
            return self.act(name, ["value" if act == "yes" else act, "none"], {"args": args}) is not None

        return Predicate(holds, (("*", "args"),) if act == "yes" else ())

    def mounted(self) -> Any:
        """Make the target a mount point, with all the hooks."""
        if self.scenario.event is None:
            hookable(self.target)
        else:
            event(self.target) if not self.scenario.event else event(**self.scenario.event)(self.target)
        for place, spec in enumerate(self.scenario.specs):
            types = [FAILURES[one] for one in spec.types]
            options = dict(spec.options)
            if "when" in options:
                options["when"] = self._build_predicate(f"when{place}", options["when"])
            # A weaving puts a gate on its hooks, before their own `when`.
            gate = self._build_gate(f"gate{place}", options.pop("gate")) if "gate" in options else None
            hooks(self.target).add_hook(spec.kind, self.functions[place], tuple(types), options, gate)  # type: ignore[arg-type]
        return self.target

    def interpreted(self) -> Callable[..., Any]:
        """Return a function that interprets a call of the target with the same hooks."""
        mount = hooks(self.mounted())
        members = tuple(mount)
        plain = mount.code()
        place = mount.place
        original = place.original if place is not None else self.target

        class Found(Site):
            def find(self, kind: str, function: object) -> Any:
                return next((hook for hook in members if hook.kind == kind and hook.function is function), None)

        site = Found(mount.name, plain, lambda: self.target, mount.emission)
        law = (_law.run, _law_async.run, _law.generate, _law_async.generate)[STYLES.index(self.scenario.style)]

        def call(*args: Any, **kwargs: Any) -> Any:
            # As the compiled call, this one sees the chain as it is when it begins.
            chain = Chain(tuple(mount))
            return law(chain, Call(site, _bound(site.signature, original, args, kwargs)), original)

        return call

    # Running

    def run(self, function: Callable[..., Any]) -> list[Any]:
        """Make the calls of the scenario, and give the log with how each ended."""
        for turn in range(self.scenario.calls):
            try:
                made = function(*self.scenario.args, **self.scenario.kwargs)
                if self.scenario.style == "coroutine":
                    made = _finish(made)
                elif "generator" in self.scenario.style:
                    made = self._drive(made)
                self.log.append(("result", turn, self.show(made)))
            except BaseException as error:
                if isinstance(error, AssertionError):
                    raise
                self.log.append(("failed", turn, self.show_error(error)))
        for coroutine in self.coroutines:  # Python warns of those that nobody awaits
            coroutine.close()
        return self.log

    def _drive(self, stream: Any) -> Any:
        sync = self.scenario.style == "generator"
        for step in self.scenario.drive:
            verb, _, what = step.partition(" ")
            if verb == "swallow":
                continue
            try:
                if verb == "next":
                    got = next(stream) if sync else _finish(stream.__anext__())
                elif verb == "send":
                    got = stream.send(what) if sync else _finish(stream.asend(what))
                elif verb == "throw":
                    error = FAILURES[what]("driver")
                    self.kept.append(error)
                    self.raised[id(error)] = "driver"
                    got = stream.throw(error) if sync else _finish(stream.athrow(error))
                else:
                    got = stream.close() if sync else _finish(stream.aclose())
                self.log.append((step, self.show(got)))
            except (StopIteration, StopAsyncIteration) as stop:
                self.log.append((step, "stopped", self.show(getattr(stop, "value", None))))
                break
            except TypeError as error:
                self.log.append((step, "refused", str(error).replace("async generator", "generator")))
                break
        if sync:
            stream.close()
        else:
            _finish(stream.aclose())
        return "driven"


def _bound(signature: Signature, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return tuple(bound.arguments[name] for name in signature.names)


def _finish(awaitable: Any) -> Any:
    """Run an awaitable to its end, as an event loop would."""
    running = awaitable.__await__() if hasattr(awaitable, "__await__") else awaitable
    try:
        while True:
            running.send(None)
    except StopIteration as stop:
        return stop.value


def _around_body(name: str, spec: Spec, style: str) -> list[str]:
    """Write what an around hook does: `acts[0]` says how it treats what is inside."""
    how, _, rest = spec.acts[0].partition(" ")
    waits = "await " if spec.flavour == "async" else ""
    changes = ", ".join(f"{one}='{name}:{one}'" for one in rest.split())
    # "inner" answers what the inside gave, an object that may be a coroutine, as it is.
    last = [f"    answer = world.act('{name}.after', acts[1:], dict(given, inner=inner))"]
    last += ["    answer = inner"] if spec.acts[1] == "inner" else []
    if spec.flavour in ("yield", "ayield"):
        tail = [] if spec.flavour == "ayield" else ["    return answer"]
        if how == "never":
            return [
                f"    world.act({name!r}, ['none'], given)",
                "    if 0: yield",
                *([] if tail == [] else ["    return None"]),
            ]
        if how == "twice":
            return [f"    world.act({name!r}, ['none'], given)", "    yield", "    yield"]
        if how == "catch":
            catch = ["    try:", "        inner = yield", "    except Mishap as error:", "        inner = error"]
            return [f"    world.act({name!r}, ['none'], given)", *catch, *last, *tail]
        return [f"    world.act({name!r}, ['none'], given)", "    inner = yield", *last, *tail]
    lines = [f"    world.act({name!r}, ['none'], given)"]
    if "generator" in style:
        return [*lines, f"    return proceed({changes if how == 'change' else ''})"]
    if how == "hand":  # an answer that is yet to be awaited
        return [*lines, "    return proceed()"]
    if how == "through":
        return [*lines, "    return through(proceed())"]
    if how == "never":
        return [*lines, "    inner = None", *last, "    return answer"]
    if how == "twice":
        return [*lines, f"    {waits}proceed()", f"    inner = {waits}proceed()", *last, "    return answer"]
    if how == "catch":
        catch = [
            "    try:",
            f"        inner = {waits}proceed()",
            "    except Mishap as error:",
            "        inner = error",
        ]
        return [*lines, *catch, *last, "    return answer"]
    return [*lines, f"    inner = {waits}proceed({changes})", *last, "    return answer"]


# Strategies


@st.composite
def signatures(draw: st.DrawFn) -> tuple[str, list[str], list[int], dict[str, int]]:
    """Draw the text of a signature, its names, and arguments that fit."""
    positional_only = draw(st.integers(0, 1))
    regular = draw(st.integers(0, 2))
    keyword_only = draw(st.integers(0, 2))
    varargs, varkw = draw(st.booleans()), draw(st.booleans())
    with_default = draw(st.integers(0, positional_only + regular))
    pool = ["a", "b", "c", "answer", "stage", "pre_1", "target", "argument_0", "argument_1", "__tracebackhide__"]
    pool = draw(st.permutations(pool)) if draw(st.booleans()) else pool
    names = list(pool[: positional_only + regular])
    parts = [
        name + ("=-1" if place >= positional_only + regular - with_default else "") for place, name in enumerate(names)
    ]
    if positional_only:
        parts.insert(positional_only, "/")
    kw_names = list(pool[len(names) : len(names) + keyword_only])
    if varargs:
        parts.append("*rest")
    elif kw_names:
        parts.append("*")
    kw_default = draw(st.booleans())
    parts += [name + ("=-2" if kw_default else "") for name in kw_names]
    if varkw:
        parts.append("**extra")
    required = len(names) - with_default
    count = draw(st.integers(min(required, positional_only), len(names)))
    args = list(range(10, 10 + count))
    kwargs = {
        name: 15 for name in names[max(count, positional_only) :] if name in names[:required] or draw(st.booleans())
    }
    kwargs |= {name: 20 for name in kw_names if not kw_default or draw(st.booleans())}
    if varargs and count == len(names):
        args += draw(st.sampled_from([[], [7, 8]]))
    if varkw:
        # Where one that is positional-only has its argument, its name is free for another. Where it has its default,
        # it is as well, but `inspect.Signature.bind` refuses such calls on 3.11.
        free = names[: min(positional_only, count)]
        kwargs.update(draw(st.sampled_from([{}, {"zz": 5}, {"extra": 5}, {"rest": 5}, dict.fromkeys(free, 5)])))
    everything = names + kw_names + ["rest"] * varargs + ["extra"] * varkw
    return ", ".join(parts), everything, args, kwargs


OFFERED = {
    "pre": ["call", "args", "kwargs"],
    "around": ["call", "args", "kwargs"],
    "on": ["call", "args", "kwargs"],
    "item": ["item", "call", "args"],
    "exception": ["exc", "call", "kwargs"],
    "post": ["result", "call", "args"],
    "always": ["result", "exc", "call"],
}
_raises = st.sampled_from(sorted(f"raise {name}" for name in FAILURES))


def acts(kind: str, names: list[str]) -> st.SearchStrategy[str]:
    """Draw what a hook of a kind does: mostly what it may do, now and then a wrong answer or a failure."""
    replaceable = [name for name in names if name not in ("rest", "extra")]
    args = (
        st.lists(st.sampled_from(replaceable), min_size=1, unique=True).map(lambda row: "args " + " ".join(row))
        if replaceable
        else st.just("none")
    )
    rows = {
        "pre": [st.just("none"), args, st.just("return value"), st.just("return none"), st.just("value")],
        "on": [st.just("none"), st.just("value"), st.just("value"), st.just("return none"), args],
        "item": [st.just("none"), st.just("value"), st.just("return none"), args],
        "exception": [st.just("none"), st.just("return value"), st.just("return none"), st.just("value")],
        "post": [st.just("none"), st.just("value"), st.just("return none"), args],
        "always": [st.just("none"), st.just("value"), st.just("return value"), args],
    }
    return st.one_of(st.just("none"), *rows[kind], st.just("like"), _raises)


@st.composite
def specs(draw: st.DrawFn, style: str, names: list[str], *, listens: bool = False) -> Spec:
    """Draw one hook for a target, or for an event."""
    kinds = ["pre", "around", "exception", "post", "always"] + (["item"] if "generator" in style else [])
    kinds += ["on"] * 5 if listens else []
    kind = draw(st.sampled_from(kinds))
    asynchronous = style in ("coroutine", "async generator")
    asks = draw(st.lists(st.sampled_from([*OFFERED[kind], *names, "?nothing"]), max_size=3, unique=True))
    asks.sort(key=lambda ask: ask.startswith("?"))
    if draw(st.booleans()) and asks and not any(ask.startswith("?") for ask in asks):
        asks.insert(draw(st.integers(0, len(asks) - 1)), "*")
    if draw(st.integers(0, 9)) == 0:
        asks = [*(ask for ask in asks if ask != "*" and not ask.startswith("?")), "**keywords"]
    options: dict[str, Any] = {}
    if draw(st.booleans()):
        options["priority"] = draw(st.sampled_from([0, 30, 50, "LOW"]))
    conditions = {"isolate": True, "times": 1, "every": 2, "reentrant": False}
    conditions["when"] = draw(st.sampled_from(["yes", "none", "raise mishap"]))
    conditions["gate"] = draw(st.sampled_from(["yes", "none", "raise mishap"]))
    conditions["weak"] = True
    if kind == "around":
        del conditions["isolate"], conditions["weak"]
    options |= {name: value for name, value in conditions.items() if draw(st.integers(0, 7)) == 0}
    if kind == "around":
        flavours = {"coroutine": ["async", "yield", "ayield"], "async generator": ["plain", "yield", "ayield"]}.get(
            style, ["plain", "yield"]
        )
        flavour = draw(st.sampled_from(flavours))
        handed = ["hand", "through"] if flavour == "async" else []
        how = draw(st.sampled_from(["proceed", "change", "never", "twice", "catch", *handed]))
        changed = [name for name in names if name not in ("rest", "extra")][:1]
        first = f"change {changed[0]}" if how == "change" and changed else how
        later = ["later none", "later value"] if flavour in ("async", "yield") and style == "coroutine" else []
        after = draw(
            st.sampled_from(["none", "value", "like", "return value", "raise mishap", "args a", "inner", *later])
        )
        return Spec(kind, asks, [first, after], flavour, options=options)
    spec = Spec(kind, asks, draw(st.lists(acts(kind, names), min_size=1, max_size=2)), options=options)
    if asynchronous and draw(st.booleans()):
        spec.flavour = "async"
    if kind == "exception":
        spec.types = draw(st.lists(st.sampled_from(sorted(FAILURES)), max_size=2, unique=True))
    return spec


@st.composite
def _events(draw: st.DrawFn, style: str, names: list[str], *, stub: bool) -> dict[str, Any]:
    """Draw what `event` is given."""
    options: dict[str, Any] = {}
    if draw(st.booleans()):
        options["errors"] = draw(st.sampled_from(["raise", "isolate", "group"]))
    foldable = [name for name in names if name not in ("rest", "extra")]
    gives = draw(st.sampled_from(["list", "first", "fold"]))
    if gives == "first":
        options["first"] = True
    elif gives == "fold" and foldable:
        options["fold"] = draw(st.sampled_from(foldable))
    return options


@st.composite
def scenarios(draw: st.DrawFn, styles: tuple[str, ...] = STYLES, *, events: bool = False) -> Scenario:
    """Draw a whole scenario."""
    style = draw(st.sampled_from(styles))
    signature, names, args, kwargs = draw(signatures())
    steps = st.one_of(
        st.just("next"),
        st.just("send x"),
        st.sampled_from(["throw mishap", "throw alarm", "throw key"]),
        st.just("close"),
    )
    stub = events and draw(st.booleans())
    results = ["value", "none"] + (["later value"] if style == "coroutine" else [])
    return Scenario(
        style,
        signature,
        names,
        draw(st.lists(st.one_of(*map(st.just, results), _raises), min_size=1, max_size=2)),
        draw(st.integers(0, 3)),
        draw(st.lists(specs(style, names, listens=events), max_size=6)),
        args,
        kwargs,
        ["next", *draw(st.lists(steps, max_size=4))] if draw(st.booleans()) else draw(st.lists(steps, max_size=5)),
        draw(st.integers(1, 3)),
        event=draw(_events(style, names, stub=stub)) if events else None,
        stub=stub,
    )
