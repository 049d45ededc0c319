"""The hook that averages the parameters over the steps of a run, and validates with the average.

There are two sets of tensors, the average and the trained parameters, and one of them is in the model. A checkpoint has
the average as its model, so that loading it yields the model that was validated; the state of the hook has both sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from math import exp
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final, get_args

from aspecthook._core.law.answers import Args
from aspecthook.training._options import finite_number, one_of, whole_number
from aspecthook.training.loop._runner import Runner

from ._hook import HOOKS, Hook

if TYPE_CHECKING:
    from numpy.typing import NDArray

Kind: TypeAlias = Literal["warm_up", "constant", "annealing", "exponential", "stochastic"]
Arrays: TypeAlias = dict[str, Any]  # by name; arrays, or tensors of PyTorch's where the model has them


@final
@HOOKS.register
class EMAHook(Hook):
    """Average the parameters over the steps; validate, test and predict with the average.

    After a step, ``average = (1 − m) average + m parameters``. A step is a step of the optimizer, which may use several
    batches; ``t`` counts steps from 0. The kinds differ in ``m``; M is `momentum` and I is `interval`:

    =============== ============================================= =====================================================
    kind            m                                             source
    =============== ============================================= =====================================================
    ``warm_up``     ``min(M ** I, (1 + t) / (warm_up + t))``      mmcv 1.7, ``EMAHook``
    ``constant``    ``M``                                         mmengine 0.10, ``ExponentialMovingAverage``
    ``annealing``   ``max(M, gamma / (gamma + t))``               mmengine 0.10, ``MomentumAnnealingEMA``
    ``exponential`` ``(1 − M) exp(−(1 + t) / gamma) + M``         mmdet 3, ``ExpMomentumEMA``, which is YOLOX's
    ``stochastic``  ``1 / (t // I + 1)``: the arithmetic mean     mmengine 0.10, ``StochasticWeightAverage``; SWA,
                                                                  https://arxiv.org/abs/1803.05407
    =============== ============================================= =====================================================

    ``warm_up`` starts from the parameters before the first step. Its average is in the model from the end of each
    training epoch to the beginning of the next, so it is there at the end of the run. The other kinds start from the
    parameters after the step t = 0, and the model gets its parameters back after each validation. A step that a hook
    skips counts too, as it does in the run. Buffers, such as those of a batch normalisation, are not averaged.

    Args:
        kind: See above.
        momentum: M, above 0 and below 1; a small value averages over many steps. The default, 0.0002, suits runs of ten
            thousand steps or more. In a shorter run, the average would stay near its start; there, try 10 divided by
            the number of steps.
        interval: Average every `interval` steps.
        warm_up: For ``"warm_up"``: a greater value makes m smaller at first.
        gamma: For ``"annealing"`` (by default 100) and ``"exponential"`` (2000): a greater value keeps m large for
            longer.

    Attributes:
        steps: The number of steps so far.

    Example:
        >>> ema = EMAHook("annealing", momentum=0.01, gamma=2)
        >>> ema.steps, round(ema.weight(11), 3)
        (0, 0.154)
    """

    priority: int | str = "ABOVE_NORMAL"  # before the hooks that validate and save

    def __init__(
        self,
        kind: str = "warm_up",
        *,
        momentum: float = 0.0002,
        interval: int = 1,
        warm_up: int = 100,
        gamma: float | None = None,
    ) -> None:
        self.kind: Kind = one_of("EMAHook", "kind", kind, get_args(Kind))
        if gamma is None:
            gamma = 100 if kind == "annealing" else 2000
        self.interval: int = whole_number("EMAHook", "interval", interval, 1)
        self.momentum: float = finite_number("EMAHook", "momentum", momentum, above=0, below=1)
        self.warm_up: int = whole_number("EMAHook", "warm_up", warm_up, 1)
        self.gamma: float = finite_number("EMAHook", "gamma", gamma, above=0)
        self.steps: int = 0
        self._average: Arrays | None = None
        self._trained: Arrays | None = None  # the parameters, while the average is in the model
        self._was_in_model = False  # whether the average was in the model before the validation under way

    @property
    def average(self) -> dict[str, NDArray[Any]]:
        """Copies of the averaged tensors, by their names in the model; empty before the first step."""
        return _frozen(self._average)

    def weight(self, step: int) -> float:
        """Return m at a step, counted from 0."""
        momentum, gamma = self.momentum, self.gamma
        match self.kind:
            case "warm_up":
                return min(momentum**self.interval, (1 + step) / (self.warm_up + step))
            case "constant":
                return momentum
            case "annealing":
                return max(momentum, gamma / (gamma + step))
            case "exponential":
                return (1 - momentum) * exp(-float(1 + step) / gamma) + momentum
            case "stochastic":
                return 1 / float(step // self.interval + 1)

    def before_run(self, runner: Runner) -> None:
        """Put the parameters into the model: a checkpoint has the average there, even if the run had not."""
        if self.kind != "warm_up":  # whose average stays in the model until the next epoch
            self._put_back(runner)

    def before_epoch(self, runner: Runner) -> None:
        """Put the parameters into the model to be trained, or the average to be validated."""
        if runner.mode != "train":
            self._was_in_model = self._trained is not None
            self._put_in(runner)
            return
        self._put_back(runner)
        if self.kind == "warm_up" and self._average is None:
            self._copy(runner)

    def after_optimizer_step(self, runner: Runner) -> None:
        """Update the average."""
        step = runner.step if self.kind == "warm_up" else self.steps
        if self.steps == 0 and self.kind != "warm_up":
            self._copy(runner)
        elif step % self.interval == 0 and self._average is not None:
            runner.backend.mix(runner.model, self._average, self.weight(step))
        self.steps += 1

    def after_epoch(self, runner: Runner) -> None:
        """Put the average into the model if it stays there until the next epoch, or back what was there before."""
        if runner.mode == "train":
            if self.kind == "warm_up":
                self._put_in(runner)
        elif not self._was_in_model:
            self._put_back(runner)

    exception_epoch = after_epoch  # what has called a validation may catch its error, and the run goes on

    def _put_in(self, runner: Runner) -> None:
        """Put the average into the model, if there is one, and keep the trained parameters."""
        if self._average is not None and self._trained is None:
            # A copy: the model may have a lower precision, to which swapping would round the average itself.
            trained = deepcopy(self._average)
            runner.backend.swap(runner.model, trained)
            self._trained = trained

    def _put_back(self, runner: Runner) -> None:
        if self._trained is not None:
            runner.backend.swap(runner.model, self._trained)
            self._trained = None

    def _copy(self, runner: Runner) -> None:
        """Start the average from the parameters; from float16, in which small steps are lost, as float32."""
        state = runner.backend.state(runner.model)
        values = {name: state[name] for name in runner.backend.parameters(runner.model)}
        values = {name: one.astype("float32") if one.dtype == "float16" else one for name, one in values.items()}
        self._average = runner.backend.mover(runner.model)(values)

    # Checkpoints

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict[str, Any]) -> Args | None:
        """Put the average into the checkpoint as its model, as if it were in the model at this moment."""
        if self._average is None or self._trained is not None:
            return None
        # Through the model: only the model knows which tensors have several names.
        self._put_in(runner)
        model, own = runner.backend.state(runner.model), self.state_dict()
        self._put_back(runner)
        name = next(one.name for one in runner.registered if one.hook is self)
        return Args(checkpoint={**checkpoint, "model": model, "hooks": {**checkpoint["hooks"], name: own}})

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict[str, Any], resume: bool) -> None:
        """Start a new average, unless the run is resumed from a checkpoint that has one."""
        names = [one.name for one in runner.registered if one.hook is self]
        if not resume or not checkpoint.get("hooks", {}).keys() & names:
            self._average = self._trained = None
            self.steps = 0

    def state_dict(self) -> dict[str, Any]:
        """Return the average, and the parameters if the average is in the model."""
        return {"steps": self.steps, "average": _frozen(self._average), "trained": _frozen(self._trained)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.steps = int(state["steps"])
        # Copies: the model is restored from the same arrays.
        self._average, self._trained = deepcopy(state["average"]) or None, deepcopy(state["trained"]) or None


def _frozen(values: Arrays | None) -> dict[str, NDArray[Any]]:
    """Return copies as arrays."""
    from numpy import array

    return {name: array(one.cpu().numpy() if hasattr(one, "cpu") else one) for name, one in (values or {}).items()}
