"""The command `aspecthook train`: its options, its output and its exit status."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from aspecthook._errors import AspecthookError, nearest

_REQUIRED = ("numpy", "autograd", "safetensors", "xxhash", "rich", "matplotlib", "jinja2")  # the extra `train`

_DESCRIPTION = """\
Train a classifier of images. Without options it trains on the handwritten digits that come with the package.
Checkpoints, logs, curves and a report go into one folder. A run that was interrupted can be resumed.
"""
_EXAMPLES = """\
examples:
  aspecthook train                                      25 epochs with NumPy, which take some seconds
  aspecthook train --epochs 5 --set lr.policy=step      another schedule of the learning rate
  aspecthook train --backend torch --set model.type=cnn --work-dir work_dirs/cnn
  aspecthook train --resume                             continue the run in work_dirs/digits
  aspecthook train --print-config > run.toml            write all settings to a file, to edit them
  aspecthook train --config run.toml                    train with them

What is trusted as code: --config and --set, which may name classes and functions to import and call, and the plugins
that are installed. What is not: checkpoints, the names of runs and of metrics, and the config.json in a folder that is
resumed. That may name no imports, files or addresses, unless --trust-config is given.
"""


class _CommandLine(argparse.ArgumentParser):
    """A command line that says in one line what is wrong with it, as the other commands do."""

    def error(self, message: str) -> NoReturn:
        """End with the status 2."""
        words = message.partition("unrecognized arguments: ")[2].split()
        near = nearest(words[0], [*self._option_string_actions]) if words else ""
        self.exit(2, f"{self.prog}: {message}{near}; see {self.prog} --help\n")


def parser(prog: str = "aspecthook train") -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    command_line = _CommandLine(
        prog=prog,
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = command_line.add_argument
    add(
        "--config",
        type=Path,
        metavar="FILE",
        help="a TOML file whose settings override the defaults, or the config.json of an earlier run",
    )
    add(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override one setting, such as lr.policy=cosine; may be repeated",
    )
    add("--backend", choices=("numpy", "torch"), help="the library to compute with (default: numpy)")
    add("--epochs", type=int, metavar="N", help="the number of epochs to train (default: 25)")
    add("--work-dir", metavar="DIR", help="the folder to write to (default: work_dirs/digits)")
    add(
        "--resume",
        nargs="?",
        const=True,
        default=False,
        metavar="CHECKPOINT",
        help="continue from this checkpoint, or from the furthest in the folder, with the settings of that run",
    )
    add(
        "--trust-config",
        action="store_true",
        help="with --resume: trust the config.json in the folder as code, since you have written it",
    )
    add(
        "--overwrite",
        action="store_true",
        help="begin in a folder that holds a run, whose checkpoints are set aside: a new run, or the one of --resume",
    )
    add("--print-config", action="store_true", help="print the settings and exit")
    add("--traceback", action="store_true", help="print the traceback of an error")
    return command_line


def use_one_thread() -> None:
    """Make NumPy compute in one thread, unless the environment says otherwise. Call it in a process of our own.

    The matrices are small: on a busy machine, threads that wait for each other make the training ten times as slow.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main(argv: Sequence[str] | None = None, prog: str = "aspecthook train") -> int:
    """Run the command. Return its exit status: 0, 1 if the training fails, 2 if it cannot begin, 130 on Ctrl-C."""
    options = parser(prog).parse_args(argv)
    try:
        return _run(options, prog)
    except KeyboardInterrupt as interrupt:
        print("\n" + "\n  ".join(["interrupted", *getattr(interrupt, "__notes__", ())]), file=sys.stderr)
        return 128 + signal.SIGINT
    except (AspecthookError, ModuleNotFoundError, OSError) as error:
        if options.traceback:
            raise
        print(f"{prog}: {_message_of(error)}", file=sys.stderr)
        return 2 if isinstance(error, (ValueError, TypeError, ModuleNotFoundError)) else 1


def _message_of(error: Exception) -> str:
    """Return the message of an error with its notes."""
    message = str(error)
    if isinstance(error, OSError) and error.strerror:
        message = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return "\n  ".join([message, *getattr(error, "__notes__", ())])


def _note_checkpoint(error: BaseException, folder: Path, prog: str, config: object) -> None:
    """Add to an error how to continue, if there is a checkpoint to continue from."""
    from aspecthook.training.checkpoint._format import newest

    with suppress(AspecthookError, OSError):
        saved = newest(folder)
        if saved is not None:
            own = f" --config {shlex.quote(str(config))}" if config is not None else ""
            command = f"{prog} --resume{own} --work-dir {shlex.quote(str(folder))}"
            error.add_note(f"the newest checkpoint is {saved}; continue with: {command}")


def _run(options: argparse.Namespace, prog: str) -> int:
    for name in _REQUIRED:
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"{name} is not installed: pip install 'aspecthook[train]'", name=name)
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

    folder = Path(settings["run"]["work_dir"])
    try:
        outcome = train(settings, resume=options.resume, overwrite=options.overwrite)
    except (OSError, KeyboardInterrupt) as error:
        _note_checkpoint(error, folder, prog, options.config)
        raise
    tested = f" ({outcome.checkpoint.name})" if outcome.checkpoint is not None else ""
    print(f"accuracy on {outcome.images} test images: {outcome.accuracy:.2%}{tested}, after {outcome.seconds:.1f} s")
    print(
        f"results are in {folder}" + (f": open {folder / 'report.html'}" if (folder / "report.html").exists() else "")
    )
    return 0


def _changes(options: argparse.Namespace) -> list[str]:
    given: dict[str, Any] = {"backend": options.backend, "max_epochs": options.epochs, "work_dir": options.work_dir}
    return [*[f"run.{key}={json.dumps(value)}" for key, value in given.items() if value is not None], *options.set]


def _settings(options: argparse.Namespace, changes: list[str]) -> dict[str, Any]:
    """Return the settings: those of the run that is resumed, unless a file is given."""
    from ._settings import load_settings

    settings = load_settings(options.config, changes)
    if not options.resume or options.config is not None:
        return settings
    from aspecthook.training.checkpoint._files import own_path

    before = own_path(Path(settings["run"]["work_dir"]), "config.json")
    if before.exists():
        return load_settings(before, changes, trusted=options.trust_config)
    return settings
