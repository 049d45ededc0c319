"""Hooks on the steps of the optimizer: clipping, accumulation, mixed precision, and no step for a loss that is NaN."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isfinite
from typing import Any, Literal, TypeAlias, final

from aspecthook._core.law.answers import Return
from aspecthook._errors import HookTypeError, brief
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import finite_number, one_of, optional_number
from aspecthook.training._ranks import any_rank
from aspecthook.training.loop._runner import Runner
from aspecthook.training.registry._registry import check_keys

from ._hook import HOOKS, Hook


@HOOKS.register(name=("OptimizerHook", "GradientCumulativeOptimizerHook"))
class OptimizerHook(Hook):
    """Clip gradients, and accumulate them over several batches.

    The runner itself calls ``zero_grad``, ``backward`` and ``step``; this hook does the rest of what mmcv's do. The
    loss of each batch is divided by the number of batches in its step; the last step may have fewer.

    Args:
        grad_clip: ``{"max_norm": 1.0}``, and ``"norm_type"`` if it is not 2, such as ``inf``: scale all gradients down
            so that their norm as one vector is at most `max_norm`. The norm before is logged as ``grad_norm``.
        cumulative_iters: The number of batches in one step; by default that of ``Runner(accumulate=...)``.

    Example:
        >>> OptimizerHook(grad_clip={"max_norm": 35, "norm_type": 2}, cumulative_iters=4).cumulative_iters
        4
        >>> OptimizerHook(grad_clip={"max_nrom": 35})
        Traceback (most recent call last):
          ...
        aspecthook.ConfigError: OptimizerHook(grad_clip=...) takes no 'max_nrom'; ...; did you mean 'max_norm'?
    """

    priority: int | str = "ABOVE_NORMAL"

    def __init__(self, grad_clip: Mapping[str, float] | None = None, *, cumulative_iters: int | None = None) -> None:
        who = type(self).__name__
        self.max_norm: float | None = None
        self.norm_type: float = 2.0
        if grad_clip is not None:
            what = f"{who}(grad_clip={brief(grad_clip)})"
            if not isinstance(grad_clip, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # it comes from configs
                raise HookTypeError(f"{what}: give a mapping, such as {{'max_norm': 1.0}}")
            check_keys(("max_norm", "norm_type"), grad_clip, what)
            self.max_norm = finite_number(what, "max_norm", grad_clip.get("max_norm"), above=0)
            norm_type = grad_clip.get("norm_type", 2.0)
            self.norm_type = inf if norm_type == inf else finite_number(what, "norm_type", norm_type, above=0)
        self.cumulative_iters: int | None = optional_number(who, "cumulative_iters", cumulative_iters, 1)

    def before_run(self, runner: Runner) -> None:
        """Set the number of batches in a step."""
        runner.accumulate = self.cumulative_iters or runner.accumulate

    def before_optimizer_step(self, runner: Runner) -> None:
        """Clip the gradients."""
        if self.max_norm is not None:
            norm = runner.backend.clip_gradients(runner.model, self.max_norm, self.norm_type)
            runner.log(grad_norm=norm)


@final
@HOOKS.register(name=("AmpOptimizerHook", "Fp16OptimizerHook", "GradientCumulativeFp16OptimizerHook"))
class AmpOptimizerHook(OptimizerHook):
    """Train a PyTorch model in mixed precision, with the options of `OptimizerHook`.

    This is ``Runner(amp=True)`` with a choice of the precision, and of the loss scale that float16 needs.

    Args:
        grad_clip, cumulative_iters: See `OptimizerHook`; gradients are unscaled before they are clipped.
        kind: ``"fp16"``, ``"bf16"``, or True for the one that suits the device.
        loss_scale: ``"dynamic"``, adapted by ``torch.amp.GradScaler``; or a number, which stays fixed.

    Example:
        >>> AmpOptimizerHook(grad_clip={"max_norm": 1.0}, loss_scale=1024.0).priority
        'ABOVE_NORMAL'
    """

    def __init__(
        self,
        grad_clip: Mapping[str, float] | None = None,
        *,
        cumulative_iters: int | None = None,
        kind: bool | str = True,
        loss_scale: float | Literal["dynamic"] = "dynamic",
    ) -> None:
        super().__init__(grad_clip, cumulative_iters=cumulative_iters)
        one_of("AmpOptimizerHook", "kind", kind, (True, "fp16", "bf16"))
        self.kind: bool | str = kind
        # The part of the scaler's state that a fixed loss scale replaces; with these factors, the scale never changes.
        self._fixed: dict[str, Any] = {}
        if loss_scale != "dynamic":
            scale = finite_number("AmpOptimizerHook", "loss_scale", loss_scale, above=0)
            self._fixed = {"scale": scale, "growth_factor": 1.0, "backoff_factor": 1.0, "growth_interval": 2**31 - 1}

    def before_run(self, runner: Runner) -> None:
        """Turn mixed precision on, and set the loss scale, if a number was given."""
        super().before_run(runner)
        self.after_load_checkpoint(runner)
        state = runner.amp.state_dict()  # empty if the kind needs no loss scale
        runner.amp.load_state_dict(state and {**state, **self._fixed})

    def after_load_checkpoint(self, runner: Runner) -> None:
        """Turn mixed precision on before the run is restored, since the checkpoint has a state of the scaler."""
        if runner.amp is None:
            runner.amp = runner.backend.amp(self.kind, runner.model)


Action: TypeAlias = Literal["raise", "skip"]


class NanLossError(TrainingError, FloatingPointError):
    """Raised if the loss is NaN or infinite; `NanGuardHook` raises it before the loss has changed any parameter.

    Example:
        >>> issubclass(NanLossError, FloatingPointError)
        True
    """


NanLossError.__module__ = "aspecthook.training"

_ELSEWHERE = "the loss of another rank is NaN or infinite"


@HOOKS.register
class NanGuardHook(Hook):
    """Keep a NaN or infinite loss away from the parameters.

    The hook checks the loss before the backward pass. If several batches share a step, one bad batch makes the whole
    step bad. A bad loss on one rank makes the step bad on all ranks, which exchange a flag in each step. Changes by the
    forward pass are not undone: the running averages of a batch normalisation include the bad batch.

    Args:
        action: ``"raise"`` to raise a `NanLossError` before the backward pass, or ``"skip"`` to skip the step.

    Attributes:
        skipped: The number of steps that were skipped.

    Example:
        >>> NanGuardHook("skip").skipped
        0
        >>> NanGuardHook("warn")
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: NanGuardHook(action='warn'): give 'raise' or 'skip'
    """

    priority: int | str = "HIGH"  # before OptimizerHook: it need not clip gradients that are thrown away

    def __init__(self, action: Action = "raise") -> None:
        self.action: Action = one_of("NanGuardHook", "action", action, ("raise", "skip"))
        self.skipped: int = 0
        self._bad: float | None = None  # a bad loss among the batches of the current step

    def before_backward(self, runner: Runner, loss: Any) -> None:
        """Check the loss. If the action is ``"raise"``, raise on all ranks if it is bad on one."""
        value = runner.backend.item(loss)
        bad = not isfinite(value)
        if self.action != "raise":
            self._bad = value if bad else self._bad
        elif any_rank(bad):
            rates = ", ".join(f"{group['lr']:g}" for group in runner.optimizer.param_groups if "lr" in group)
            raise NanLossError(
                f"{f'the loss is {value}' if bad else _ELSEWHERE} in epoch {runner.epoch + 1}, iteration "
                f"{runner.inner_iter + 1} of it ({runner.iter + 1} of the run), with the learning rate "
                f"{rates or 'unknown'}; the parameters were not changed. Lower the rate or warm it up, clip the "
                "gradients with OptimizerHook(grad_clip={'max_norm': ...}), look for NaN in the data, or give "
                "NanGuardHook('skip')"
            )

    def before_optimizer_step(self, runner: Runner) -> Return[None] | None:
        """Skip the step if the loss of one of its batches was bad."""
        if self.action == "raise":
            return None
        bad, self._bad = self._bad, None
        if not any_rank(bad is not None):
            return None
        self.skipped += 1
        problem = _ELSEWHERE if bad is None else f"the loss is {bad}"
        runner.logger.warning("NanGuardHook: %s after iteration %d; the step is skipped", problem, runner.iter + 1)
        return Return(None)

    def state_dict(self) -> dict[str, Any]:
        return {"skipped": self.skipped, "bad": self._bad}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.skipped, self._bad = int(state["skipped"]), state["bad"]
