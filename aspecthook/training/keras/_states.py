"""The state of each callback of a run: the epochs that it was called for, and the memory of Keras's own callbacks.

Keras's own callbacks have no `state_dict`, and reset themselves when training begins. So a resumed run restores their
attributes after that.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

from aspecthook.training.logging._line_files import cut_back
from aspecthook.training.loop._dialect import Method

from ._callback import KERAS, Callback, ResumableCallback, is_of_keras
from ._monitor import mode_by_name

# The attributes that Keras's own callbacks remember, by class.
_REMEMBERED: dict[str, tuple[str, ...]] = {
    "EarlyStopping": ("wait", "stopped_epoch", "best", "best_weights", "best_epoch"),
    "ReduceLROnPlateau": ("best", "cooldown_counter", "wait"),
    "ModelCheckpoint": ("best", "_batches_seen_since_last_saving", "_last_batch_seen", "_current_epoch"),
    "BackupAndRestore": ("_batches_seen_since_last_saving", "_last_batch_seen", "_current_epoch"),
    "TensorBoard": ("_global_train_batch", "_global_test_batch"),
    "History": ("history", "epoch"),
    "CSVLogger": ("keys",),
    "LearningRateScheduler": (),
    "TerminateOnNaN": (),
}


@final
class Memory:
    """The attributes that a callback of Keras itself remembers."""

    def __init__(self, callback: Any, names: tuple[str, ...]) -> None:
        self.attributes: dict[str, Any] = vars(callback)
        self.names = names

    @classmethod
    def of(cls, callback: Any) -> Memory | None:
        """Return the memory of a callback; None if it has a `state_dict`, or is not one of Keras itself."""
        if not hasattr(callback, "state_dict"):
            for kind in type(callback).__mro__:
                if kind.__name__ in _REMEMBERED and is_of_keras(kind):
                    return cls(callback, _REMEMBERED[kind.__name__])
        return None

    def state_dict(self) -> dict[str, Any]:
        """Return the attributes, and the size of the file of a `CSVLogger`."""
        attributes = {name: self.attributes[name] for name in self.names if name in self.attributes}
        return {"attributes": attributes, "size": self._size()}

    def _size(self) -> int | None:
        path = self.attributes.get("filename")
        return os.path.getsize(path) if "csv_file" in self.attributes and path and os.path.exists(path) else None

    def choose_mode(self) -> None:
        """Set the mode of a monitor by the name of its number: Keras would look for a metric that it has compiled."""
        if self.attributes.get("mode") == "auto" and self.attributes.get("monitor_op", self) is None:
            self.attributes["mode"] = mode_by_name(str(self.attributes["monitor"])) or "auto"

    def restore_after(self, reset: Callable[[], None], state: dict[str, Any]) -> None:
        """Call what resets the callback, and restore the attributes."""
        appends, size = self.attributes.get("append"), self._size()
        if size is not None and state["size"] is not None:  # the lines after it are of epochs that are trained again
            cut_back(Path(self.attributes["filename"]), state["size"], logging.getLogger("aspecthook.training"))
        if appends is not None:
            self.attributes["append"] = True  # otherwise the CSVLogger would empty its file
        reset()
        if appends is not None:
            self.attributes["append"] = appends
        given = state["attributes"]  # of a checkpoint, which may be anybody's: a path in it would be written to
        self.attributes.update((name, given[name]) for name in self.names if name in given)


@final
class CallbackState:
    """The state of one callback: the epochs that it was called for, and its memory if it is one of Keras itself."""

    def __init__(self, callback: Any) -> None:
        self.callback = callback
        # The last epochs that `on_epoch_begin` and `on_epoch_end` were called for.
        self.begun: int | None = None
        self.ended: int | None = None
        self.on_epoch_end = KERAS.overridden(callback, "on_epoch_end")
        self.memory = Memory.of(callback)
        self._loaded: dict[str, Any] | None = None

    @property
    def remembers(self) -> bool:
        """Whether the callback continues after a resume as if the run had never ended."""
        if isinstance(self.callback, ResumableCallback):
            return self.callback.remembers()
        own: Any = getattr(self.callback, "state_dict", None)
        return self.memory is not None or getattr(own, "__func__", own) not in (None, Callback.state_dict)

    def state_dict(self) -> dict[str, Any]:
        """Return the epochs that the callback was called for, and its memory."""
        memory = None if self.memory is None else self.memory.state_dict()
        return {"begun": self.begun, "ended": self.ended, "memory": memory}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the epochs; `begin` restores the memory."""
        # `on_epoch_begin` is called again for a callback without a memory.
        self.begun = state["begun"] if self.remembers else None
        self.ended, self._loaded = state["ended"], state["memory"]

    def begin(self, on_train_begin: Method | None) -> None:
        """Call `on_train_begin`, and restore the memory."""

        def call() -> None:
            if on_train_begin is not None:
                on_train_begin({})

        loaded, self._loaded = self._loaded, None
        if self.memory is not None:
            self.memory.choose_mode()
        if self.memory is None or loaded is None:
            call()
            return
        self.memory.restore_after(call, loaded)
        if loaded["attributes"].get("stopped_epoch"):
            self.callback.model.stop_training = True

    def end(self) -> None:
        """Make the next training begin anew, even if a state was loaded during this one."""
        if isinstance(self.callback, ResumableCallback):
            self.callback.begins_anew()
