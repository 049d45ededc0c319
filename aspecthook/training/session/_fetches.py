"""Fetches, which are names of values of a step, and feeds, which are new entries for its batch.

Some values exist only in the middle of a step, so hooks on stages and layers catch them. The invariant: such a hook
exists only if the current step, or the one before it, fetches its value. A run without fetches has no such hook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, final

from aspecthook import hooks, weave
from aspecthook._errors import HookOptionError, HookTypeError, brief, nearest
from aspecthook.training._errors import TrainingError
from aspecthook.training.backends._state import is_tensor, map_leaves, remade
from aspecthook.training.loop._runner import Runner

# Any, in this room: fetches are names, nested in any way, and their values have the same shape; batches, models and
# what they compute are the user's.
Nested: TypeAlias = Any
Feed: TypeAlias = Mapping[Any, Any]

WORDS = ("loss", "global_step", "lr", "iter", "epoch")


def mapped(fetches: Nested, function: Callable[[str], object], who: str) -> Nested:
    """Return fetches with a function applied to each name; raise if something in them is not a name."""

    def of_name(name: object) -> object:
        if name is None or isinstance(name, str):
            return None if name is None else function(name)
        raise HookTypeError(
            f"{who} fetches {brief(name)}; fetch names such as 'loss', or lists, tuples and dicts of names"
        )

    return map_leaves(of_name, fetches)


def _check_name(name: str, run: Runner, who: str) -> None:
    """Raise unless a step has a value of this name; the message has the nearest name."""
    if name in WORDS:
        return
    parameters = list(run.backend.parameters(run.model))
    known = [f"{kind}:{one}" for kind in ("param", "grad") for one in parameters]
    known += [f"output:{layer}" for layer in _layers(run)]
    if name not in known:
        near = nearest(name, [f"param:{name}"] if name in parameters else [*WORDS, *known])
        raise HookOptionError(
            f"{who} fetches {name!r}, which is not a value of a step of {type(run.model).__name__}; the values are "
            f"{', '.join(WORDS)}, 'param:NAME', 'grad:NAME' and 'output:LAYER'{near}"
        )


def _layers(run: Runner) -> dict[str, Any]:
    """Return the layers of the model by name; the model itself by the empty name."""
    found: dict[str, Any] = {}
    for prefix, part in run.backend.parts(run.model).items():
        for name, layer in part.named_modules() if hasattr(part, "named_modules") else ():
            found[f"{prefix}{name}" if name else prefix.removesuffix(".")] = layer
    return found


def arrays(values: Nested) -> Nested:
    """Return tensors, and the outputs of layers for NumPy, nested or not, as NumPy arrays."""

    def array(value: object) -> object:
        if is_tensor(value):
            from aspecthook.training.backends._torch import TorchBackend

            return TorchBackend().to_array(value)
        from aspecthook.training.backends._network import detach

        found = detach(value)
        return found.copy() if hasattr(found, "dtype") else found  # the next step changes parameters in place

    return map_leaves(array, values)


# Feeds


def fed(batch: Nested, feed: Feed, feeders: dict[object, str], who: str) -> Nested:
    """Return a batch with the entries of a feed; `feeders` records which hook has fed which entry in this step."""
    given: Mapping[Any, Any] | list[Any] | tuple[Any, ...] | None = batch  # None stands for a batch without entries
    entries: dict[Any, Any] = {}
    if isinstance(given, Mapping):
        entries = dict(given)
    elif isinstance(given, (list, tuple)):
        entries = dict(enumerate(given))
    for key in feed:
        if key not in entries:
            raise HookOptionError(
                f"{who} feeds {key!r}, and the batch has no such entry; it has: "
                f"{', '.join(map(repr, entries)) or 'none'}{nearest(str(key), list(map(str, entries)))}"
            )
        if key in feeders:
            raise TrainingError(f"{who} feeds {key!r}, which {feeders[key]} feeds too; feed an entry of a batch once")
        feeders[key] = who
    entries |= feed
    return entries if isinstance(given, Mapping) else remade(batch, list(entries.values()))


# The reader

_LAST = 100  # after all other hooks on a stage, since they may replace the value
_NAME = "session fetches"


@final
class Reader:
    """A reader of the values of the last step, by name."""

    def __init__(self, *, training: bool) -> None:
        self.training = training
        self.wanted: set[str] = set()  # the names that the current step fetches
        self._checked: set[str] = set()
        self._caught: dict[str, Any] = {}  # by name: the values of the current step
        self._removers: dict[str, Callable[[], object]] = {}  # by name: the function that removes its hook

    def begin_step(self) -> None:
        """Begin a step: stop catching the values that the last step did not fetch."""
        if self._removers:
            for name in self._removers.keys() - self.wanted:
                self._removers.pop(name)()
            self._caught.clear()
        self.wanted.clear()

    def check(self, fetches: Nested, run: Runner, who: str) -> list[str]:
        """Return the names in fetches; raise if a step has no value of one of them."""
        names: list[str] = []
        if type(fetches) is str:  # as most are
            names.append(fetches)
        else:
            mapped(fetches, names.append, who)
        for name in names:
            if name not in self._checked:
                _check_name(name, run, who)
                self._checked.add(name)
        return names

    def want(self, names: Iterable[str], run: Runner) -> None:
        """Catch the values of these names in the current step."""
        for name in names:
            self.wanted.add(name)
            if name not in self._removers:
                self._catch(name, run)

    def close(self) -> None:
        """Remove the hooks from stages and layers, and forget the values that they have caught."""
        while self._removers:
            self._removers.popitem()[1]()
        for kept in (self.wanted, self._checked, self._caught):
            kept.clear()

    def read(self, names: Iterable[str], run: Runner, global_step: int) -> dict[str, Any]:
        """Return values by name."""
        return {name: global_step if name == "global_step" else self._read(name, run) for name in names}

    def _catch(self, name: str, run: Runner) -> None:
        """Add a hook that catches a value, if it needs one."""
        kind, _, rest = name.partition(":")

        def catch(result: object) -> None:
            if name in self.wanted:
                self._caught[name] = result

        def catch_output(*given: object) -> None:
            # The last one is the output. The next layer may change it in place, so it is copied.
            catch(map_leaves(lambda one: one.detach().clone() if is_tensor(one) else one, given[-1]))

        def catch_gradient() -> None:  # now, since the gradients are set to zero soon
            gradient = run.backend.parameters(run.model)[rest].grad
            catch(None if gradient is None else arrays(gradient))

        if kind == "output":
            layer = _layers(run)[rest]
            if run.backend.name == "torch":
                _refuse_compiled(run, name)
                self._removers[name] = layer.register_forward_hook(catch_output).remove
            else:
                self._removers[name] = weave(layer.forward, post=catch, name=_NAME, priority=_LAST).remove
        elif self.training and (name == "loss" or kind == "grad"):
            stage, catches = (run.forward, catch) if name == "loss" else (run.optimizer_step, catch_gradient)
            self._removers[name] = hooks(stage).add("post", catches, name=_NAME, priority=_LAST).remove

    def _read(self, name: str, run: Runner) -> object:
        kind, _, rest = name.partition(":")
        if name in ("iter", "epoch"):
            return getattr(run, name)
        if name == "lr":
            groups: list[dict[str, Any]] = getattr(run.optimizer, "param_groups", None) or [{}]
            return None if groups[0].get("lr") is None else float(groups[0]["lr"])
        if kind == "param":
            return arrays(run.backend.parameters(run.model)[rest].data)
        if name == "loss":
            found = self._caught.get(name, _logged_loss(run))
            read: Callable[[Any], object] = run.backend.item
        else:
            found, read = self._caught.get(name), arrays
        value = None if found is None else read(found)
        if name in self._caught:  # from now on as numbers: a tensor holds a graph, or memory of a GPU
            self._caught[name] = value
        return value


def _logged_loss(run: Runner) -> object:
    """Return the loss that the model has returned, or has named among the numbers to log."""
    outputs: Mapping[str, Any] | None = run.outputs  # or something else, of a model that returns no mapping
    if not isinstance(outputs, Mapping):
        return None
    return outputs["loss"] if "loss" in outputs else outputs.get("log_vars", {}).get("loss")


def _refuse_compiled(run: Runner, name: str) -> None:
    """Raise if the model is compiled: compiled code ignores hooks that are added to its layers later."""
    for part in (run.model, *_layers(run).values()):
        if hasattr(part, "_orig_mod") or getattr(part, "_compiled_call_impl", None) is not None:
            raise TrainingError(
                f"{name!r} cannot be fetched: {type(part).__name__} is compiled by PyTorch, and compiled code ignores "
                "hooks that are added later; use the model uncompiled, or return the value from its forward"
            )
