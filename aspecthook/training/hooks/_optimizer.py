"""Hooks that stand between a loss and the parameters: they clip, accumulate, scale, and look for what is no number.

Whatever is decided here is decided alike on all ranks, so that none of them waits for one that has left.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from math import inf, isfinite, isnan
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast, final

from aspecthook._core.law.answers import Return
from aspecthook._errors import HookOptionError, HookTypeError, brief, nearest
from aspecthook.training._errors import TrainingError

from ._hook import HOOKS, Hook

if TYPE_CHECKING:
    from aspecthook.training.loop._runner import Runner

Action: TypeAlias = Literal["raise", "skip", "stop"]
Value = TypeVar("Value")

_ACTIONS: tuple[Action, ...] = ("raise", "skip", "stop")


class NanLossError(TrainingError, FloatingPointError):
    """The loss, or a gradient, is no number or infinite; the parameters are as they were before."""


NanLossError.__module__ = "aspecthook.training"


@HOOKS.register
class NanGuardHook(Hook):
    """Keep a loss that is no number, or infinite, away from the parameters.

    It looks at what goes into the backward pass. In a group of batches that make one step, one bad batch spoils the
    step; and one bad rank that of all ranks, which exchange one number a step for that. What the forward pass has
    changed stays so: the running averages of a batch normalisation have seen the batch.

    Args:
        action: ``"raise"`` an error before the backward pass; ``"skip"`` the step, and go on; or skip it and ``"stop"``
            the run.
        infinite: Take an infinite loss for one that is no number, which its gradients are.
        gradients: Look at the gradients too, which can overflow where the loss does not; takes about as long as
            clipping them. In mixed precision the overflow is left to the scaler, whose part that is.
        max_skips: How many steps in a row may be skipped before it is an error after all; None for any number.

    Attributes:
        skipped: How many steps were skipped.

    Raises:
        HookOptionError: An option has a value that it cannot have.

    Example:
        >>> guard = NanGuardHook("skip", max_skips=10)
        >>> guard.skipped
        0
        >>> NanGuardHook("warn")
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: NanGuardHook(action='warn'): give 'raise', 'skip' or 'stop'
    """

    priority: int | str = "HIGH"  # gradients that are thrown away need not be clipped

    def __init__(
        self,
        action: Action = "raise",
        *,
        infinite: bool = True,
        gradients: bool = False,
        max_skips: int | None = None,
    ) -> None:
        if action not in _ACTIONS:
            near = nearest(str(action), list(_ACTIONS))
            raise HookOptionError(f"NanGuardHook(action={brief(action)}): give 'raise', 'skip' or 'stop'{near}")
        self.action: Action = action
        self.infinite = infinite
        self.gradients = gradients
        self.max_skips = None if max_skips is None else whole("NanGuardHook", "max_skips", max_skips, 1)
        self.skipped = 0
        self._in_row = 0
        self._bad: float | None = None  # the loss of a batch in this group

    def before_backward(self, runner: Runner, loss: Any) -> None:
        """Look at the loss."""
        value = runner.backend.item(loss)
        bad = self._is_bad(value)
        if self.action != "raise":
            self._bad = value if bad else self._bad
        elif any_rank(bad):
            raise NanLossError(
                _report(runner, f"the loss is {value}" if bad else "the loss of another rank is no number")
            )

    def before_optimizer_step(self, runner: Runner) -> Return[None] | None:
        """Skip the step if a loss of its group was bad, or a gradient is."""
        what = None if self._bad is None else f"the loss is {self._bad}"
        if what is None and self._looks_at_gradients(runner):
            norm = runner.backend.clip_gradients(runner.model, inf)  # changes nothing, and gives the norm
            what = None if isfinite(norm) else f"the norm of the gradients is {norm}"
        self._bad = None
        if self.action == "raise" and not self.gradients:
            return None
        if not any_rank(what is not None):
            self._in_row = 0
            return None
        return self._skip(runner, what or "the loss or a gradient of another rank is no number")

    def _is_bad(self, value: float) -> bool:
        return isnan(value) or (self.infinite and not isfinite(value))

    def _looks_at_gradients(self, runner: Runner) -> bool:
        scaled = runner.amp is not None and bool(runner.amp.state_dict())  # bfloat16 needs no scaler, and has none
        return self.gradients and not scaled

    def _skip(self, runner: Runner, what: str) -> Return[None]:
        if self.action == "raise":
            raise NanLossError(_report(runner, what))
        self.skipped += 1
        self._in_row += 1
        runner.logger.warning("NanGuardHook: %s after iteration %d; the step is skipped", what, runner.iter + 1)
        if self.action == "stop":
            runner.request_stop()
        elif self.max_skips is not None and self._in_row >= self.max_skips:
            raise NanLossError(_report(runner, f"{what}, and {self._in_row} steps in a row were skipped"))
        return Return(None)

    def state_dict(self) -> dict[str, Any]:
        """Give what was skipped, and what is amiss with the group that is not complete."""
        return {"skipped": self.skipped, "in_row": self._in_row, "bad": self._bad}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` has given."""
        self.skipped, self._in_row, self._bad = int(state["skipped"]), int(state["in_row"]), state["bad"]


def _report(runner: Runner, what: str) -> str:
    rates = ", ".join(f"{group['lr']:g}" for group in runner.optimizer.param_groups if "lr" in group)
    return (
        f"{what} in epoch {runner.epoch + 1}, iteration {runner.inner_iter + 1} of it ({runner.iter + 1} of the run), "
        f"with the learning rate {rates or 'unknown'}; the parameters are those of before. Lower the rate or warm it "
        "up, clip the gradients by OptimizerHook(grad_clip={'max_norm': ...}), look for such numbers in the data, or "
        "give NanGuardHook(action='skip')"
    )


@HOOKS.register
class DistSamplerSeedHook(Hook):
    """Tell the sampler of the training data which epoch begins, so that it shuffles in another order.

    Looks for ``set_epoch`` where mmcv's hook of this name does: on the loader's sampler, its batch sampler, or the
    sampler of that; ``torch.utils.data.DistributedSampler`` has one. The loaders of `aspecthook.training.data` are
    told by the runner itself.

    Example:
        >>> DistSamplerSeedHook().priority
        'NORMAL'
    """

    def before_train_epoch(self, runner: Runner) -> None:
        """Turn the sampler to this epoch."""
        batches = getattr(runner.data_loader, "batch_sampler", None)
        for sampler in (getattr(runner.data_loader, "sampler", None), batches, getattr(batches, "sampler", None)):
            if hasattr(sampler, "set_epoch"):
                cast("Any", sampler).set_epoch(runner.epoch)
                return


@HOOKS.register(name=("OptimizerHook", "GradientCumulativeOptimizerHook"))
class OptimizerHook(Hook):
    """Clip gradients, and let several batches make one step.

    The runner itself has stages for ``zero_grad``, backward and step; this is what mmcv's hooks of these names say
    besides. The loss of each batch is divided by the number of batches in its group; the last group may be smaller.

    Args:
        grad_clip: ``{"max_norm": 1.0}``, and ``"norm_type"`` if it is not 2: scale all gradients down so that their
            norm as one vector is at most that. The norm before goes to the run's logs, as ``grad_norm``.
        cumulative_iters: How many batches make one step; what the runner was told by ``accumulate=`` unless given.
        detect_anomalous_params: At each step, log the parameters that have no gradient, since the loss was not computed
            from them.

    Raises:
        HookOptionError: An option is unknown, or has a value that it cannot have.
        HookTypeError: An option is of another type.

    Example:
        >>> OptimizerHook(grad_clip={"max_norm": 35, "norm_type": 2}, cumulative_iters=4).cumulative_iters
        4
        >>> OptimizerHook(grad_clip={"max_nrom": 35})
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: OptimizerHook(grad_clip={'max_nrom': 35}): ... did you mean 'max_norm'?
    """

    priority: int | str = "ABOVE_NORMAL"

    def __init__(
        self,
        grad_clip: Mapping[str, float] | None = None,
        *,
        cumulative_iters: int | None = None,
        detect_anomalous_params: bool = False,
    ) -> None:
        who = type(self).__name__
        self.max_norm, self.norm_type = _clipping(who, grad_clip)
        self.cumulative_iters = None
        if cumulative_iters is not None:
            self.cumulative_iters = whole(who, "cumulative_iters", cumulative_iters, 1)
        self.detect_anomalous_params = detect_anomalous_params

    def before_run(self, runner: Runner) -> None:
        """Tell the runner how many batches make a step.

        Raises:
            TrainingError: It was told another number.
        """
        if self.cumulative_iters is None:
            return
        if runner.accumulate not in (1, self.cumulative_iters):
            raise TrainingError(
                f"{type(self).__name__}(cumulative_iters={self.cumulative_iters}) and Runner(accumulate="
                f"{runner.accumulate}) say different things; leave one of them out"
            )
        runner.accumulate = self.cumulative_iters

    def before_optimizer_step(self, runner: Runner) -> None:
        """Clip the gradients."""
        if self.detect_anomalous_params:
            for name, parameter in runner.backend.parameters(runner.model).items():
                if parameter.grad is None and parameter.requires_grad:
                    runner.logger.error("the loss was not computed from %s, which gets no gradient", name)
        if self.max_norm is not None:
            norm = runner.backend.clip_gradients(runner.model, self.max_norm, self.norm_type)
            runner.logs = {**runner.logs, "grad_norm": norm}


def _clipping(who: str, given: Mapping[str, float] | None) -> tuple[float | None, float]:
    if given is None:
        return None, 2.0
    what = f"{who}(grad_clip={brief(given)})"
    if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # it comes from configs
        raise HookTypeError(f"{what}: give a mapping, such as {{'max_norm': 1.0}}")
    for name in given:
        if name not in ("max_norm", "norm_type"):
            near = nearest(str(name), ["max_norm", "norm_type"])
            raise HookOptionError(f"{what}: {name!r} is unknown; give 'max_norm', and 'norm_type' if need be{near}")
    if "max_norm" not in given:
        raise HookOptionError(f"{what} has no 'max_norm'; give the norm to clip to")
    norm_type = number(what, "norm_type", given.get("norm_type", 2.0), above=0, finite=False)
    return number(what, "max_norm", given["max_norm"], above=0), norm_type


Scale: TypeAlias = float | Mapping[str, float] | Literal["dynamic"]

# How GradScaler's arguments are called in its state.
_SCALING = {
    "init_scale": "scale",
    "growth_factor": "growth_factor",
    "backoff_factor": "backoff_factor",
    "growth_interval": "growth_interval",
}


@final
@HOOKS.register(name=("AmpOptimizerHook", "Fp16OptimizerHook", "GradientCumulativeFp16OptimizerHook"))
class AmpOptimizerHook(OptimizerHook):
    """Compute in mixed precision, besides what `OptimizerHook` does; for PyTorch.

    It does what ``Runner(amp=True)`` does, and sets the scale of losses that float16 needs.

    Args:
        grad_clip: See `OptimizerHook`; gradients are clipped without the scale.
        cumulative_iters: See `OptimizerHook`.
        detect_anomalous_params: See `OptimizerHook`.
        kind: ``"fp16"``, ``"bf16"``, or True for what suits the device.
        loss_scale: ``"dynamic"``, as ``torch.amp.GradScaler`` adapts it; a number, which stays; or what that takes:
            ``init_scale``, ``growth_factor``, ``backoff_factor``, ``growth_interval``.

    Raises:
        HookOptionError: An option is unknown, or has a value that it cannot have.
        HookTypeError: An option is of another type.

    Example:
        >>> AmpOptimizerHook(grad_clip={"max_norm": 1.0}, loss_scale={"init_scale": 1024.0}).priority
        'ABOVE_NORMAL'
    """

    def __init__(
        self,
        grad_clip: Mapping[str, float] | None = None,
        *,
        cumulative_iters: int | None = None,
        detect_anomalous_params: bool = False,
        kind: bool | str = True,
        loss_scale: Scale = "dynamic",
    ) -> None:
        super().__init__(grad_clip, cumulative_iters=cumulative_iters, detect_anomalous_params=detect_anomalous_params)
        if kind not in (True, "fp16", "bf16"):
            raise HookOptionError(f"AmpOptimizerHook(kind={brief(kind)}): give True, 'fp16' or 'bf16'")
        if kind == "bf16" and loss_scale != "dynamic":
            raise HookOptionError("AmpOptimizerHook(kind='bf16') scales no losses; leave loss_scale out")
        self.kind = kind
        self._scaling = _scaling(loss_scale)
        self._loaded: dict[str, Any] | None = None
        self._amp: Any = None

    def before_run(self, runner: Runner) -> None:
        """Make the runner compute in mixed precision, and set the scale; that of a run that is resumed goes on.

        Raises:
            TrainingError: The model is none of PyTorch's.
        """
        super().before_run(runner)
        if runner.amp is None:
            runner.amp = runner.backend.amp(self.kind, runner.model)
        if self._amp is not runner.amp:
            self._amp = runner.amp
            state = self._amp.state_dict()
            if state:
                self._amp.load_state_dict({**state, **(self._loaded or self._scaling)})
            self._loaded = None

    def state_dict(self) -> dict[str, Any]:
        """Give the state of the scaler: the runner that is resumed may have none before the run."""
        return {"scaler": self._loaded if self._amp is None else self._amp.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` has given."""
        if self._amp is None:
            self._loaded = state["scaler"]
        else:
            self._amp.load_state_dict(state["scaler"] or {})


def _scaling(given: object) -> dict[str, float]:
    """Give the part of a scaler's state that is wished."""
    if given == "dynamic":
        return {}
    if isinstance(given, Mapping):
        return _scaling_of(cast("Mapping[str, object]", given))
    scale = number("AmpOptimizerHook", "loss_scale", given, above=0)
    # Neither an overflow nor any number of steps without one changes it.
    return {"scale": scale, "growth_factor": 1.0, "backoff_factor": 1.0, "growth_interval": 2**31 - 1}


def _scaling_of(given: Mapping[str, object]) -> dict[str, float]:
    what = f"AmpOptimizerHook(loss_scale={brief(given)})"
    found: dict[str, float] = {}
    for name, value in given.items():
        if name not in _SCALING:
            near = nearest(name, list(_SCALING))
            raise HookOptionError(f"{what}: {name!r} is unknown; what there is: {', '.join(_SCALING)}{near}")
        is_interval = name == "growth_interval"
        found[_SCALING[name]] = whole(what, name, value, 1) if is_interval else number(what, name, value, above=0)
    return found


# What all ranks agree on


def group() -> Any:
    """Give torch.distributed if this process is one of several that it has joined."""
    distributed: Any = sys.modules.get("torch.distributed")  # else nobody can have begun it
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed if distributed.get_world_size() > 1 else None


def agreed(value: Value) -> Value:
    """Give what rank 0 was given."""
    ranks = group()
    if ranks is None:
        return value
    rows = [value]
    ranks.broadcast_object_list(rows, src=0)
    return rows[0]


def gathered(value: Value) -> list[Value]:
    """Give what each rank was given, in their order."""
    ranks = group()
    if ranks is None:
        return [value]
    rows: list[Any] = [None] * ranks.get_world_size()
    ranks.all_gather_object(rows, value)
    return rows


def any_rank(flag: bool) -> bool:
    """Say whether it is so on any rank."""
    ranks = group()
    if ranks is None:
        return flag
    from importlib import import_module

    torch: Any = import_module("torch")
    told = torch.tensor([flag], dtype=torch.int32, device="cuda" if ranks.get_backend() == "nccl" else "cpu")
    ranks.all_reduce(told, op=ranks.ReduceOp.MAX)
    return bool(told.item())


# Options


def whole(who: str, name: str, value: object, least: int) -> int:
    """Give a whole number, and refuse what is none, or less than it may be."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise HookTypeError(f"{who}: {name}={brief(value)} is no whole number")
    if value < least:
        raise HookOptionError(f"{who}: {name}={value}; give a number from {least} up")
    return value


def number(
    who: str, name: str, value: object, *, above: float = -inf, below: float = inf, finite: bool = True
) -> float:
    """Give a number, and refuse what is none, or outside its bounds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise HookTypeError(f"{who}: {name}={brief(value)} is no number")
    if not (above < value < below or (value == inf and not finite)):
        bounds = [f"above {above:g}"] * (above > -inf) + [f"below {below:g}"] * (below < inf)
        raise HookOptionError(f"{who}: {name}={value}; give a number {' and '.join(bounds) or 'that is finite'}")
    return value
