"""Fetches, names of the values of a step, and the reader of those values; and feeds, new entries of a batch.

Some values exist only in the middle of a step, so hooks on stages and layers catch them. The invariant: such a hook
exists only if the current step, or the one before it, fetches its value. A run without fetches has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, final

from aspecthook import hooks, weave
from aspecthook._errors import HookOptionError, HookTypeError, brief, nearest
from aspecthook.training._errors import TrainingError
from aspecthook.training.backends._state import is_any, is_tensor, map_leaves, remade
from aspecthook.training.loop._run import Run

# Any: fetches are nested in any way; batches, models and what they compute are the user's.

WORDS = ("loss", "global_step", "lr", "iter", "epoch")  # the names without a colon
KINDS = ("param", "grad", "output")


def mapped(fetches: Any, function: Callable[[str], Any], who: str) -> Any:
    """Return fetches with a function applied to each name; refuse what is not a name."""

    def of_name(name: Any) -> Any:
        if name is None or is_any(name, str):
            return None if name is None else function(name)
        raise HookTypeError(
            f"{who} fetches {brief(name)}; fetch names such as 'loss', or lists, tuples and dicts of names"
        )

    return map_leaves(of_name, fetches)


def check_name(name: str, runner: Run, who: str) -> None:
    """Raise unless a step has a value of this name; the message has the nearest name."""
    if name in WORDS:
        return
    parameters, layers = list(runner.backend.parameters(runner.model)), list(modules(runner))
    known = {"param": parameters, "grad": parameters, "output": layers}
    kind, _, rest = name.partition(":")
    if rest in known.get(kind, ()):
        return
    if kind in known:
        what = "layer" if kind == "output" else "parameter"
        raise HookOptionError(
            f"{who} fetches {name!r}, and {type(runner.model).__name__} has no {what} {rest!r}; it has: "
            f"{_listed(known[kind])}{nearest(rest, known[kind])}"
        )
    exact = [f"{kind}:{name}" for kind in KINDS if name in known[kind]]
    near = nearest(name, exact[:1] or [*WORDS, *(f"{kind}:{rest}" for kind in KINDS for rest in known[kind])])
    raise HookOptionError(
        f"{who} fetches {name!r}, which is not a value of a step; the values are {', '.join(WORDS)}, 'param:NAME', "
        f"'grad:NAME' and 'output:LAYER'{near}"
    )


def modules(runner: Run) -> dict[str, Any]:
    """Return the layers of the model by name; the model itself by the empty name."""
    found: dict[str, Any] = {}
    for prefix, part in runner.backend.parts(runner.model).items():
        for name, module in part.named_modules() if hasattr(part, "named_modules") else ():
            found[f"{prefix}{name}" if name else prefix.removesuffix(".")] = module
    return found


def _listed(names: Sequence[Any], most: int = 12) -> str:
    shown = [repr(name) for name in names[:most]]
    return ", ".join(shown + [f"{len(names) - most} more"] * (len(names) > most)) or "none"


# Feeds

_PLACES: dict[Any, int] = {"inputs": 0, "targets": 1}


def entry_of(batch: Any, key: Any, who: str) -> Any:
    """Return the name by which `fed` knows an entry of a batch: ``0`` for ``"inputs"``."""
    if is_any(batch, Mapping):
        known, entry = list(batch), key
    elif is_any(batch, list, tuple):
        known = list(range(len(batch))) + (list(_PLACES) if len(batch) == 2 else [])
        entry = _PLACES.get(key, key) if len(batch) == 2 else key
    else:
        known, entry = ["batch"], key
    if key in known and not isinstance(key, bool):
        return entry
    raise HookOptionError(
        f"{who} feeds {key!r}, and the batch has no such entry; it has: {_listed(known)}"
        f"{nearest(str(key), list(map(str, known)))}"
    )


def fed(batch: Any, feed: Mapping[Any, Any]) -> Any:
    """Return a batch with entries replaced; their names are those that `entry_of` returns."""
    if is_any(batch, Mapping):
        return {**batch, **feed}
    if is_any(batch, list, tuple):
        return remade(batch, [feed.get(place, value) for place, value in enumerate(batch)])
    return feed["batch"]


# The reader

_LAST = 100  # after all other hooks on a stage, since they may replace the value
_NAME = "session fetches"
_KNOWN = frozenset(("global_step", "lr", "iter", "epoch"))  # can be read without a hook


@final
class Reader:
    """A reader of values of the step that has just been made, by name."""

    def __init__(self, *, training: bool) -> None:
        self.training = training
        self._checked: set[str] = set()
        self._removers: dict[str, Callable[[], object]] = {}  # by name: a function that removes the hook for it
        self._caught: dict[str, Any] = {}  # by name: the newest value
        self._fresh: set[str] = set()  # the names whose values were caught in this step
        self._wanted: set[str] = set()  # the names that this step fetches

    def open(self) -> None:
        """Begin a session: check names again."""
        self._checked = set()

    def begin_step(self) -> None:
        """Begin a step: stop catching the values that the last step did not fetch."""
        if not (self._removers or self._fresh):
            return
        for name in self._removers.keys() - self._wanted:
            self._removers.pop(name)()
        self._wanted.clear()
        self._fresh.clear()

    def check(self, fetches: Any, runner: Run, who: str) -> list[str]:
        """Return the names in fetches; raise if a step has no value of one of them."""
        names: list[str] = []
        if type(fetches) is str:  # as most are
            names.append(fetches)
        else:
            mapped(fetches, names.append, who)
        for name in names:
            if name not in self._checked:
                check_name(name, runner, who)
                self._checked.add(name)
        return names

    def want(self, name: str, runner: Run) -> None:
        """Catch a value in this step."""
        if name in _KNOWN:
            return
        self._wanted.add(name)
        if name not in self._removers:
            remover = self._catching(name, runner)
            if remover is not None:
                self._removers[name] = remover

    def close(self) -> None:
        """Remove the hooks from stages and layers. The values that they caught can still be read."""
        while self._removers:
            self._removers.popitem()[1]()
        self._wanted = set()
        self._caught = {name: numbers(value) for name, value in self._caught.items()}

    def read(self, names: Iterable[str], runner: Run, global_step: int) -> dict[str, Any]:
        """Return values by name."""
        return {name: self._read(name, runner, global_step) for name in names}

    # Catching

    def _catching(self, name: str, runner: Run) -> Callable[[], object] | None:
        """Add a hook that catches a value, if it needs one; return the function that removes the hook."""
        kind, _, rest = name.partition(":")

        def catch(result: Any) -> None:
            if name in self._wanted:
                self._caught[name] = result
                self._fresh.add(name)

        def catch_gradient(runner: Run) -> None:  # now, since the gradients are set to zero soon
            catch(_gradient(runner, rest))

        def catch_output(_module: Any, _inputs: Any, output: Any) -> None:
            catch(_copied(output))

        if kind == "output" and runner.backend.name == "torch":
            _refuse_compiled(runner, name)
            remove: Callable[[], object] = modules(runner)[rest].register_forward_hook(catch_output).remove
            return remove
        if kind == "output":
            return weave(modules(runner)[rest].forward, post=catch, name=_NAME, priority=_LAST).remove
        if self.training and name == "loss":
            return hooks(runner.forward).add("post", catch, name=_NAME, priority=_LAST).remove
        if self.training and kind == "grad":
            return hooks(runner.optimizer_step).add("post", catch_gradient, name=_NAME, priority=_LAST).remove
        return None

    # Reading

    def _read(self, name: str, runner: Run, global_step: int) -> Any:
        if name in WORDS:
            return global_step if name == "global_step" else self._word(name, runner)
        kind, _, rest = name.partition(":")
        if kind == "param":
            return numbers(runner.backend.parameters(runner.model)[rest])
        if kind == "grad":
            return self._caught[name] if name in self._fresh else _unscaled(_gradient(runner, rest), runner)
        if name in self._caught:  # from now on as arrays: a tensor holds a graph, or memory of a GPU
            self._caught[name] = numbers(self._caught[name])
        return self._caught.get(name)

    def _word(self, name: str, runner: Run) -> Any:
        if name == "lr":
            groups: Any = getattr(runner.optimizer, "param_groups", None) or [{}]
            rate = groups[0].get("lr")
            return None if rate is None else float(rate)
        if name == "loss":
            return self._loss(runner)
        return getattr(runner, name)

    def _loss(self, runner: Run) -> float | None:
        if "loss" in self._fresh:
            loss = self._caught["loss"] = runner.backend.item(self._caught["loss"])
            return loss
        made = runner.outputs
        if is_any(made, Mapping) and "loss" in made:
            return runner.backend.item(made["loss"])
        log = made.get("log_vars", {}) if is_any(made, Mapping) else runner.logs
        return float(log["loss"]) if "loss" in log else None


def numbers(value: Any) -> Any:
    """Return tensors, losses, parameters and outputs of layers, nested or not, as numbers and NumPy arrays."""
    return map_leaves(_number_of, value)


def _number_of(value: Any) -> Any:
    if is_tensor(value):
        from aspecthook.training.backends._torch import TorchBackend

        return TorchBackend().to_array(value)
    if hasattr(value, "backward") and hasattr(value, "item"):  # a loss of ours
        return value.item()
    import numpy as np

    if hasattr(value, "data") and hasattr(value, "requires_grad"):  # a parameter of ours
        return np.array(value.data)
    if hasattr(value, "_value") and hasattr(value, "_node"):  # autograd's box around an array
        return np.array(value._value)
    return np.array(value) if is_any(value, np.ndarray) else value


def _gradient(runner: Run, name: str) -> Any:
    gradient = getattr(runner.backend.parameters(runner.model)[name], "grad", None)
    return None if gradient is None else numbers(gradient)


def _unscaled(gradient: Any, runner: Run) -> Any:
    """Return a gradient that the optimizer has not used yet, without the scale of mixed precision."""
    scale = 1.0 if runner.amp is None else runner.amp.state_dict().get("scale", 1.0)
    return gradient if gradient is None or scale == 1.0 else gradient / gradient.dtype.type(scale)


def _copied(output: Any) -> Any:
    """Return a copy of the output of a layer: the next layer may change it in place."""
    return map_leaves(lambda one: one.detach().clone() if hasattr(one, "detach") else one, output)


def _refuse_compiled(runner: Run, name: str) -> None:
    """Raise if the model is compiled: compiled code ignores hooks that are added to its layers later."""
    for part in (runner.model, *modules(runner).values()):
        if hasattr(part, "_orig_mod") or getattr(part, "_compiled_call_impl", None) is not None:
            raise TrainingError(
                f"{name!r} cannot be fetched: {type(part).__name__} is compiled by PyTorch, and compiled code ignores "
                "hooks that are added later; use the model uncompiled, or return the value from its forward"
            )
