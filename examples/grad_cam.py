"""See what a network looks at: Grad-CAM on handwritten digits, from one captured layer, as a picture.

A small convolutional network is trained for a few seconds. For one image of each digit, its last features are weighted
by their gradients (Selvaraju et al. 2017, arXiv:1610.02391): the red parts of the second row speak for the network's
answer, those of the third row for its second-best one. The network itself is unchanged: `capture` adds hooks, and
removes them at the end of its block.

pip install '.[torch]' matplotlib
python examples/grad_cam.py                        # writes work_dirs/grad_cam.png
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from aspecthook.torch import capture
from aspecthook.training import Runner
from aspecthook.training.data import ArrayDataset, DataLoader, load_digits


class Network(nn.Module):
    """Three convolutions; the answer is computed from the mean of the last features over the whole image."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *(nn.Conv2d(1, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(inplace=True)),
            *(nn.Conv2d(24, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU(inplace=True)),
            *(nn.Conv2d(48, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU(inplace=True)),
        )
        self.head = nn.Linear(48, 10)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.features(images.unsqueeze(1)).mean((2, 3)))


def trained(epochs: int) -> Network:
    """Train a network."""
    torch.manual_seed(0)
    model = Network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    runner = Runner(model, optimizer=optimizer, loss=nn.functional.cross_entropy, max_epochs=epochs, seed=0)
    runner.fit(DataLoader(ArrayDataset(*load_digits("train")), batch_size=64, shuffle=True))
    return model.eval()


def grad_cam(model: nn.Module, layer: str, images: Tensor, classes: Tensor) -> Tensor:
    """Return how much each place of each image speaks for a class, from 0 to 1."""
    with capture(model, layer, gradients=True) as seen:
        model(images).gather(1, classes[:, None]).sum().backward()
    weights = seen[layer].gradient.mean((2, 3), keepdim=True)
    maps = (weights * seen[layer].output).sum(1).relu()  # what speaks for the class, not what speaks against it
    return maps / maps.amax((1, 2), keepdim=True).clamp(min=1e-12)


def draw(path: Path, images: Tensor, rows: list[tuple[Tensor, Tensor]]) -> None:
    """Draw the images, and below them the maps for each row of classes."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(len(images), 3.4), layout="constrained")
    grid = figure.subplots(1 + len(rows), len(images))
    for column, image in enumerate(images):
        grid[0, column].imshow(image.numpy(), cmap="gray_r")
        for row, (classes, maps) in enumerate(rows, 1):
            here = maps[column].numpy()
            grid[row, column].imshow(image.numpy(), cmap="gray_r", alpha=0.5)
            grid[row, column].imshow(here, cmap="autumn_r", alpha=0.85 * here, interpolation="bilinear")
            grid[row, column].set_title(f"for {classes[column]}", fontsize=8, pad=2)
    for axes in grid.flat:
        axes.set_axis_off()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=6, help="how many epochs to train (6)")
    parser.add_argument("--out", type=Path, default=Path("work_dirs/grad_cam.png"), help="the picture")
    options = parser.parse_args()
    model = trained(options.epochs)
    before = {name: dict(vars(module)) for name, module in model.named_modules()}
    images, labels = (torch.from_numpy(one) for one in load_digits("test"))
    with torch.no_grad():
        scores = model(images)
    print(f"accuracy on {len(labels)} images held out: {(scores.argmax(1) == labels).float().mean():.1%}")
    chosen = torch.stack([(labels == digit).nonzero()[0, 0] for digit in range(10)])
    first, second = scores[chosen].topk(2).indices.T
    rows = [(classes, grad_cam(model, "features", images[chosen], classes)) for classes in (first, second)]
    draw(options.out, images[chosen], rows)
    print(f"the picture is in {options.out}")
    share = float((rows[0][1] * (images[chosen] > 0.25)).sum() / rows[0][1].sum())
    print(f"of what speaks for its answers, {share:.0%} lies on the strokes")
    same = all(vars(module) == before[name] for name, module in model.named_modules())
    print(f"is the network as it was? {same}")


if __name__ == "__main__":
    main()
