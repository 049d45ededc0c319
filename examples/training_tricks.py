"""Training tricks that need a hook in the middle of a step: each takes a few lines, and no loop is rewritten.

A NumPy network learns handwritten digits several times, without and with each trick. Hooks can replace, repeat or skip
every part of a step. Look for

- `Args(batch=...)` before `train_iter`: another batch (`mixup`, `harder_half`);
- `Args(loss=...)` before `backward`, or a value returned by a post hook on `forward`: another loss
  (`gradient_penalty`, `LossScale`);
- `Return(None)` before `optimizer_step`: no step this time (`skip_broken`, `LossScale`);
- `proceed` around `optimizer_step`: a step whose gradients are computed again, elsewhere (`sharpness_aware`);
- classes, if one stage must know what another did, or if a checkpoint must store it (`LossScale`, `WeightNoise`).

Hooks draw random numbers from `np.random`: the runner seeds it, and checkpoints contain its state.

After `pip install '.[train]'`, run `python examples/training_tricks.py`, or add the name of a trick. No network.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from aspecthook import Args, Return, hooks, weave
from aspecthook.training import Hook, Runner

try:
    import numpy as np
    from autograd import grad

    from aspecthook.training.data import ArrayDataset, DataLoader, load_digits
    from aspecthook.training.numpy import SGD, Linear, ReLU, Sequential, cross_entropy, detach, manual_seed, no_grad
except ImportError as error:
    sys.exit(f"This example needs NumPy, autograd and safetensors ({error}): python -m pip install '.[train]'")

# The tricks. A parameter that neither the stage nor the runner provides keeps its default, and so is an option.


def mixup(batch: Any, alpha: float = 1.0) -> Args:
    """Before `train_iter`: train on images blended with others, and on labels mixed in the same proportion.

    https://arxiv.org/abs/1710.09412
    """
    share, order = np.random.beta(alpha, alpha), np.random.permutation(len(batch[0]))
    return Args(batch=tuple(share * part + (1 - share) * part[order] for part in batch))


def harder_half(batch: Any, runner: Any) -> Args:
    """Before `train_iter`: look at the whole batch, and train on the half with the highest losses.

    https://arxiv.org/abs/1910.00762
    """
    images, labels = batch
    with no_grad():
        scores = runner.model(images)
    losses = [runner.loss(one[None], label[None]).item() for one, label in zip(scores, labels, strict=True)]
    hardest = np.argsort(losses, kind="stable")[len(losses) // 2 :]
    return Args(batch=(images[hardest], labels[hardest]))


def gradient_penalty(result: Any, batch: Any, model: Any, weight: float = 0.3) -> Any:
    """After `forward`: penalize losses that a change of a pixel changes much; this takes gradients of gradients.

    https://arxiv.org/abs/1711.09404
    """
    images, labels = batch
    slopes = grad(lambda x: (cross_entropy(model(x), labels) * len(labels)).value)(images)
    return result + weight * (slopes**2).sum() / len(images)


def trained(model: Any) -> list[Any]:
    """Return the parameters that have gradients."""
    return [parameter for parameter in model.parameters() if parameter.grad is not None]


def is_broken(model: Any) -> bool:
    """Whether some gradient is infinite or NaN."""
    return not all(math.isfinite(abs(parameter.grad).max()) for parameter in trained(model))


def skip_broken(model: Any) -> Return[None] | None:
    """Before `optimizer_step`: skip the step if its gradients are broken, since one such step breaks all parameters."""
    return Return(None) if is_broken(model) else None


def scale_up(loss: Any, scale: float = 65536.0) -> Args:
    """Before `backward`: static loss scaling, so that gradients are not too small for half precision."""
    return Args(loss=loss * scale)


def scale_down(model: Any, scale: float = 65536.0) -> None:
    """Before `optimizer_step`: the other half of static loss scaling."""
    for parameter in trained(model):
        parameter.grad = parameter.grad / scale


class LossScale(Hook):
    """Dynamic loss scaling: an overflow halves the scale and skips the step; `patience` good steps double the scale.

    https://arxiv.org/abs/1710.03740
    """

    priority = "HIGH"  # so that hooks that clip or inspect gradients see the unscaled ones

    def __init__(self, scale: float = 65536.0, patience: int = 200) -> None:
        self.scale, self.patience = scale, patience
        self.good = self.skipped = 0

    def before_backward(self, loss: Any) -> Args:
        return Args(loss=loss * self.scale)

    def before_optimizer_step(self, model: Any) -> Return[None] | None:
        if is_broken(model):
            self.scale, self.good, self.skipped = self.scale / 2, 0, self.skipped + 1
            return Return(None)
        scale_down(model, self.scale)
        self.good += 1
        if self.good % self.patience == 0:
            self.scale *= 2
        return None

    def state_dict(self) -> dict[str, Any]:
        return {"scale": self.scale, "good": self.good, "skipped": self.skipped}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.scale, self.good, self.skipped = state["scale"], state["good"], state["skipped"]


def sharpness_aware(
    proceed: Callable[[], Any], runner: Any, batch: Any, model: Any, optimizer: Any, radius: float = 0.5
) -> None:
    """Around `optimizer_step`: step by the gradients at the worst point nearby, to end in a flat region (SAM).

    The batch is that of this step: with gradients of several batches added up, it would be the last of them.
    Where losses are scaled, gradients are to be scaled down inside this: in an around hook that is added later.
    https://arxiv.org/abs/2010.01412
    """
    parameters = trained(model)
    length = math.sqrt(sum(float((parameter.grad**2).sum()) for parameter in parameters)) or 1.0
    here = [parameter.data for parameter in parameters]
    for parameter in parameters:
        parameter.data = parameter.data + parameter.grad * (radius / length)
    optimizer.zero_grad()
    runner.backward(runner.forward(batch))  # the stages once more, with all their hooks
    for parameter, data in zip(parameters, here, strict=True):
        parameter.data = data
    proceed()


class WeightNoise(Hook):
    """Compute each loss and its gradients with slightly changed weights, and step the true ones."""

    def __init__(self, size: float = 0.1) -> None:
        self.size = size
        self.true: list[tuple[Any, Any]] = []

    def noise(self, data: Any) -> Any:
        return np.random.normal(0, self.size, data.shape).astype(data.dtype)

    def before_forward(self, model: Any) -> None:
        self.true = [(parameter, parameter.data) for parameter in model.parameters()]
        for parameter, data in self.true:
            parameter.data = data + self.noise(data)

    def after_backward(self) -> None:
        for parameter, data in self.true:
            parameter.data = data


# The experiments.


class Row(NamedTuple):
    """A line of a result: what was done, the outcome as text, and as a share of 1, for the bar."""

    name: str
    text: str
    share: float


def digits(split: Any, wrong: float = 0.0, first: int | None = None) -> tuple[Any, Any]:
    """Return images as rows of 64 pixels, and labels as ten probabilities; a share of the labels is random."""
    images, labels = load_digits(split)
    lot = np.random.default_rng(0)
    drawn = np.where(lot.random(len(labels)) < wrong, lot.integers(0, 10, len(labels)), labels)
    return images.reshape(-1, 64)[:first], np.eye(10, dtype=np.float32)[drawn][:first]


def make(epochs: int, hidden: int = 64, loss: Any = cross_entropy, rate: float = 0.02) -> Runner:
    """Return a run, without data; all runs start from the same weights."""
    manual_seed(0)
    model = Sequential(Linear(64, hidden), ReLU(), Linear(hidden, 10))
    optimizer = SGD(model.parameters(), lr=rate, momentum=0.9)
    return Runner(model, optimizer=optimizer, loss=loss, max_epochs=epochs, seed=0)


def batches(images: Any, labels: Any) -> DataLoader:
    return DataLoader(ArrayDataset(images, labels), batch_size=32, shuffle=True)


def right(model: Any, images: Any, labels: Any) -> float:
    """Return the share of images that a model classifies correctly."""
    with no_grad():
        return float((model(images).argmax(1) == labels.argmax(1)).mean())


def tested(name: str, runner: Runner) -> Row:
    share = right(runner.model, *digits("test"))
    return Row(name, f"{share:6.1%}", share)


def show_noisy_labels() -> Iterator[Row]:
    """Four in ten labels are random: test images classified correctly all the same"""
    data = digits("train", wrong=0.4, first=700)

    runner = make(epochs=40, hidden=128)
    runner.fit(batches(*data))
    yield tested("plain", runner)

    runner = make(epochs=40, hidden=128)
    hooks(runner.train_iter).pre(mixup)
    runner.fit(batches(*data))
    yield tested("mixup", runner)

    runner = make(epochs=40, hidden=128)
    runner.register_hook(WeightNoise(0.1))
    runner.fit(batches(*data))
    yield tested("weight noise", runner)

    runner = make(epochs=40, hidden=128)
    hooks(runner.optimizer_step).around(sharpness_aware)
    runner.fit(batches(*data))
    yield tested("sharpness-aware", runner)


def show_attack() -> Iterator[Row]:
    """Each pixel changes by 0.1, in the direction that harms the model most: test images still classified correctly"""
    for name in ("plain", "gradient penalty"):
        runner = make(epochs=20)
        if name != "plain":
            hooks(runner.forward).post(gradient_penalty)
        runner.fit(batches(*digits("train")))
        images, labels = digits("test")
        slopes = grad(lambda x, model=runner.model: cross_entropy(model(x), labels).value)(images)
        share = right(runner.model, images + 0.1 * np.sign(detach(slopes)), labels)
        yield Row(name, f"{share:6.1%}  ({right(runner.model, images, labels):.1%} untouched)", share)


def show_half_of_the_work() -> Iterator[Row]:
    """Ten epochs on half of each batch: training images still classified wrongly"""

    def any_half(batch: Any) -> Args:
        return Args(batch=tuple(part[: len(part) // 2] for part in batch))

    images, labels = digits("train")
    for name, hook in (("any half", any_half), ("the harder half", harder_half)):
        runner = make(epochs=10)
        hooks(runner.train_iter).pre(hook)
        runner.fit(batches(images, labels))
        wrong = round(len(images) * (1 - right(runner.model, images, labels)))
        yield Row(name, f"{wrong:3}", wrong / 50)


def show_broken_image() -> Iterator[Row]:
    """One image in 1,442 has a pixel that is NaN: test images classified correctly"""
    images, labels = digits("train")
    images[700, 7] = np.nan
    for name in ("plain", "steps skipped"):
        runner = make(epochs=10)
        if name != "plain":
            hooks(runner.optimizer_step).pre(skip_broken)
        runner.fit(batches(images, labels))
        yield tested(name, runner)


def in_half(result: Any) -> Any:
    """After each layer: round the outputs, and so the gradients on their way back, to half precision."""
    return result.astype(np.float16).astype(np.float32)


def show_half_precision() -> Iterator[Row]:
    """A loss divided by 100,000, with half precision between layers: gradients that are 0"""

    def small(outputs: Any, labels: Any) -> Any:
        return cross_entropy(outputs, labels) / 100_000

    def count(model: Any) -> None:
        zeros.append(np.mean([float((parameter.grad == 0).mean()) for parameter in trained(model)]))

    for name in ("single precision", "half precision", "static scale", "dynamic scale"):
        runner, zeros, note = make(epochs=10, loss=small, rate=2_000), list[Any](), ""
        hooks(runner.optimizer_step).pre(count)
        if name == "static scale":
            hooks(runner.backward).pre(scale_up)
            hooks(runner.optimizer_step).pre(scale_down)
        scaler = runner.register_hook(LossScale(2.0**40)) if name == "dynamic scale" else None
        if name == "single precision":
            runner.fit(batches(*digits("train")))
        else:
            with weave("aspecthook.training.numpy:Linear.forward", post=in_half):
                runner.fit(batches(*digits("train")))
        if scaler is not None:
            note = f", {scaler.skipped} steps skipped, scale 2**40 to 2**{math.log2(scaler.scale):.0f}"
        share = float(np.mean(zeros))
        accuracy = right(runner.model, *digits("test"))
        yield Row(name, f"{share:6.1%}  ({accuracy:.1%} right{note})", share)


TRICKS: dict[str, Callable[[], Iterator[Row]]] = {
    "labels": show_noisy_labels,
    "penalty": show_attack,
    "mining": show_half_of_the_work,
    "nan": show_broken_image,
    "scaling": show_half_precision,
}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tricks", nargs="*", help=f"which to show: {', '.join(TRICKS)}; all of them unless given")
    options = parser.parse_args(argv)
    unknown = [name for name in options.tricks if name not in TRICKS]
    if unknown:
        parser.error(f"no such trick: {', '.join(unknown)}; there are {', '.join(TRICKS)}")
    for name in options.tricks or TRICKS:
        print(f"{TRICKS[name].__doc__}\n")
        for row in TRICKS[name]():
            print(f"  {row.name:<17}{'#' * round(30 * row.share):<31}{row.text}", flush=True)
        print()


if __name__ == "__main__":
    main()
