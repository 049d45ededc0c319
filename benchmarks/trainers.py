"""One training step with hooks before it and as many after it: direct calls, and ours; others are in `other_trainers`.

Each hook is an object of a class of its own, as in a program. What is timed is the time of the processor:

* Ours calls hooks inside of the step: ``Runner.train_iter``, less the same ``train_iter`` of a runner without hooks.
* Direct calls: a function that makes them, less one that does nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from itertools import count
from time import process_time
from typing import Any

from aspecthook import hooks as hooks_of

from .timing import Contender

SOME = 10  # hooks before the step, and as many after it
SELDOM = 1_000  # those that are filtered out run once in so many steps

_numbers = count(1)


@dataclass(frozen=True)
class Rig:
    """A statement that makes `steps` steps, the names in it, and those with which it makes them without any hooks."""

    statement: str
    names: dict[str, Any]
    without: dict[str, Any] | None = None
    steps: int = 1

    def contenders(self, name: str) -> Iterator[Contender]:
        """Return what is timed, and what is to be taken off that."""
        yield Contender(name, self.statement, self.names, self.steps, process_time)
        if self.without is not None:
            yield Contender(f"{name}, without hooks", self.statement, self.without, self.steps, process_time)


@dataclass(frozen=True)
class Work:
    """How many hooks there are, and what their two methods do; one whose body is empty is not overridden."""

    before: str = "pass"
    after: str = "pass"
    count: int = SOME
    names: dict[str, Any] = field(default_factory=dict)

    def only_if(self, condition: str) -> Work:
        """Make hooks that look first whether it is their turn."""
        before, after = (f"if {condition}: {body}" for body in (self.before, self.after))
        return replace(self, before=before, after=after)

    def hooks(self, base: type, before: str, after: str) -> list[Any]:
        """Make the hooks; the methods are given by their names and parameters."""
        bodies = ((before, self.before), (after, self.after))
        methods = "".join(f"    def {head}:\n        {body}\n" for head, body in bodies if body) or "    pass\n"
        return [_defined("class Hook{}(Base):\n" + methods, {"Base": base, **self.names})() for _ in range(self.count)]

    def functions(self, before: str, after: str) -> tuple[list[Any], list[Any]]:
        """Make functions, with these parameters."""
        rows = ((before, self.before), (after, self.after))
        first, last = (
            [_defined("def hook_{}(" + f"{asks}):\n    {body}\n", dict(self.names)) for _ in range(self.count)]
            for asks, body in rows
        )
        return first, last


def _defined(source: str, names: dict[str, Any]) -> Any:
    """Execute the source of a class or a function with a name of its own, and give it."""
    source = source.format(next(_numbers))
    exec(source, names)
    return names[source.partition("(")[0].split()[-1]]


NOOP = Work()
IDLE = Work(before="", after="")
NONE = Work(count=0)
Build = Callable[[Work], Rig]


# Direct calls


@dataclass(frozen=True)
class Style:
    """What a hook asks for, before and after the step, and what a direct call passes for that."""

    name: str
    before: str
    after: str
    passed_before: str
    passed_after: str

    def hooks(self, work: Work, base: type) -> list[Any]:
        """Make hooks that ask so."""
        return work.hooks(base, f"before_train_iter({self.before})", f"after_train_iter({self.after})")


# As mmcv has it, and most hooks of ours; and as mmengine has it.
SHORT = Style("", "self, runner", "self, runner", "runner", "runner")
LONG = Style(
    ", mmengine's arguments",
    "self, runner, batch_idx, data_batch=None",
    "self, runner, batch_idx, data_batch=None, outputs=None",
    "runner, index, batch",
    "runner, index, batch, outputs",
)


def _direct(body: list[str], names: dict[str, Any]) -> Rig:
    head = "def direct_{}(runner, index, batch, outputs):\n"
    step, nothing = (_defined(head + "".join(f"    {line}\n" for line in lines), names) for lines in (body, ["pass"]))
    given = {"r": object(), "b": (1, 2), "o": {}}
    return Rig("f(r, 0, b, o)", {**given, "f": step}, {**given, "f": nothing})


def looped(work: Work, style: Style = SHORT) -> Rig:
    """Go through a list of methods before the step, and through another one after it."""
    made = style.hooks(work, object)
    names = {"before": [one.before_train_iter for one in made], "after": [one.after_train_iter for one in made]}
    first, last = f"for hook in before: hook({style.passed_before})", f"for hook in after: hook({style.passed_after})"
    return _direct([first, last], names)


def written_out(work: Work, style: Style = SHORT, condition: str = "") -> Rig:
    """Write the calls out, one after another."""
    names = {f"hook_{place}": one for place, one in enumerate(style.hooks(work, object))}
    lines = [f"{condition}{name}.before_train_iter({style.passed_before})" for name in names]
    lines += [f"{condition}{name}.after_train_iter({style.passed_after})" for name in names]
    return _direct(lines, dict(names))


def written_out_at_interval(work: Work) -> Rig:
    """Write the calls out, each behind an ``if`` of its own."""
    return written_out(work, condition=f"if not (index + 1) % {SELDOM}: ")


# Ours


class Model:
    """Has mm's protocol, and does nothing."""

    def train_step(self, batch: Any, optimizer: Any) -> dict[str, Any]:
        return OUTPUTS


class Nothing:
    """A loss, and an optimizer."""

    param_groups: tuple[()] = ()

    def item(self) -> float:
        return 0.5

    def backward(self) -> None: ...
    def step(self) -> None: ...
    def zero_grad(self) -> None: ...


OUTPUTS: dict[str, Any] = {"loss": Nothing(), "log_vars": {"loss": 0.5}, "num_samples": 1}


def new_runner_class() -> Any:
    """Return the class anew, as a module of its own would have it, with mount points of its own.

    Those of a class are there for all of its instances: where one instance has hooks, each call of another one costs a
    look more (some 75 ns), which a program that has no hooks does not pay.
    """
    found = find_spec("aspecthook.training.loop._runner")
    assert found is not None and found.origin is not None
    spec = spec_from_file_location(f"{found.name}_{next(_numbers)}", found.origin)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)  # what no module keeps is hooked in another way
    spec.loader.exec_module(module)
    return module.Runner


def new_runner(*hooks: Any) -> Any:
    """Make a runner that has some hooks, of a class of its own."""
    runner = new_runner_class()(Model(), optimizer=Nothing(), max_epochs=1)
    runner.inner_iter, runner.batch = 0, (1, 2)
    for one in hooks:
        runner.register_hook(one)
    return runner


def _of_runner(runner: Any) -> Rig:
    return Rig("r.train_iter(b)", {"r": runner, "b": (1, 2)}, {"r": new_runner(), "b": (1, 2)})


def ours(work: Work, style: Style = SHORT) -> Rig:
    """Register objects of classes that derive from `Hook`."""
    return _of_runner(new_runner(*hooks_of_ours(work, style)))


def hooks_of_ours(work: Work, style: Style = SHORT) -> list[Any]:
    """Make hooks; those that do nothing in a step do so elsewhere, since a hook that never does is refused."""
    from aspecthook.training import Hook

    class Elsewhere(Hook):
        def after_run(self) -> None: ...

    return style.hooks(work, Hook if work.before else Elsewhere)


def ours_at_interval(work: Work) -> Rig:
    """Register hooks that ask ``self.every_n_iters(runner, n)``, as mm's do."""
    return ours(work.only_if(f"self.every_n_iters(runner, {SELDOM})"))


def ours_every(work: Work) -> Rig:
    """Put functions on the step with ``every=``."""
    runner = new_runner()
    before, after = work.functions("runner, batch", "runner, result")
    for one in before:
        hooks_of(runner.train_iter).pre(one, every=SELDOM)
    for one in after:
        hooks_of(runner.train_iter).post(one, every=SELDOM)
    return _of_runner(runner)


# Session-run hooks

FETCHING = Work(before="return ask('loss')")


def _session_hooks(work: Work) -> list[Any]:
    from aspecthook.training.session import SessionRunArgs, SessionRunHook

    work = replace(work, names={**work.names, "ask": SessionRunArgs})
    return work.hooks(SessionRunHook, "before_run(self, run_context)", "after_run(self, run_context, run_values)")


def ours_in_session(work: Work) -> Rig:
    """Register session-run hooks."""
    return _of_runner(new_runner(*_session_hooks(work)))


def session_by_hand(work: Work) -> Rig:
    """Do in a loop what the protocol asks for: a context for the step, and for each hook the values that it wants."""
    from aspecthook.training.session import SessionRunArgs, SessionRunContext, SessionRunValues

    hooks = _session_hooks(work)
    names = {
        "before": [one.before_run for one in hooks],
        "after": [one.after_run for one in hooks],
        "reads": {"loss": OUTPUTS["loss"].item},
        "Context": SessionRunContext,
        "Values": SessionRunValues,
        "no_args": SessionRunArgs(),
        "no_values": SessionRunValues(),
    }
    lines = [
        "context = Context(no_args, None)",
        "asked = [hook(context) for hook in before]",
        "values = {{name: reads[name]() for name in {{one.fetches for one in asked if one is not None}}}}",
        "for hook, one in zip(after, asked):",
        "    hook(context, no_values if one is None else Values(values[one.fetches]))",
        "if context.stop_requested: runner.request_stop()",
    ]
    return _direct(lines, names)
