"""The command `aspecthook train`: what it prints, and its exit status."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from aspecthook._errors import AspecthookError
from aspecthook.training.checkpoint._files import own_path, path_of

from ._settings import default_text, load_settings


def run(config: str | None, changes: list[str], *, resume: str | None, overwrite: bool, print_config: bool) -> int:
    """Train. Return the exit status: 0, 1 if the training fails, 2 if it cannot begin, 130 on Ctrl-C."""
    try:
        if print_config:
            print(default_text(), end="")
        else:
            _train(config, changes, resume, overwrite=overwrite)
    except KeyboardInterrupt as interrupt:
        return _fail("interrupted", interrupt, 130)
    except ModuleNotFoundError as error:
        return _fail(f"aspecthook train: {error.name} is not installed: pip install {error.name}", error, 2)
    except (AspecthookError, OSError) as error:
        return _fail(f"aspecthook train: {error}", error, 2 if isinstance(error, (ValueError, TypeError)) else 1)
    return 0


def _fail(message: str, error: BaseException, status: int) -> int:
    print("\n  ".join([message, *getattr(error, "__notes__", ())]), file=sys.stderr)
    return status


def _train(config: str | None, changes: list[str], resume: str | None, *, overwrite: bool) -> None:
    from ._train import train

    for name in ("safetensors", "xxhash"):  # now, since they are first used when an epoch has been trained
        import_module(name)
    settings = load_settings(config, changes)
    if resume is not None and config is None:  # with the settings of the run that is resumed, and in its folder
        place = Path(resume) if resume else path_of("[run]", settings["run"]["work_dir"], "work_dir")
        if (saved := own_path(place if place.is_dir() else place.parent, "config.json")).exists():
            settings = load_settings(saved, changes, trusted=False)
    outcome = train(settings, resume=resume, overwrite=overwrite)
    folder = Path(settings["run"]["work_dir"])
    tested = f" ({outcome.checkpoint.name})" if outcome.checkpoint is not None else ""
    print(f"accuracy on {outcome.images} test images: {outcome.accuracy:.2%}{tested}")
    print(f"results are in {folder}", *[f"open {report}" for report in folder.glob("report.html")], sep=": ")
