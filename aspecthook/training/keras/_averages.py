"""The callback that validates with the average of the weights, and ends with it."""

from __future__ import annotations

from importlib import import_module
from typing import Any, final

from aspecthook.training._errors import TrainingError
from aspecthook.training._options import flag
from aspecthook.training.hooks._ema import EMAHook
from aspecthook.training.hooks._hook import HOOKS

from ._bridge import runner_of
from ._callback import Callback, Logs, is_of_keras


@final
@HOOKS.register
class SwapEMAWeights(Callback):
    """Test and predict with the average of the weights, and leave it in the model when the training ends.

    In Keras the average is that of an optimizer with ``use_ema=True``. On our runner it is that of the run's `EMAHook`,
    which tests and predicts with it already: ``EMAHook("constant", momentum=0.01)`` averages as Keras does with
    ``ema_momentum=0.99``. Further training continues from the trained weights; in Keras, from the average.

    Args:
        swap_on_epoch: Whether the average is in the model from the end of each epoch to the beginning of the next too,
            for the callbacks after this one, such as `ModelCheckpoint`.

    Example:
        >>> import numpy as np
        >>> from aspecthook.training import EMAHook, Runner
        >>> from aspecthook.training.numpy import SGD, Linear, mse
        >>> model = Linear(2, 1)
        >>> runner = Runner(model, optimizer=SGD(model.parameters(), lr=0.1), loss=mse, max_epochs=3)
        >>> ema = runner.register_hook(EMAHook("constant", momentum=0.01))
        >>> swap = runner.register_hook(SwapEMAWeights())
        >>> runner.fit([(np.ones((4, 2)), np.zeros((4, 1)))] * 2)
        >>> bool((ema.average["weight"] == model.weight.data).all())
        True
    """

    def __init__(self, swap_on_epoch: bool = False) -> None:
        super().__init__()
        self.swap_on_epoch: bool = flag("SwapEMAWeights", "swap_on_epoch", swap_on_epoch)
        self._theirs: Any = None  # in a fit of Keras, its own callback of this name

    def set_model(self, model: Any) -> None:
        """Set ``model``."""
        super().set_model(model)
        self._theirs = None

    def on_train_begin(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Refuse a run without an average."""
        if runner_of(self) is not None and self._average is None:
            raise TrainingError(
                "SwapEMAWeights: the run has no average of its weights; register EMAHook('constant', momentum=0.01) too"
            )

    def on_train_end(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Put the average into the model; in Keras, its optimizer does."""
        self._put_in()

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Put the weights back; on our runner, the `EMAHook` does."""
        self._in_keras("on_epoch_begin", epoch, logs)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Put the average into the model, if it is to stay there."""
        if not self._in_keras("on_epoch_end", epoch, logs) and self.swap_on_epoch:
            self._put_in()

    def on_test_begin(self, logs: Logs = None) -> None:
        """Put the average into the model; on our runner, the `EMAHook` does."""
        self._in_keras("on_test_begin", logs)

    def on_test_end(self, logs: Logs = None) -> None:
        """Put the weights back; on our runner, the `EMAHook` does."""
        self._in_keras("on_test_end", logs)

    def on_predict_begin(self, logs: Logs = None) -> None:
        """Put the average into the model; on our runner, the `EMAHook` does."""
        self.on_test_begin(logs)

    def on_predict_end(self, logs: Logs = None) -> None:
        """Put the weights back; on our runner, the `EMAHook` does."""
        # Not "on_predict_end" of Keras 3.15: it would leave the average in the model, and the weights in the optimizer.
        self.on_test_end(logs)

    def _in_keras(self, method: str, *arguments: Any) -> bool:
        """Call a method of Keras's own callback of this name, unless the model is that of a run."""
        if runner_of(self) is not None:
            return False
        if self._theirs is None:
            self._theirs = import_module("keras.callbacks").SwapEMAWeights(self.swap_on_epoch)
            self._theirs.set_model(self.model)
        self._theirs.set_params(self.params)  # with the number of epochs of this training
        getattr(self._theirs, method)(*arguments)
        return True

    @property
    def _average(self) -> EMAHook | None:
        runner = runner_of(self)
        hooks = [] if runner is None else runner.hooks
        return next((hook for hook in hooks if isinstance(hook, EMAHook)), None)

    def _put_in(self) -> None:
        runner, average = runner_of(self), self._average
        if runner is not None and average is not None:
            average.put_in(runner)


# Any: a callback of any class.
def stand_in(callback: Any) -> Any:
    """Return what is called on a run for a callback: ours for Keras's `SwapEMAWeights`, otherwise the callback itself.

    Keras's own looks for the average in the optimizer, which has none here.
    """
    kind: Any = callback.__class__
    is_theirs = is_of_keras(kind) and kind.__name__ == SwapEMAWeights.__name__
    return SwapEMAWeights(callback.swap_on_epoch) if is_theirs else callback
