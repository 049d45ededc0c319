"""A run with ``fit``, ``evaluate`` and ``predict`` of a ``keras.Model``, and callbacks that are on it for one call."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, final

from aspecthook.training.backends._state import is_any
from aspecthook.training.loop._logs import logged_by, without_mode
from aspecthook.training.loop._names import name_in_list
from aspecthook.training.loop._run import Run
from aspecthook.training.loop._state import preserved

from ._bridge import flat, is_array, joined, loader_of, on_host
from ._lifecycle import KerasLifecycle
from ._progress import ProgbarLogger
from ._run_model import RunModel
from ._simple import History

# Any: inputs, targets and predictions are whatever the model takes and returns; callbacks may be of any class.


@final
class Model(RunModel):
    """A run with the interface of a ``keras.Model``: the ``self.model`` of callbacks, and for scripts `fit`.

    It has all that callbacks use of a ``keras.Model``; other attributes are those of the model that is trained.
    A callback may set attributes of its own.

    Args:
        runner: The run.

    Example:
        >>> import numpy as np
        >>> from aspecthook.training import Runner
        >>> from aspecthook.training.keras import EarlyStopping, Model
        >>> from aspecthook.training.numpy import SGD, Linear, mse
        >>> net = Linear(2, 1)
        >>> model = Model(Runner(net, optimizer=SGD(net.parameters(), lr=0.1), loss=mse))
        >>> x, y = np.ones((8, 2), np.float32), np.ones((8, 1), np.float32)
        >>> history = model.fit(x, y, batch_size=4, epochs=3, validation_data=(x, y), callbacks=[EarlyStopping()])
        >>> history.epoch, list(history.history)
        ([0, 1, 2], ['loss', 'val_loss'])
    """

    def fit(
        self,
        x: Any,
        y: Any = None,
        *,
        batch_size: int = 32,
        epochs: int | None = None,
        validation_data: Any = None,
        callbacks: Any = None,
        shuffle: bool = True,
        verbose: int = 0,
    ) -> History:
        """Train, with callbacks that are removed afterwards.

        Args:
            x: A loader, as `Runner.fit` takes it; or an array of inputs.
            y: The targets, if `x` is an array.
            batch_size: The size of the batches that arrays are cut into.
            epochs: The number of the last epoch; `max_epochs` of the runner unless given.
            validation_data: A loader; or a pair of arrays.
            callbacks: A callback or its config; or lists of them, nested as you like.
            shuffle: Whether the samples of arrays are shuffled.
            verbose: 1 to show the progress, as a bar on a terminal; 2 to show it in lines there too.

        Returns:
            The numbers of all epochs.
        """
        history = History()
        if epochs is not None:
            self.runner.max_epochs = epochs
        pair: Any = validation_data
        is_pair = is_any(pair, tuple) and len(pair) == 2 and is_array(pair[0])
        val = loader_of(pair[0], pair[1], batch_size) if is_pair else pair
        with self._with_callbacks([callbacks, history], verbose):
            self.runner.fit(loader_of(x, y, batch_size, shuffle=shuffle), val)
        return history

    def evaluate(
        self,
        x: Any,
        y: Any = None,
        *,
        batch_size: int = 32,
        callbacks: Any = None,
        return_dict: bool = False,
        verbose: int = 0,
    ) -> Any:
        """Test the model, without an effect on a run that is under way, its callbacks or its logs.

        Returns:
            The loss, if it is the only number; else a list that begins with the loss and has the other numbers in the
            order of their names; or all numbers by name.
        """
        with self._isolated(callbacks, verbose):
            self.runner.logs = without_mode("test", self.runner.logs)
            logs = self.runner.test(loader_of(x, y, batch_size))
        found = logged_by("test", logs)
        if return_dict:
            return found
        numbers = [found[name] for name in sorted(found, key=lambda name: (name != "loss", name))]
        return numbers[0] if len(numbers) == 1 else numbers

    def predict(self, x: Any, *, batch_size: int = 32, callbacks: Any = None, verbose: int = 0) -> Any:
        """Return the predictions: one array if the model returns arrays, else a list with one item for each batch.

        This has no effect on a run that is under way, its callbacks or its logs.
        """
        with self._isolated(callbacks, verbose):
            return joined(on_host(self.runner.predict(loader_of(x, None, batch_size))))

    def predict_on_batch(self, x: Any) -> Any:
        """Return the predictions for one batch."""
        return self.predict([x])

    @contextmanager
    def _with_callbacks(self, callbacks: Any, verbose: int) -> Generator[None]:
        """Register callbacks inside ``with``, except those that are registered already."""
        runner = self.runner
        life = lifecycle_of(runner)
        life.model = Model.of(runner, self.extras)
        before, life.verbose = life.verbose, verbose
        added: list[Any] = []
        try:
            for callback in flat([callbacks, ProgbarLogger() if verbose else None]):
                if not any(hook is callback for hook in runner.hooks):
                    name = name_in_list(runner, callback)
                    added.append(runner.register_hook(callback, name=name))
            yield
        finally:
            life.verbose = before
            for callback in added:
                runner.remove_hook(callback)
                life.forget(callback)

    @contextmanager
    def _isolated(self, callbacks: Any, verbose: int) -> Generator[None]:
        """Inside ``with``, call only these callbacks; afterwards the run is as before."""
        runner = self.runner
        life = lifecycle_of(runner)
        with life.silenced(), preserved(runner, "logs", "predictions"), self._with_callbacks(callbacks, verbose):
            yield


def lifecycle_of(runner: Run) -> KerasLifecycle:
    """Return the lifecycle of a run, which is made with its first callback."""
    for hook in runner.hooks:
        if isinstance(hook, KerasLifecycle):
            return hook
    life = KerasLifecycle(runner, Model.of(runner))
    runner.hooks.append(life)
    return life
