"""The hook that averages the parameters over the steps of a run, and validates with the average.

One of the two sets, the average and the trained parameters, is in the model, and the hook holds the other. A checkpoint
has the average in the place of the model's tensors, so that loading it yields the model that was validated, and the
trained parameters in the state of the hook.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

from aspecthook._core.law.answers import Args
from aspecthook._errors import HookOptionError
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import finite_number, flag, one_of, whole_number
from aspecthook.training.loop._dialect import named
from aspecthook.training.loop._run import Run

from ._hook import HOOKS, Hook

if TYPE_CHECKING:
    from numpy.typing import NDArray

Kind: TypeAlias = Literal["warm_up", "constant", "annealing", "exponential", "stochastic"]

# The options of each kind, with the defaults of mmcv, mmengine and mmdet.
_BEGIN = {"begin_step": 0, "begin_epoch": 0}
_OPTIONS: dict[Kind, dict[str, float]] = {
    "warm_up": {"momentum": 0.0002, "warm_up": 100},
    "constant": {"momentum": 0.0002, **_BEGIN},
    "annealing": {"momentum": 0.0002, "gamma": 100, **_BEGIN},
    "exponential": {"momentum": 0.0002, "gamma": 2000, **_BEGIN},
    "stochastic": {**_BEGIN},
}


@final
@HOOKS.register
class EMAHook(Hook):
    """Average the parameters over the steps; validate, test and predict with the average.

    After a step, ``average = (1 − m) average + m parameters``. A step is one of the optimizer, which may be made of
    several batches; ``t`` counts them from 0. The kinds differ in ``m``; M is `momentum` and I is `interval`:

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
    training epoch to the beginning of the next, so also at the end of the run. The other kinds start from a copy of the
    parameters at t = 0, the step given by `begin_step` and `begin_epoch`, and the model gets its parameters back after
    each validation. A step that a hook skips is counted too, as the run counts it.

    Args:
        kind: See above.
        momentum: M, above 0 and below 1; a small one averages over many steps. The default, 0.0002, is for runs of some
            ten thousand steps: in a short run, the average would stay near its start. Try 10 divided by the number of
            steps.
        interval: Average every `interval` steps.
        warm_up: For ``"warm_up"``: the greater, the smaller m is at first. 100 unless given.
        gamma: For ``"annealing"`` (100 unless given) and ``"exponential"`` (2000): the greater, the longer m is large.
        begin_step: The step at which to begin, the first being 1; not for ``"warm_up"``.
        begin_epoch: The epoch in which to begin, the first being 1; not for ``"warm_up"``.
        update_buffers: Average the buffers too, such as those of a batch normalisation; otherwise the model's are used.

    Attributes:
        steps: The number of steps so far.

    Example:
        >>> import numpy as np
        >>> from aspecthook.training import Runner
        >>> from aspecthook.training.numpy import SGD, Linear, manual_seed, mse
        >>> manual_seed(0)
        >>> model = Linear(1, 1)
        >>> runner = Runner(model, optimizer=SGD(model.parameters(), lr=0.1), loss=mse, max_epochs=3)
        >>> ema = runner.register_hook(EMAHook("annealing", momentum=0.01, gamma=2))
        >>> data = [(np.ones((2, 1)), np.zeros((2, 1)))] * 4
        >>> runner.fit(data, data)
        >>> ema.steps, round(ema.weight(11), 3)
        (12, 0.154)
    """

    priority: int | str = "ABOVE_NORMAL"  # before the hooks that validate and save

    def __init__(
        self,
        kind: str = "warm_up",
        *,
        momentum: float | None = None,
        interval: int = 1,
        warm_up: int | None = None,
        gamma: float | None = None,
        begin_step: int | None = None,
        begin_epoch: int | None = None,
        update_buffers: bool = False,
    ) -> None:
        self.kind: Kind = one_of("EMAHook", "kind", kind, [*_OPTIONS])
        words = ("momentum", "warm_up", "gamma", "begin_step", "begin_epoch")
        given = (momentum, warm_up, gamma, begin_step, begin_epoch)
        options = _options(self.kind, dict(zip(words, given, strict=True)))
        self.interval: int = whole_number("EMAHook", "interval", interval, 1)
        self.momentum: float = finite_number("EMAHook", "momentum", options.get("momentum", 0.5), above=0, below=1)
        self.warm_up: int = whole_number("EMAHook", "warm_up", options.get("warm_up", 1), 1)
        self.gamma: float = finite_number("EMAHook", "gamma", options.get("gamma", 1), above=0)
        self.begin_step: int = whole_number("EMAHook", "begin_step", options.get("begin_step", 0), 0)
        self.begin_epoch: int = whole_number("EMAHook", "begin_epoch", options.get("begin_epoch", 0), 0)
        self.update_buffers: bool = flag("EMAHook", "update_buffers", update_buffers)
        self.steps: int = 0
        # Arrays, or tensors where the model is. `_aside` has the parameters while the average is in the model.
        self._average: dict[str, Any] | None = None
        self._aside: dict[str, Any] | None = None
        self._placed = True
        self._stays = False

    @property
    def average(self) -> dict[str, NDArray[Any]]:
        """Copies of the average, by the names of the tensors in the model; none before the first step."""
        return _frozen(self._average)

    def weight(self, step: int) -> float:
        """Return m at a step, counted from 0.

        Example:
            >>> EMAHook(momentum=0.5, warm_up=9).weight(1), EMAHook("stochastic", interval=10).weight(40)
            (0.2, 0.2)
        """
        match self.kind:
            case "warm_up":
                return min(self.momentum**self.interval, (1 + step) / (self.warm_up + step))
            case "constant":
                return self.momentum
            case "annealing":
                return max(self.momentum, self.gamma / (self.gamma + step))
            case "exponential":
                return (1 - self.momentum) * exp(-float(1 + step) / self.gamma) + self.momentum
            case "stochastic":
                return 1 / float(step // self.interval + 1)

    # When

    def before_run(self, runner: Run) -> None:
        """Refuse a second hook of this class."""
        if sum(isinstance(hook, EMAHook) for hook in runner.hooks) > 1:
            raise TrainingError("the run has two EMAHooks, and a model is validated with one average; leave one out")
        for name, begin, end in (
            ("begin_epoch", self.begin_epoch, runner.max_epochs),
            ("begin_step", self.begin_step, None if runner.by_epoch else runner.max_iters),
        ):
            if end is not None and begin > end:
                raise TrainingError(
                    f"EMAHook({name}={begin}) would never begin: the run has {end} {runner.unit}; begin earlier"
                )

    def before_train_epoch(self, runner: Run) -> None:
        """Put the parameters into the model, to be trained."""
        self._put_back(runner)
        if self.kind == "warm_up" and self._average is None:
            self._copy(runner)

    def after_optimizer_step(self, runner: Run) -> None:
        """Update the average."""
        if self.kind == "warm_up":
            self._mix(runner, runner.step)
        elif runner.step + 1 < self.begin_step or runner.epoch + 1 < self.begin_epoch:
            return
        elif self.steps == 0:
            self._copy(runner)
        else:
            self._mix(runner, self.steps)
        self.steps += 1

    def after_train_epoch(self, runner: Run) -> None:
        """Put the average into the model, if it stays there until the next epoch."""
        if self.kind == "warm_up":
            self.put_in(runner)

    def before_val_epoch(self, runner: Run) -> None:
        """Put the average into the model."""
        self._stays = self._aside is not None
        self.put_in(runner)

    def after_val_epoch(self, runner: Run) -> None:
        """Put the parameters back, unless the average was in the model before."""
        if not self._stays:
            self._put_back(runner)

    before_test_epoch = before_val_epoch
    before_predict_epoch = before_val_epoch
    after_test_epoch = after_val_epoch
    after_predict_epoch = after_val_epoch

    # How

    def put_in(self, runner: Run) -> None:
        """Put the average into the model, if there is one; it stays there until the next epoch of training."""
        average = self._arrays(runner)
        if average is not None and self._aside is None:
            # A copy: the model may have a lower precision, to which swapping would round the average itself.
            aside = {name: _copied(value) for name, value in average.items()}
            runner.backend.swap(runner.model, aside)
            self._aside = aside

    def _copy(self, runner: Run) -> None:
        state = runner.backend.state(runner.model)
        names = state if self.update_buffers else runner.backend.parameters(runner.model)
        self._average, self._placed = {name: _wide(state[name]) for name in names}, False

    def _arrays(self, runner: Run) -> dict[str, Any] | None:
        """Return the average, on the device of the model."""
        if not self._placed:
            self._average = runner.backend.to_device(self._average, runner.model)
            self._placed = True
        return self._average

    def _mix(self, runner: Run, step: int) -> None:
        average = self._arrays(runner)
        if average is not None and step % self.interval == 0:
            runner.backend.mix(runner.model, average, self.weight(step))

    def _put_back(self, runner: Run) -> None:
        if self._aside is not None:
            runner.backend.swap(runner.model, self._aside)
            self._aside = None

    # Checkpoints

    def before_save_checkpoint(self, runner: Run, checkpoint: dict[str, Any]) -> Args | None:
        """Swap the averaged and the trained parameters in the checkpoint."""
        name, state = self._own(runner, checkpoint)
        if self._average is None or state is None:
            return None
        was_in = self._aside is not None
        # Through the model: only the model knows which tensors have several names.
        self.put_in(runner)
        averaged: dict[str, Any] = {**runner.backend.state(runner.model), **_frozen(self._average)}
        self._put_back(runner)
        weights = runner.backend.state(runner.model)
        if was_in:
            self.put_in(runner)
        own = {"steps": state["steps"], "averaged": list(self._average), "weights": weights, "inside": was_in}
        model = {key: averaged.get(key, value) for key, value in checkpoint["model"].items()}
        return _changed(checkpoint, model, name, own)

    def after_load_checkpoint(self, runner: Run, checkpoint: dict[str, Any], resume: bool) -> Args | None:
        """Put both sets back where they were, if the run is resumed; otherwise start a new average."""
        name, state = self._own(runner, checkpoint)
        if not resume or state is None:
            if resume:
                runner.logger.warning("the checkpoint has no average; EMAHook starts from its parameters")
            self._average = self._aside = None
            self.steps = 0
            return None
        if "weights" not in state:
            return None
        model, weights = checkpoint["model"], state["weights"]
        average = {key: model[key] for key in state["averaged"]}
        aside = {key: weights[key] for key in average} if state["inside"] else {}
        own = {"steps": state["steps"], "average": average, "aside": aside}
        return _changed(checkpoint, model if aside else {**model, **weights}, name, own)

    def _own(self, runner: Run, checkpoint: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None]:
        name = next(name for name, hook in named(runner) if hook is self)
        return name, checkpoint.get("hooks", {}).get(name)

    def state_dict(self) -> dict[str, Any]:
        """Return the average, and the parameters if the average is in the model."""
        return {"steps": self.steps, "average": _frozen(self._average), "aside": _frozen(self._aside)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the average, the parameters beside it, and the number of steps."""
        self.steps = int(state["steps"])
        self._average, self._aside = _thawed(state["average"]), _thawed(state["aside"])
        self._placed = self._average is None


def _options(kind: Kind, given: Mapping[str, Any]) -> dict[str, Any]:
    takes = _OPTIONS[kind]
    for name, value in given.items():
        if value is not None and name not in takes:
            can = ", ".join(other for other, options in _OPTIONS.items() if name in options)
            raise HookOptionError(f"EMAHook({kind!r}) has no {name}, which is for {can}; leave it out")
    return {**takes, **{name: value for name, value in given.items() if value is not None}}


def _changed(checkpoint: dict[str, Any], model: dict[str, Any], name: str, own: dict[str, Any]) -> Args:
    return Args(checkpoint={**checkpoint, "model": model, "hooks": {**checkpoint["hooks"], name: own}})


# Any below: an array, or a tensor of PyTorch's.


def _wide(array: Any) -> Any:
    """Return the array; float16, in which small steps are lost, as float32."""
    return array.astype("float32") if array.dtype == "float16" else array


def _copied(value: Any) -> Any:
    return value.clone() if hasattr(value, "clone") else value.copy()


def _frozen(values: dict[str, Any] | None) -> dict[str, NDArray[Any]]:
    from numpy import array

    return {
        name: array(value.cpu().numpy() if hasattr(value, "cpu") else value) for name, value in (values or {}).items()
    }


def _thawed(arrays: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return {name: array.copy() for name, array in arrays.items()} if arrays else None
