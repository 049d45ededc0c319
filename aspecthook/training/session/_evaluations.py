"""The hooks of a training that evaluate with an `Estimator`, or end with what it has found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, final

from aspecthook._errors import HookOptionError, HookTypeError, brief, nearest
from aspecthook.training._options import whole_number
from aspecthook.training._ranks import any_rank

from ._estimator import Estimator
from ._protocol import SessionRunContext, SessionRunHook, SessionRunValues
from ._session import Coordinator, Session
from ._specs import InputFn, checked_input
from ._timers import IterationTimedHook, SecondOrStepTimer, TimedHook


@final
class InMemoryEvaluatorHook(IterationTimedHook):
    """Evaluate the model of a training as it is, without a checkpoint: at the beginning, then regularly, at the end.

    Args:
        estimator: The estimator that trains; its `evaluations` get the numbers.
        input_fn, steps, hooks, name: As in `Estimator.evaluate`.
        every_n_iter: The iterations between two evaluations.

    Example:
        >>> import numpy as np
        >>> from aspecthook.training.numpy import SGD, Linear, mse
        >>> from aspecthook.training.session import Estimator
        >>> batches = [(np.ones((4, 1)), np.zeros((4, 1)))] * 4
        >>> model = Linear(1, 1)
        >>> estimator = Estimator(model, optimizer=SGD(model.parameters(), lr=0.1), loss=mse)
        >>> hook = InMemoryEvaluatorHook(estimator, lambda: batches, every_n_iter=3)
        >>> sorted(estimator.train(lambda: batches, hooks=[hook]).evaluations)
        [0, 3, 4]
    """

    def __init__(
        self,
        estimator: Estimator,
        input_fn: InputFn,
        steps: int | None = None,
        hooks: Iterable[Any] | None = None,
        name: str | None = None,
        every_n_iter: int = 100,
    ) -> None:
        self._estimator = _checked(estimator, "InMemoryEvaluatorHook")
        self._input_fn = checked_input(input_fn, "InMemoryEvaluatorHook")
        self._steps, self._hooks, self._name = steps, list(hooks or ()), name
        every = whole_number("InMemoryEvaluatorHook", "every_n_iter", every_n_iter, 1)
        self._timer = SecondOrStepTimer(every_steps=every, who="InMemoryEvaluatorHook")

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Evaluate the model before it is trained, unless a resumed run has done so."""
        super().after_create_session(session, coord)
        if self._timer.last_triggered_step() is None:
            self._evaluate(session)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:  # noqa: ARG002
        """Evaluate, if it is due."""
        self._count += 1
        if self._timer.should_trigger_for_step(self._count):
            self._evaluate(run_context.session)

    def end(self, session: Session) -> None:
        """Evaluate the model at the end."""
        if self._timer.last_triggered_step() != self._count:
            self._evaluate(session)

    def _evaluate(self, session: Session) -> None:
        self._timer.update_last_triggered_step(self._count)
        self._estimator.evaluate_on(session.runner, self._input_fn, self._steps, self._hooks, self._name)


@final
class _StopIfNoImprovement(TimedHook):
    """End a training when no evaluation of its estimator has improved a metric for a number of steps."""

    def __init__(
        self,
        who: str,
        sign: int,  # 1 if a greater number is better, else -1
        estimator: Estimator,
        metric: str,
        patience: int,
        least: int,
        secs: float | None,
        steps: int | None,
    ) -> None:
        self._who, self._sign, self._estimator, self._metric = who, sign, _checked(estimator, who), metric
        self._patience = whole_number(who, "the steps without an improvement", patience, 1)
        self._least = whole_number(who, "min_steps", least, 0)
        self._timer = SecondOrStepTimer(60.0 if secs is None and steps is None else secs, steps, who=who)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Look at the evaluations, if it is due; all ranks end together."""
        step = self._due_step(run_context, run_values)
        if step is not None:
            self._timer.update_last_triggered_step(step)
        if any_rank(step is not None and self._has_stalled(run_context.session)):
            run_context.request_stop()

    def _has_stalled(self, session: Session) -> bool:
        best: float | None = None
        best_step = 0
        for step, numbers in sorted(self._estimator.evaluations.items()):
            if step < self._least:
                continue
            if self._metric not in numbers:
                raise HookOptionError(
                    f"{self._who}: no evaluation has {brief(self._metric)}, but {', '.join(numbers)}"
                    f"{nearest(self._metric, list(numbers))}"
                )
            value = self._sign * float(numbers[self._metric])
            if best is None or value > best:
                best, best_step = value, step
            if step - best_step >= self._patience:
                session.runner.logger.info(
                    "%s: %s has not improved since step %d; the run ends", self._who, self._metric, best_step
                )
                return True
        return False

    def state_dict(self) -> dict[str, Any]:
        """Return the timer, and the evaluations so far."""
        rows = [
            [step, float(numbers[self._metric])]
            for step, numbers in sorted(self._estimator.evaluations.items())
            if self._metric in numbers
        ]
        return {**super().state_dict(), "evaluations": rows}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        for step, value in state["evaluations"]:
            self._estimator.evaluations.setdefault(int(step), {self._metric: value})


def stop_if_no_decrease_hook(
    estimator: Estimator,
    metric_name: str,
    max_steps_without_decrease: int,
    *,
    min_steps: int = 0,
    run_every_secs: float | None = None,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """Return a hook that ends a training when a metric of the evaluations has not decreased for a number of steps.

    The evaluations are those of the estimator itself, by `InMemoryEvaluatorHook`; in TensorFlow
    they are read from files.

    Args:
        estimator: The estimator.
        metric_name: The name of the metric, ``"loss"``.
        max_steps_without_decrease: The steps since the best evaluation, at which to end.
        min_steps: Evaluations of earlier steps are ignored.
        run_every_secs: The seconds between two looks at the evaluations; 60 unless steps are given.
        run_every_steps: The steps between two looks.

    Raises:
        HookOptionError: (in the run) No evaluation has the metric.

    Example:
        >>> from aspecthook.training import Runner
        >>> from aspecthook.training.session import Estimator
        >>> hook = stop_if_no_decrease_hook(Estimator(Runner(abs)), "loss", 1000, run_every_steps=100)
    """
    return _StopIfNoImprovement(
        "stop_if_no_decrease_hook",
        -1,
        estimator,
        metric_name,
        max_steps_without_decrease,
        min_steps,
        run_every_secs,
        run_every_steps,
    )


def stop_if_no_increase_hook(
    estimator: Estimator,
    metric_name: str,
    max_steps_without_increase: int,
    *,
    min_steps: int = 0,
    run_every_secs: float | None = None,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """Return a hook like that of `stop_if_no_decrease_hook`, for a metric that should increase.

    Example:
        >>> from aspecthook.training import Runner
        >>> from aspecthook.training.session import Estimator
        >>> hook = stop_if_no_increase_hook(Estimator(Runner(abs)), "accuracy", 1000, min_steps=500)
    """
    return _StopIfNoImprovement(
        "stop_if_no_increase_hook",
        1,
        estimator,
        metric_name,
        max_steps_without_increase,
        min_steps,
        run_every_secs,
        run_every_steps,
    )


def _checked(estimator: Any, who: str) -> Estimator:
    if not isinstance(estimator, Estimator):
        raise HookTypeError(f"{who}({brief(estimator)}): give an Estimator")
    return estimator
