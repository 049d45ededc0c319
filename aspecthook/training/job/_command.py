"""The command `aspecthook train`: what is typed, and what is said in the end."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aspecthook._errors import AspecthookError

_DESCRIPTION = """\
Train a classifier of images: the handwritten digits that come with the package, unless a config says otherwise.
It writes checkpoints, logs, curves and a report into a folder, and can go on after any end.
"""
_EXAMPLES = """\
A config may name classes and functions by import paths, which are imported and called: use only those that you trust as
you would a script. Checkpoints are data.

examples:
  aspecthook train                                      25 epochs on NumPy, some seconds
  aspecthook train --set run.max_epochs=5 --set lr.policy=step
  aspecthook train --backend torch --set model.type=cnn --work-dir work_dirs/cnn
  aspecthook train --resume                             go on where it was interrupted
  aspecthook train --print-config > run.toml            all settings, to be changed
  aspecthook train --config run.toml
"""


def parser(prog: str = "aspecthook train") -> argparse.ArgumentParser:
    """Give the parser of the command line."""
    made = argparse.ArgumentParser(
        prog=prog,
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = made.add_argument
    add(
        "--config",
        type=Path,
        metavar="FILE",
        help="settings over the defaults, as TOML (or the config.json of a run); trusted as code, as is --set",
    )
    add(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="one setting over all others, such as lr.policy=cosine; may be given often",
    )
    add("--backend", choices=("numpy", "torch"), help="the library that computes (numpy); run.backend")
    add("--epochs", type=int, metavar="N", help="how long to train (25); run.max_epochs")
    add("--work-dir", metavar="DIR", help="the folder for what the run writes (work_dirs/digits); run.work_dir")
    add(
        "--resume",
        nargs="?",
        const=True,
        default=False,
        metavar="CHECKPOINT",
        help="go on from a checkpoint: the newest in the folder, or that file; settings are those of the run, whose "
        "config.json is trusted as code",
    )
    add("--overwrite", action="store_true", help="begin anew in a folder that holds a run")
    add("--print-config", action="store_true", help="print the settings and do nothing")
    add("--traceback", action="store_true", help="if it fails, show where")
    return made


def alone() -> None:
    """Have NumPy compute in one thread, unless the environment says otherwise; for a process of our own.

    The matrices are small: threads that wait for each other cost more than they save, on a busy machine ten times.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main(argv: Sequence[str] | None = None, prog: str = "aspecthook train") -> int:
    """Run the command, and give its exit status: 0, 1 if the training fails, 2 if it cannot begin, 130 on Ctrl-C."""
    options = parser(prog).parse_args(argv)
    try:
        return _run(options)
    except KeyboardInterrupt:
        print(f"\ninterrupted; go on with: {prog} --resume{_where(options)}", file=sys.stderr)
        return 128 + signal.SIGINT
    except (AspecthookError, ModuleNotFoundError, OSError) as error:
        if options.traceback:
            raise
        print(f"{prog}: {_said(error)}", file=sys.stderr)
        return 2 if isinstance(error, (ValueError, ModuleNotFoundError)) else 1


def _where(options: argparse.Namespace) -> str:
    return f" --work-dir {options.work_dir}" if options.work_dir else ""


def _said(error: Exception) -> str:
    """Give the message of an error in one piece, with what it has been noted to belong to."""
    if isinstance(error, OSError) and error.strerror:
        what = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
        return f"{what}; what was saved before stands, go on with --resume when there is room, or access, again"
    return "\n  ".join([str(error), *getattr(error, "__notes__", ())])


def _run(options: argparse.Namespace) -> int:
    from aspecthook.training._needs import needed

    needed()
    from ._settings import default_text

    changes = _changes(options)
    if options.print_config and not changes and options.config is None:
        print(default_text(), end="")
        return 0
    settings = _settings(options, changes)
    if options.print_config:
        print(json.dumps(settings, indent=2, ensure_ascii=False))
        return 0
    from ._train import train

    outcome = train(settings, resume=options.resume, overwrite=options.overwrite)
    folder = Path(settings["run"]["work_dir"])
    tested = f" ({outcome.checkpoint.name})" if outcome.checkpoint is not None else ""
    print(
        f"accuracy on {outcome.images} images held out: {outcome.accuracy:.2%}{tested}, after {outcome.seconds:.1f} s"
    )
    print(
        f"everything is in {folder}" + (f": open {folder / 'report.html'}" if (folder / "report.html").exists() else "")
    )
    return 0


def _changes(options: argparse.Namespace) -> list[str]:
    given: dict[str, Any] = {"backend": options.backend, "max_epochs": options.epochs, "work_dir": options.work_dir}
    return [*[f"run.{key}={json.dumps(value)}" for key, value in given.items() if value is not None], *options.set]


def _settings(options: argparse.Namespace, changes: list[str]) -> dict[str, Any]:
    """Give the settings; of a run that is resumed those that it had, unless a file is given."""
    from ._settings import load_settings

    settings = load_settings(options.config, changes)
    before = Path(settings["run"]["work_dir"], "config.json")
    if options.resume and options.config is None and before.exists():
        return load_settings(before, changes)
    return settings
