"""A run as Keras's callbacks see it: what ``self.model`` of a callback is on our runner."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, final
from weakref import ref

from aspecthook.training._errors import TrainingError
from aspecthook.training.hooks._evaluation import _kept

from ._callback import is_any
from ._optimizer import Optimizer

if TYPE_CHECKING:
    from aspecthook.training.loop._runner import Runner

    from ._simple import History

# Any: weights are arrays, data and predictions whatever the model takes and makes.


@final
class Model:
    """A run, as ``self.model`` of a callback, and with ``fit``, ``evaluate`` and ``predict`` of one's own.

    It has what callbacks use of a ``keras.Model``; all else is that of the model that is trained. A callback may put
    attributes on it.

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

    built = True  # Keras's own callbacks ask
    # Keras's monitors look here for metrics that it has compiled.
    metrics: tuple[Any, ...] = ()

    def __init__(self, runner: Runner) -> None:
        self._set(lambda: runner, {"history": None})

    def _set(self, find: Callable[[], Runner | None], things: dict[str, Any]) -> None:
        # `vars`: all other attributes go to `_things`.
        vars(self).update(_find=find, _things=things)

    @classmethod
    def of(cls, runner: Runner, things: dict[str, Any] | None = None) -> Model:
        """Give one that does not keep the run alive: callbacks hold it, which are hooks of the run.

        Args:
            runner: The run.
            things: What callbacks have put on it, to be shared with another one.
        """
        made = cls(runner)
        made._set(ref(runner), made.things if things is None else things)
        return made

    @property
    def things(self) -> dict[str, Any]:
        """What callbacks have put on it."""
        found: dict[str, Any] = vars(self)["_things"]
        return found

    @property
    def runner(self) -> Runner:
        """The run.

        Raises:
            ReferenceError: It is gone, and a callback that was on it is still there.
        """
        runner: Runner | None = vars(self)["_find"]()
        if runner is None:
            raise ReferenceError("the run of this model is gone; keep a reference to the Runner")
        return runner

    # What callbacks ask for

    @property
    def stop_training(self) -> bool:
        """Whether the run is to end after this iteration; set it to end it."""
        return self.runner.stopping

    @stop_training.setter
    def stop_training(self, stop: bool) -> None:
        if stop:
            self.runner.request_stop()
        else:
            self.runner.stopping = False

    @property
    def optimizer(self) -> Any:  # Any: an Optimizer, which passes on whatever that of the run has
        """The optimizer, with ``learning_rate`` and ``iterations``."""
        return None if self.runner.optimizer is None else Optimizer(self)

    @property
    def name(self) -> str:
        """The name of the model's class."""
        return type(self.runner.model).__name__

    @property
    def weights(self) -> list[Any]:
        """The live parameters."""
        return list(self.runner.backend.parameters(self.runner.model).values())

    trainable_weights = trainable_variables = variables = weights

    def count_params(self) -> int:
        """Say how many numbers the parameters are."""
        return sum(array.size for array in self.runner.backend.state(self.runner.model).values())

    def get_weights(self) -> list[Any]:
        """Give copies of the parameters and buffers."""
        return list(self.runner.backend.state(self.runner.model).values())

    def set_weights(self, weights: Iterable[Any]) -> None:
        """Take back what `get_weights` has given.

        Raises:
            TrainingError: They are those of another model; nothing is changed.
        """
        names = list(self.runner.backend.state(self.runner.model))
        given = list(weights)
        if len(given) != len(names):
            raise TrainingError(
                f"{self.name} has {len(names)} weights, and {len(given)} were given; give what its get_weights() gave"
            )
        self.runner.backend.load_state(self.runner.model, dict(zip(names, given, strict=True)))

    # Files

    def save(self, filepath: str | os.PathLike[str], overwrite: bool = True) -> None:
        """Save a checkpoint of the run, whatever the name of the file ends in.

        Raises:
            TrainingError: The file is there and is not to be overwritten, or it cannot be written.
        """
        if not overwrite and os.path.exists(filepath):
            raise TrainingError(f"{os.fspath(filepath)} is there already; give overwrite=True, or another name")
        self.runner.save_checkpoint(filepath)

    def save_weights(self, filepath: str | os.PathLike[str], overwrite: bool = True) -> None:
        """Do what `save` does: what Keras calls weights has the state of the optimizer too."""
        self.save(filepath, overwrite)

    def load_weights(self, filepath: str | os.PathLike[str]) -> None:
        """Load the parameters, and the state of the optimizer if it is there; the run goes on where it is.

        Raises:
            TrainingError: The file is no checkpoint, or that of another model.
        """
        from aspecthook.training.checkpoint._format import load

        self.runner.load_checkpoint(filepath)
        kept = load(filepath).get("optimizer")
        if kept is not None and self.runner.optimizer is not None:
            self.runner.backend.load_optimizer_state(self.runner.optimizer, kept)

    @property
    def _initial_epoch(self) -> int:  # where a BackupAndRestore of Keras says that training goes on
        return self.runner.epoch

    @_initial_epoch.setter
    def _initial_epoch(self, epoch: int) -> None:
        runner = self.runner
        done = dict.fromkeys(runner.progress, 0)
        done["epoch"], done["iter"] = epoch, epoch * (length_of(runner.loaders["train"]) or 0)
        done["step"] = done["iter"] // runner.accumulate
        done["begun"] = epoch if runner.by_epoch else done["iter"]
        runner.progress = done

    # Training and evaluation

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
        """Train, with callbacks that are there for this time.

        Args:
            x: A loader, as `Runner.fit` takes; or an array of inputs.
            y: The targets of such an array.
            batch_size: The size of batches made of arrays.
            epochs: The number of the last epoch; what the runner was told, unless given.
            validation_data: A loader; or a pair of arrays.
            callbacks: Callbacks, in lists as you like; or configs of such.
            shuffle: Whether batches made of arrays are shuffled.
            verbose: Whether to show the progress; 2 for lines on a terminal too.

        Returns:
            What was logged, by epochs.
        """
        from ._bindings import placed
        from ._progress import ProgbarLogger
        from ._simple import History

        history = History()
        usual = [history, ProgbarLogger()] if verbose else [history]
        if epochs is not None:
            self.runner.max_epochs = epochs
        pair: Any = validation_data
        val = _loader(pair[0], pair[1], batch_size) if _is_pair(pair) else pair
        with placed(self.runner, [callbacks, usual], self, verbose):
            self.runner.fit(_loader(x, y, batch_size, shuffle=shuffle), val)
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
        """Test the model, in the middle of a run too, which goes on afterwards as if nothing had happened.

        The callbacks of the run hear nothing of it.

        Returns:
            The loss, if there is nothing else; the numbers in the order of their names, the loss first; or all by name.
        """
        with self._aside(callbacks, verbose):
            self.runner.logs = {name: value for name, value in self.runner.logs.items() if not name.startswith("test_")}
            made = self.runner.test(_loader(x, y, batch_size))
        found = {name.removeprefix("test_"): value for name, value in made.items() if name.startswith("test_")}
        if return_dict:
            return found
        rows = [found[name] for name in sorted(found, key=lambda name: (name != "loss", name))]
        return rows[0] if len(rows) == 1 else rows

    def predict(self, x: Any, *, batch_size: int = 32, callbacks: Any = None, verbose: int = 0) -> Any:
        """Give what the model makes of the inputs, as one array if it makes arrays; else a list, by batches.

        The callbacks of the run hear nothing of it.
        """
        with self._aside(callbacks, verbose):
            return _joined(on_host(self.runner.predict(_loader(x, None, batch_size))))

    def predict_on_batch(self, x: Any) -> Any:
        """Give what the model makes of one batch."""
        return self.predict([x])

    def _aside(self, callbacks: Any, verbose: int) -> ExitStack:
        from ._bindings import aside, placed
        from ._progress import ProgbarLogger

        stack = ExitStack()
        try:
            stack.enter_context(aside(self.runner))
            stack.enter_context(_kept(self.runner))
            usual = [ProgbarLogger()] if verbose else []
            stack.enter_context(placed(self.runner, [callbacks, usual], self, verbose))
        except BaseException:
            stack.close()
            raise
        return stack

    # What else it is

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model."""
        return self.runner.model(*args, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set what the model has; or put something on it, which callbacks find there."""
        if hasattr(type(self), name):
            object.__setattr__(self, name, value)
        else:
            self.things[name] = value

    def __getattr__(self, name: str) -> Any:
        if "_things" not in vars(self):  # one that is being copied
            raise AttributeError(name)
        if name in self.things:
            return self.things[name]
        try:
            return getattr(self.runner.model, name)
        except AttributeError:
            there = ", ".join(sorted(word for word in {*dir(type(self)), "history"} if not word.startswith("_")))
            raise AttributeError(
                f"the model of a callback on our runner has no {name!r}, nor has {self.name}; it has {there}"
            ) from None


def length_of(loader: Any) -> int | None:
    """Say how many batches a loader has, if it knows."""
    try:
        return len(loader)
    except TypeError:
        return None


def _is_pair(data: Any) -> bool:
    return is_any(data, tuple) and len(data) == 2 and _is_array(data[0])


def _is_array(data: Any) -> bool:
    return hasattr(data, "shape") and hasattr(data, "__getitem__")


def _loader(x: Any, y: Any, batch_size: int, *, shuffle: bool = False) -> Any:
    """Give a loader, made of arrays if these are given."""
    if not _is_array(x):
        return x
    if shuffle:
        from aspecthook.training.data._loading import ArrayDataset, DataLoader

        return DataLoader(ArrayDataset(x, y), batch_size=batch_size, shuffle=True)
    places = range(0, len(x), batch_size)
    if y is None:
        return [x[place : place + batch_size] for place in places]
    return [(x[place : place + batch_size], y[place : place + batch_size]) for place in places]


def on_host(value: Any) -> Any:
    """Give what Keras gives in the place of a tensor: an array."""
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        return value.detach().cpu().numpy()
    if is_any(value, dict):
        return {name: on_host(value[name]) for name in value}
    if type(value) in (list, tuple):
        return type(value)(map(on_host, value))
    return value


def _joined(rows: list[Any]) -> Any:
    """Join batches: arrays, and dicts, lists and tuples of such; what is neither stays in batches."""
    kinds: set[Any] = {type(row) for row in rows}
    if kinds == {dict}:
        return {name: _joined([row[name] for row in rows]) for name in rows[0]}
    if kinds in ({list}, {tuple}):
        return kinds.pop()(map(_joined, map(list, zip(*rows, strict=True))))
    if not all(_is_array(row) and len(row.shape) for row in rows):
        return rows
    import numpy as np

    return np.concatenate(rows)
