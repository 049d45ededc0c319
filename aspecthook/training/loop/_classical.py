"""What mmcv's runner offers beside its stages: configs of usual hooks, the rates, which hooks there are."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from aspecthook import hooks
from aspecthook._core.law import law_sync
from aspecthook._core.law.call import Call
from aspecthook._core.law.options import Priority
from aspecthook._core.law.order import Chain
from aspecthook._errors import HookOptionError, nearest
from aspecthook.training._errors import TrainingError

from ._run import Run
from ._stages import IN_ORDER, NAMES

if TYPE_CHECKING:
    from aspecthook.training.schedules._mmcv import Config


class Classical(Run):
    """A run with the methods of mmcv's runner; `Runner` adds the stages."""

    __slots__ = ()

    # Registering

    def register_training_hooks(
        self,
        lr_config: Config = None,
        optimizer_config: Config = None,
        checkpoint_config: Config = None,
        log_config: Config = None,
        momentum_config: Config = None,
        timer_config: Config = "IterTimerHook",
        custom_hooks: Config = None,
    ) -> None:
        """Register the hooks of a usual run, with mmcv's names and priorities; all of them, or none if one is wrong.

        Each is a config, a hook, or None for no such hook. A ``"priority"`` in a config wins over the one here.

        Args:
            lr_config: Of an `LrUpdaterHook`, ``{"policy": "cosine", "min_lr": 0.0}``; priority 10.
            optimizer_config: Of an `OptimizerHook`, ``{"grad_clip": {"max_norm": 35}}``; priority 40.
            checkpoint_config: Of a `CheckpointHook`, ``{"interval": 1}``; priority 50.
            log_config: What loggers share, and which there are: ``{"interval": 50, "hooks": [{"type":
                "TextLoggerHook"}, "JsonLoggerHook"]}``; priority 90.
            momentum_config: Of a `MomentumUpdaterHook`; priority 30.
            timer_config: Of an `IterTimerHook`; priority 70.
            custom_hooks: A list of others; each has its own priority, which is 50 unless its class says otherwise.

        Raises:
            ConfigError: A config that cannot be built.
        """
        from aspecthook.training.schedules._mmcv import register_training_hooks

        configs = {
            "lr": lr_config,
            "momentum": momentum_config,
            "optimizer": optimizer_config,
            "checkpoint": checkpoint_config,
            "timer": timer_config,
        }
        register_training_hooks(self, configs, log_config, custom_hooks)

    # What there is

    def current_lr(self) -> list[float]:
        """Return the learning rate of each parameter group.

        Raises:
            TrainingError: The runner has no optimizer.
        """
        return [group["lr"] for group in self._groups("current_lr")]

    def current_momentum(self) -> list[float]:
        """Return the momentum of each parameter group, or the first of its betas; 0 where there is neither.

        Raises:
            TrainingError: The runner has no optimizer.
        """
        groups = self._groups("current_momentum")
        return [group.get("momentum", group.get("betas", (0.0,))[0]) for group in groups]

    def _groups(self, who: str) -> list[dict[str, Any]]:
        if self.optimizer is None:
            raise TrainingError(f"{who}: the runner has no optimizer; give Runner(..., optimizer=...)")
        groups: list[dict[str, Any]] = self.optimizer.param_groups
        return groups

    def get_hook_info(self) -> str:
        """Return a text with the hooks of each stage and their priorities, in the order in which they are called.

        Hooks of all systems are in it, and functions that were added to a stage.
        """
        parts: list[str] = []
        for name in IN_ORDER:
            rows = [f"({_priority(hook.priority):<12}) {hook.name:<35}" for hook in self._hooks_of(name)]
            if rows:
                parts.append("\n".join([f"{name}:", *rows, " -------------------- "]))
        return "\n".join(parts)

    def call_hook(self, name: str, **arguments: Any) -> None:
        """Call the hooks before or after a stage without the stage, for loops of your own.

        They are called by the rules of the stage, in its order, but what they answer has no effect beyond them.

        Args:
            name: A name such as ``"before_train_epoch"``.
            arguments: The arguments of the stage; its batch is the current one unless given.

        Raises:
            HookOptionError: There is no such stage, or it needs an argument that is not given.
        """
        if name not in IN_ORDER:
            raise HookOptionError(f"call_hook({name!r}): give one of {', '.join(IN_ORDER)}{nearest(name, [*IN_ORDER])}")
        stage = getattr(self, NAMES[name].method)
        takes = inspect.signature(stage)
        given = {"batch": self.batch, **arguments} if "batch" in takes.parameters else arguments
        try:
            bound = takes.bind(**given)
        except TypeError as error:
            raise HookOptionError(
                f"call_hook({name!r}): {error}; the stage takes {', '.join(takes.parameters) or 'no arguments'}"
            ) from None
        bound.apply_defaults()
        call = Call(hooks(stage).site(), (self, *bound.arguments.values()))
        law_sync.run(Chain(self._hooks_of(name)), call, lambda *_: self.outputs)

    def _hooks_of(self, name: str) -> tuple[Any, ...]:
        method, kind = NAMES[name]
        found: tuple[Any, ...] = getattr(hooks(getattr(self, method)).chain(), kind)
        return found


def _priority(number: int) -> str:
    return Priority(number).name if number in [*map(int, Priority)] else str(number)
