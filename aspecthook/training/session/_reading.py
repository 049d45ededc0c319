"""Reading what a step knows, by name; what is to be caught in the middle of a step is, while somebody asks for it.

The invariant: a hook of ours is on a stage or a layer only if the step that is under way or the one before it was asked
for what it catches. A run of which nobody fetches anything carries none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, final

from aspecthook import hooks, weave
from aspecthook.training._errors import TrainingError
from aspecthook.training.backends._state import is_any

from ._fetches import modules

if TYPE_CHECKING:
    from aspecthook.training.loop._run import Run

# Any: models and what they compute are the user's.
_LAST = 100  # after all other hooks on a stage: what they have made of it is what counts
_NAME = "session fetches"
_KNOWN = frozenset(("global_step", "lr", "iter", "epoch", "train_op"))  # without a hook


@final
class Reader:
    """Reads values by name, of the step that has just been made."""

    def __init__(self, *, training: bool) -> None:
        self._training = training
        # What takes off the hook that catches a name, and what it has caught last.
        self._held: dict[str, Callable[[], object]] = {}
        self._caught: dict[str, Any] = {}
        self._fresh: set[str] = set()
        self._wanted: set[str] = set()

    def turn(self) -> None:
        """Begin a step: what the last one was not asked for is not caught any more."""
        if not (self._held or self._fresh):
            return
        for name in [name for name in self._held if name not in self._wanted]:
            self._held.pop(name)()
        self._wanted = set()
        self._fresh = set()

    def want(self, name: str, runner: Run) -> None:
        """Have something caught in the step that begins."""
        if name in _KNOWN:
            return
        self._wanted.add(name)
        if name not in self._held:
            catch = self._catching(name, runner)
            if catch is not None:
                self._held[name] = catch

    def close(self) -> None:
        """Leave nothing on stages and layers; what was read last stays known."""
        while self._held:
            self._held.popitem()[1]()
        self._wanted = set()
        self._caught = {name: numbers(value) for name, value in self._caught.items()}

    def read(self, names: Iterable[str], runner: Run, global_step: int) -> dict[str, Any]:
        """Give values by name."""
        return {name: self._read(name, runner, global_step) for name in names}

    # Catching

    def _catching(self, name: str, runner: Run) -> Callable[[], object] | None:
        kind, _, rest = name.partition(":")
        if kind == "output":
            return self._on_layer(name, rest, runner)
        if not self._training:
            return None
        if name == "loss":
            return self._on_stage(runner.forward, self._catch(name))
        return self._on_stage(runner.optimizer_step, self._catch_gradient(name, rest)) if kind == "grad" else None

    def _catch(self, name: str) -> Callable[..., None]:
        def catch(result: Any) -> None:
            self._keep(name, result)

        return catch

    def _catch_gradient(self, name: str, parameter: str) -> Callable[..., None]:
        def catch(runner: Run) -> None:  # before the gradients are set to zero
            self._keep(name, _gradient(runner, parameter))

        return catch

    def _on_stage(self, stage: Any, function: Callable[..., None]) -> Callable[[], object]:
        return hooks(stage).add("post", function, name=_NAME, priority=_LAST).remove

    def _on_layer(self, name: str, layer: str, runner: Run) -> Callable[[], object]:
        module = modules(runner)[layer]
        if runner.backend.name == "torch":
            _refuse_compiled(runner, name)

            def catch(_module: Any, _inputs: Any, output: Any) -> None:
                self._keep(name, _copied(output))

            remove: Callable[[], object] = module.register_forward_hook(catch).remove
            return remove
        return weave(module.forward, post=self._catch(name), name=_NAME, priority=_LAST).remove

    def _keep(self, name: str, value: Any) -> None:
        if name in self._wanted:
            self._caught[name] = value
            self._fresh.add(name)

    # Reading

    def _read(self, name: str, runner: Run, global_step: int) -> Any:
        if name == "global_step":
            return global_step
        kind, _, rest = name.partition(":")
        if kind == "param":
            return numbers(runner.backend.parameters(runner.model)[rest])
        if kind == "grad":
            return self._caught[name] if name in self._fresh else _unscaled(_gradient(runner, rest), runner)
        if kind == "output":
            return self._number(name)
        if kind == "log":
            return _logged(rest, runner)
        return self._word(name, runner)

    def _word(self, name: str, runner: Run) -> Any:
        if name == "lr":
            groups: Any = getattr(runner.optimizer, "param_groups", None) or [{}]
            rate = groups[0].get("lr")
            return None if rate is None else float(rate)
        if name == "loss":
            return self._loss(runner)
        return getattr(runner, name) if name in ("iter", "epoch") else None

    def _loss(self, runner: Run) -> float | None:
        if "loss" in self._fresh:
            return runner.backend.item(self._number("loss"))
        made = runner.outputs
        if is_any(made, Mapping) and "loss" in made:
            return runner.backend.item(made["loss"])
        log = made.get("log_vars", {}) if is_any(made, Mapping) else runner.logs
        return float(log["loss"]) if "loss" in log else None

    def _number(self, name: str) -> Any:
        """Give what was caught, as NumPy's, and let go of the rest: a graph, or memory of a device."""
        if name not in self._caught:
            return None
        value = self._caught[name] = numbers(self._caught[name])
        return value


def numbers(value: Any) -> Any:
    """Give numbers and NumPy's arrays for tensors, losses, parameters and what layers make, nested or not."""
    if is_any(value, Mapping):
        return {key: numbers(one) for key, one in value.items()}
    if is_any(value, list, tuple):
        made = [numbers(one) for one in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    if hasattr(value, "detach") and hasattr(value, "cpu"):  # PyTorch's
        from aspecthook.training.backends._torch import _array

        return _array(value)
    if hasattr(value, "backward") and hasattr(value, "item"):
        return value.item()
    return _array_of(value)


def _array_of(value: Any) -> Any:
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
    """Take the scale of mixed precision out of a gradient whose step is still to come."""
    scale = 1.0 if runner.amp is None else runner.amp.state_dict().get("scale", 1.0)
    return gradient if gradient is None or scale == 1.0 else gradient / gradient.dtype.type(scale)


def _copied(output: Any) -> Any:
    """Copy what a layer has made: the next one may work in its place."""
    if hasattr(output, "detach"):
        return output.detach().clone()
    if is_any(output, Mapping):
        return {key: _copied(one) for key, one in output.items()}
    if is_any(output, list, tuple):
        made = [_copied(one) for one in output]
        return type(output)(*made) if hasattr(output, "_fields") else type(output)(made)
    return output


def _logged(name: str, runner: Run) -> Any:
    if name not in runner.logs:
        from aspecthook._errors import nearest

        raise TrainingError(
            f"'log:{name}' was fetched, and the step has logged no such number; logged are: "
            f"{', '.join(runner.logs) or 'none'}{nearest(name, list(runner.logs))}"
        )
    return numbers(runner.logs[name])


def _refuse_compiled(runner: Run, name: str) -> None:
    """Compiled code does not see a hook that is put on a layer later."""
    for part in (runner.model, *modules(runner).values()):
        if hasattr(part, "_orig_mod") or getattr(part, "_compiled_call_impl", None) is not None:
            raise TrainingError(
                f"{name!r} cannot be fetched: {type(part).__name__} is compiled by PyTorch, and runs past hooks that "
                "are put on its layers; give the model as it is, or return what you need from its forward"
            )
