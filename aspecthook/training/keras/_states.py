"""One callback of a run: what it has been told, and what a checkpoint keeps of it.

Keras's own callbacks have no `state_dict`, and forget all when training begins: what they remember is kept for them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, final

from ._callback import Callback, Continuing, is_of_keras, overridden
from ._monitor import direction

# What they remember, by the names of their classes.
_KEPT: dict[str, tuple[str, ...]] = {
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
    """What a callback of Keras's own remembers."""

    def __init__(self, callback: Any, names: tuple[str, ...]) -> None:
        self.held: dict[str, Any] = vars(callback)
        self.names = names

    def state_dict(self) -> dict[str, Any]:
        """Give it, and how long the file is of one that writes lines."""
        made = {name: self.held[name] for name in self.names if name in self.held}
        return {"held": made, "size": self._size()}

    def _size(self) -> int | None:
        path = self.held.get("filename")
        return os.path.getsize(path) if "csv_file" in self.held and path and os.path.exists(path) else None

    def direct(self) -> None:
        """Say which way is better, where Keras would ask metrics that it has compiled."""
        if self.held.get("mode") == "auto" and self.held.get("monitor_op", self) is None:
            self.held["mode"] = direction(str(self.held["monitor"])) or "auto"

    def begin(self, state: dict[str, Any], method: Callable[[], None]) -> None:
        """Call what forgets all, and put it back."""
        appends, size = self.held.get("append"), self._size()
        if size is not None and state["size"] is not None:  # lines of epochs that will be trained again
            os.truncate(self.held["filename"], min(size, state["size"]))
        if appends is not None:
            self.held["append"] = True  # else the file would be emptied
        method()
        if appends is not None:
            self.held["append"] = appends
        self.held.update(state["held"])


def _memory_of(callback: Any) -> Memory | None:
    if hasattr(callback, "state_dict"):
        return None
    for kind in type(callback).__mro__:
        if kind.__name__ in _KEPT and is_of_keras(kind):
            return Memory(callback, _KEPT[kind.__name__])
    return None


@final
class Seat:
    """One callback of a run."""

    def __init__(self, callback: Any) -> None:
        self.callback = callback
        # The epochs of whose beginning and end it was told.
        self.begun: int | None = None
        self.ended: int | None = None
        # While another callback evaluates the model, which Keras does without callbacks.
        self.silent = False
        self.on_epoch_end = overridden(callback, "on_epoch_end")
        self.memory = _memory_of(callback)
        self._state: dict[str, Any] | None = None

    @property
    def remembers(self) -> bool:
        """Whether it is the same after a resume as if it had never ended."""
        own: Any = getattr(self.callback, "state_dict", None)
        return self.memory is not None or getattr(own, "__func__", own) not in (None, Callback.state_dict)

    def state_dict(self) -> dict[str, Any]:
        """Give what it was told, and what it remembers if it does not say so itself."""
        memory = None if self.memory is None else self.memory.state_dict()
        return {"begun": self.begun, "ended": self.ended, "memory": memory}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what `state_dict` has given; what it remembers waits for `begin`."""
        # One without a memory is told again of the epoch that it is in the middle of.
        self.begun = state["begun"] if self.remembers else None
        self.ended, self._state = state["ended"], state["memory"]

    def end(self) -> None:
        """Let the next training begin anew, even if a state was loaded in the middle of this one."""
        if isinstance(self.callback, Continuing):
            self.callback.begins_anew()

    def begin(self, on_train_begin: Callable[..., Any] | None) -> None:
        """Call `on_train_begin`, after which it remembers what was kept."""

        def call() -> None:
            if on_train_begin is not None:
                on_train_begin({})

        state, self._state = self._state, None
        if self.memory is None:
            call()
            return
        self.memory.direct()
        if state is None:
            call()
            return
        self.memory.begin(state, call)
        if state["held"].get("stopped_epoch"):
            self.callback.model.stop_training = True
