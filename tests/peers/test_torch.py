"""PyTorch's module hooks against their documentation: the order, `prepend`, `always_call`, `with_kwargs`, handles."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, consumes, rule

from .beside import BesidePeer, peer_test, story_of
from .refute import FEW, PeerMachine, holds, refuted

torch = pytest.importorskip("torch", exc_type=ImportError)
world = torch.nn.modules.module  # where the hooks of all modules live

pytestmark = pytest.mark.torch

ALWAYS = "always_call=True: the hook will be run regardless of whether an exception is raised"
ALWAYS_GLOBAL = "register_module_forward_hook(always_call=True, with_kwargs=True): the same"

KINDS = ("pre", "forward", "backward_pre", "backward")
ONE = {
    "pre": "register_forward_pre_hook",
    "forward": "register_forward_hook",
    "backward_pre": "register_full_backward_pre_hook",
    "backward": "register_full_backward_hook",
}
ALL = {
    "pre": "register_module_forward_pre_hook",
    "forward": "register_module_forward_hook",
    "backward_pre": "register_module_full_backward_pre_hook",
    "backward": "register_module_full_backward_hook",
}


class Doubling(torch.nn.Module):
    """A module that does something before it answers, which may raise."""

    act: Callable[[], None] | None = None

    def forward(self, x: Any, y: int = 0) -> Any:
        if self.act is not None:
            self.act()
        return x * 2


@dataclass(frozen=True)
class Row:
    """One hook as data. What a hook of its kind and place cannot have is False."""

    number: int
    kind: str
    everywhere: bool
    prepend: bool
    with_kwargs: bool
    always: bool

    @property
    def options(self) -> dict[str, bool]:
        options = {"prepend": self.prepend, "with_kwargs": self.with_kwargs, "always_call": self.always}
        return {name: True for name, on in options.items() if on}


def row_of(number: int, kind: str, everywhere: bool, prepend: bool, with_kwargs: bool, always: bool) -> Row:
    kwargs = with_kwargs and (kind == "forward" or (kind == "pre" and not everywhere))
    return Row(number, kind, everywhere, prepend and not everywhere, kwargs, always and kind == "forward")


class TorchMachine(PeerMachine):
    """Hooks of one module and of all modules come and go between calls; the model is a list of rows in order."""

    members = Bundle("members")

    def __init__(self) -> None:
        super().__init__()
        self.was_full = world._global_is_full_backward_hook
        self.module = Doubling()
        self.events: list[Any] = []
        self.handles: dict[int, Any] = {}
        self.rows: list[Row] = []  # the ones of all modules before the ones of this; each in its order
        self.next = 0

    def teardown(self) -> None:
        """Leave PyTorch's globals as they were: removing the handles does not."""
        for handle in self.handles.values():
            handle.remove()
        world._global_forward_hooks_with_kwargs.clear()
        world._global_is_full_backward_hook = self.was_full

    def hook(self, row: Row) -> Callable[..., None]:
        def run(module: Any, *given: Any) -> None:
            self.events.append((row.kind, row.number, len(given)))

        def run_with_kwargs(module: Any, args: Any, kwargs: dict[str, Any]) -> None:
            run(module, args, kwargs)

        def run_with_kwargs_and_output(module: Any, args: Any, kwargs: dict[str, Any], output: Any) -> None:
            run(module, args, kwargs, output)

        if not row.with_kwargs:
            return run
        return run_with_kwargs if row.kind == "pre" else run_with_kwargs_and_output

    def of(self, kind: str, rows: list[Row] | None = None) -> list[tuple[str, int, int]]:
        given = {"pre": 1, "forward": 2, "backward_pre": 1, "backward": 2}[kind]
        return [(kind, row.number, given + row.with_kwargs) for row in rows or self.rows if row.kind == kind]

    @rule(
        target=members,
        kind=st.sampled_from(KINDS),
        everywhere=st.booleans(),
        prepend=st.booleans(),
        with_kwargs=st.booleans(),
        always=st.booleans(),
    )
    def register(self, **drawn: Any) -> int:
        self.next += 1
        row = row_of(self.next, **drawn)
        register = getattr(world, ALL[row.kind]) if row.everywhere else getattr(self.module, ONE[row.kind])
        self.handles[row.number] = register(self.hook(row), **row.options)
        of_all = [one for one in self.rows if one.everywhere]
        of_one = [one for one in self.rows if not one.everywhere]
        self.rows = [*of_all, row, *of_one] if row.everywhere or row.prepend else [*of_all, *of_one, row]
        return row.number

    @rule(number=consumes(members))
    def remove(self, number: int) -> None:
        self.handles[number].remove()
        self.handles[number].remove()  # a second time does nothing
        self.rows = [row for row in self.rows if row.number != number]

    def call(self, act: Callable[[], None] | None = None) -> Any:
        self.events.clear()
        self.module.act = act
        with warnings.catch_warnings():  # PyTorch warns of the always_call hook that it could not call
            warnings.simplefilter("ignore")
            return self.module(torch.ones(1, requires_grad=True), y=1)

    @rule()
    def call_and_go_back(self) -> None:
        self.call().backward()
        assert self.events == [event for kind in KINDS for event in self.of(kind)]

    @rule()
    def call_that_fails(self) -> None:
        """Only the hooks that are always called run, and the caller gets what was raised."""
        with pytest.raises(LookupError):
            self.call(fail_with(LookupError()))
        run = [row for row in self.rows if row.always]
        if not self.believes(ALWAYS_GLOBAL):
            run = [row for row in run if not (row.everywhere and row.with_kwargs)]
        assert self.events == [*self.of("pre"), *(self.of("forward", run) if run else [])]

    @rule()
    def call_that_is_interrupted(self) -> None:
        """Nobody runs: PyTorch catches Exception."""
        with pytest.raises(KeyboardInterrupt):
            self.call(fail_with(KeyboardInterrupt()))
        run = [row for row in self.rows if row.always and self.believes(ALWAYS)]
        assert self.events == [*self.of("pre"), *(self.of("forward", run) if run else [])]

    @rule(number=consumes(members))
    def remove_in_the_call(self, number: int) -> None:
        """Forward hooks are looked up after forward has run, backward hooks before it."""
        before = list(self.rows)
        out = self.call(self.handles[number].remove)
        self.rows = [row for row in before if row.number != number]
        assert self.events == [*self.of("pre", before), *self.of("forward")]
        out.backward()
        assert self.events[len(self.of("pre", before)) + len(self.of("forward")) :] == [
            *self.of("backward_pre", before),
            *self.of("backward", before),
        ]


def fail_with(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


TestTorchMachine = holds(TorchMachine)


# The order alone, in every short story


class TorchOrder(BesidePeer):
    """Forward hooks: those of all modules, then those that were prepended, the newest first, then the others."""

    members: ClassVar[dict[str, dict[str, Any]]] = {
        "a": {},
        "b": {},
        "first_a": {},
        "first_b": {},
        "all_a": {},
        "all_b": {},
    }

    def start(self) -> None:
        self.module = Doubling()

    def join(self, name: str) -> Any:
        def hook(*given: Any) -> None:
            self.ran.append(name)

        if name.startswith("all"):
            return world.register_module_forward_hook(hook)
        return self.module.register_forward_hook(hook, prepend=name.startswith("first"))

    def leave(self, joined: Any) -> None:
        joined.remove()

    def teardown(self) -> None:
        super().teardown()
        for handle in self.joined.values():
            handle.remove()

    def act(self) -> None:
        self.module(torch.ones(1))

    def documented(self, names: list[str]) -> None:
        everywhere = [name for name in names if name.startswith("all")]
        first = [name for name in names if name.startswith("first")]
        self.ran += [*everywhere, *first[::-1], *(name for name in names if name not in {*everywhere, *first})]


class AlwaysCalled(TorchOrder):
    """always_call=True: the hook will be run regardless of whether an exception is raised while calling the Module."""

    members: ClassVar[dict[str, dict[str, Any]]] = {"a": {}, "always": {}}

    def join(self, name: str) -> Any:
        return self.module.register_forward_hook(lambda *given: self.ran.append(name), always_call=name == "always")

    def act(self) -> Any:
        self.module.act = fail_with(KeyboardInterrupt())
        try:
            self.module(torch.ones(1))
        except KeyboardInterrupt:
            return "an interrupt"

    def documented(self, names: list[str]) -> Any:
        self.ran += [name for name in names if name == "always"]
        return "an interrupt"


TestTorchOrder = peer_test(TorchOrder)


def test_the_shortest_story_on_pytorch() -> None:
    assert story_of(AlwaysCalled).splitlines()[:-2] == ["state.add('pre always')"]


# What the machine found


@pytest.mark.parametrize("claim", [ALWAYS, ALWAYS_GLOBAL])
def test_the_machine_refutes_in_a_few_steps(claim: str) -> None:
    assert len(refuted(TorchMachine, claim)) <= FEW


@pytest.fixture
def module() -> Doubling:
    return Doubling()


def ones(*shape: int) -> Any:
    return torch.ones(shape or (1,), requires_grad=True)


def test_a_global_always_called_hook_that_takes_kwargs_is_called_without_them_when_the_call_fails(
    module: Doubling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world, "_global_forward_hooks_with_kwargs", {})  # removing the handle leaves an entry there
    ran: list[str] = []

    def hook(module: Any, args: Any, kwargs: Any, output: Any) -> None:
        ran.append("ran")

    module.act = fail_with(LookupError())
    with (
        world.register_module_forward_hook(hook, with_kwargs=True, always_call=True),
        pytest.warns(UserWarning, match="missing 1 required positional argument"),
        pytest.raises(LookupError),
    ):
        module(ones())
    assert ran == []
    assert world._global_forward_hooks_with_kwargs


def test_an_always_called_hook_that_removes_itself_hides_the_exception_of_the_call(module: Doubling) -> None:
    handle = module.register_forward_hook(lambda *given: handle.remove(), always_call=True)
    module.register_forward_hook(lambda *given: None)
    module.act = fail_with(LookupError())
    with pytest.raises(RuntimeError, match="mutated during iteration"):
        module(ones())


def test_a_hook_removed_by_an_earlier_one_still_runs_in_that_call_but_loses_its_kwargs(module: Doubling) -> None:
    given_to_it: list[int] = []
    module.register_forward_pre_hook(lambda *given: handle.remove())
    handle = module.register_forward_pre_hook(lambda *given: given_to_it.append(len(given)), with_kwargs=True)
    module(ones(), y=1)
    assert given_to_it == [2]  # the module and the arguments


@pytest.mark.parametrize(("others", "ran"), [(False, []), (True, ["ran"])])
def test_a_hook_registered_in_forward_runs_in_that_call_only_if_there_was_another(
    module: Doubling, others: bool, ran: list[str]
) -> None:
    seen: list[str] = []
    module.act = lambda: module.register_forward_hook(lambda *given: seen.append("ran")) and None
    if others:
        module.register_forward_pre_hook(lambda *given: None)
    module(ones())
    assert seen == ran


def test_a_backward_hook_removed_after_the_call_still_runs_in_its_backward(module: Doubling) -> None:
    ran: list[str] = []
    handle = module.register_full_backward_hook(lambda *given: ran.append("ran"))
    out = module(ones())
    handle.remove()
    out.backward()
    assert ran == ["ran"]


def test_a_backward_pre_hook_may_not_answer_a_tensor_though_its_documentation_says_so(module: Doubling) -> None:
    module.register_full_backward_pre_hook(lambda module, grad_output: grad_output[0] * 3)
    with pytest.raises(RuntimeError, match="invalid number of grad_output, got 2, but expected 1"):
        module(ones(2)).sum().backward()


def test_a_global_full_backward_hook_bars_the_other_sort_even_after_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "_global_is_full_backward_hook", None)
    world.register_module_full_backward_hook(lambda *given: None).remove()
    with pytest.raises(RuntimeError, match="Cannot use both"):
        world.register_module_backward_hook(lambda *given: None)
