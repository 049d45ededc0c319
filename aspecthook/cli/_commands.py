"""The commands of `aspecthook` and their options."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import cache
from pkgutil import iter_modules
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NoReturn

import click

from aspecthook import __version__
from aspecthook._errors import AspecthookError
from aspecthook._foreign.places import is_ours

from ._program import Program, end_as

if TYPE_CHECKING:
    from ._report import View

_PROGRAM = "program"  # where a command finds the words after `--`, in the `meta` of its context


def run(arguments: list[str]) -> int:
    """Run a command with what the user has given. Return its exit status: 2 for bad input, which one line explains."""
    name = "aspecthook"
    try:
        status = _aspecthook.main(arguments, prog_name=name, standalone_mode=False)
    except click.ClickException as error:
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else name
        return _refuse(f"{where}: {error.format_message()}", f"see {where} --help", error.exit_code)
    except (AspecthookError, OSError) as error:
        return _refuse(f"{name}: {error}", "", 2)
    except click.Abort:
        return 130
    return status if isinstance(status, int) else 0


def _refuse(message: str, advice: str, status: int) -> int:
    line = " ".join(message.split()).removesuffix(".")
    print(f"{line}; {advice}" if advice else line, file=sys.stderr)
    return status


class _OfProgram(click.Command):
    """A command that is given a program: what follows ``--``, or begins with the first word that ends with ``.py``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        place = next((place for place, word in enumerate(args) if word == "--" or word.endswith(".py")), len(args))
        ctx.meta[_PROGRAM] = args[place + (args[place : place + 1] == ["--"]) :]
        return super().parse_args(ctx, args[:place])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "-- PROGRAM [ARGUMENT]..."]


def _program() -> Program:
    return Program(click.get_current_context().meta[_PROGRAM])


_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(context_settings=_SETTINGS, no_args_is_help=False)
@click.version_option(__version__, message="aspecthook %(version)s")
def _aspecthook() -> None:
    """Hooks before, after and around any Python function.

    \b
    aspecthook trace app.py                         show what a program calls
    aspecthook run --config aspects.toml -- app.py  weave hooks from a file into a program
    aspecthook match 'shop.*:*'                     list what a pointcut selects
    """


# Paths are strings here: `pathlib` takes a while to load, and the program has to wait for that.
def _check_outputs(_: click.Context, __: click.Parameter, paths: tuple[str, ...]) -> tuple[str, ...]:
    for path in paths:
        if not path.endswith((".html", ".json", ".jsonl")):
            raise click.BadParameter(f"{path!r} does not end with .html, .json or .jsonl; name it so")
        if not os.path.isdir(folder := os.path.dirname(path) or "."):
            raise click.BadParameter(f"there is no folder {folder!r}; make it first")
    return paths


# What a pointcut and a file say is checked where they are woven, before the first line of the program runs.
_targets = click.argument("targets", nargs=-1, metavar="[POINTCUT]...")
_CONFIG_FILE = click.Path(exists=True, dir_okay=False, resolve_path=True)

_OPTIONS = (
    click.option("--redact", multiple=True, metavar="NAME", help="Show no argument of this name, such as '*token*'."),
    click.option("--max-depth", type=click.IntRange(1), metavar="N", help="Record only this many levels of the tree."),
    click.option("--arguments/--no-arguments", default=True, help="Record values too [default], or only times."),
    click.option("--lines", type=click.IntRange(0), default=200, metavar="N", help="Show this many lines live [200]."),
    click.option(
        *("-o", "--output", "outputs"),
        multiple=True,
        type=click.Path(dir_okay=False, writable=True),
        callback=_check_outputs,
        metavar="FILE",
        help="Write a page for a browser (.html), a trace for ui.perfetto.dev (.json), or JSON lines (.jsonl).",
    ),
)


def _recording(command: Callable[..., int]) -> Callable[..., int]:
    """Return a command with the options that say what is recorded, shown and written."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@_aspecthook.command("trace", short_help="Run a program and show what it calls.", cls=_OfProgram)
@_targets
@_recording
@click.option("--last", type=click.IntRange(1), metavar="N", help="Keep only the last N calls of each process.")
def _trace(targets: tuple[str, ...], lines: int, outputs: tuple[str, ...], **options: Any) -> int:
    """Run a program and show what it calls: the tree while it runs, then a table of functions, on standard error.

    Without a pointcut, it shows the program's own code: its file, and the modules and packages in the same folder (for
    -m, -c and commands such as pytest, the current folder).

    A pointcut is 'module:function'. Both may be globs; commas join several, and '!' excludes.

    Private and dunder functions need their own pointcut: 'shop:_*', 'shop:Cart.__*', 'shop:Cart.__init__'. So do
    setters and deleters: 'shop:Cart.total.fset'. Calls that a module makes while it is imported are not recorded.

    The program is not changed: it has its own arguments, output, signals and exit status. Its children are traced too.

    \b
    examples:
      aspecthook trace app.py
      aspecthook trace 'shop.*:*' -- app.py --port 8000
      aspecthook trace '__main__:*' --redact '*token*' -o calls.html -- app.py
      aspecthook trace 'shop:Cart.*' --max-depth 3 -o calls.json -- -m shop
      aspecthook trace 'shop.*:*, !shop.views:*' -- pytest tests
    """
    program = _program()
    chosen = targets or (own_code(program.path),)
    with TemporaryDirectory(prefix="aspecthook-") as folder:

        @cache
        def view() -> View:
            from ._report import View  # as the program starts, which need not wait for that

            return View(folder, lines)

        # Where no file is written, single calls are seen only in the tree, which has the first ones.
        every = outputs or options["last"] or options["max_depth"]
        settings = {**options, "targets": chosen, "to": folder, "whole": None if every else 10_000 + 10 * lines}
        status = program.watch({"trace": settings}, lambda: view().look())
        if any(name.endswith(".jsonl") for name in os.listdir(folder)):  # there is none if it did not start
            view().report(targets or [f"what the program has in {program.path}"], outputs)
    return end_as(status)


def own_code(folder: str) -> str:
    """Return the pointcut of what runs as `__main__`, and of the modules and packages in a folder."""
    found = [module.name for module in iter_modules([folder]) if not is_ours(module.name)]
    names = [name for name in found if name.isidentifier()]  # others can be run, and not imported
    return ", ".join(["__main__:*", *[f"{name}:*, {name}.*:*" for name in names]])


_SECONDS = click.FloatRange(0, min_open=True)
_of_process = click.argument("process", metavar="PID", type=int)


@_aspecthook.command("attach", short_help="Trace a running process.")
@_of_process
@click.argument("targets", nargs=-1, required=True, metavar="POINTCUT...")
@click.option("--for", "seconds", type=_SECONDS, metavar="SECONDS", help="Detach after this time; otherwise Ctrl-C.")
@_recording
def _attach(process: int, targets: tuple[str, ...], **given: Any) -> int:
    """Trace a running process. Both processes need Python 3.14 or later.

    The program is not restarted, and detaching leaves nothing behind in it.

    \b
    examples:
      aspecthook attach 4711 'shop.*:*' --for 30
      aspecthook attach 4711 'shop.*:*' --redact '*token*' -o calls.html
      aspecthook detach 4711
    """
    from ._attach import attach

    options = {name: given.pop(name) for name in ("redact", "max_depth", "arguments")}
    return attach(process, {"targets": targets, "options": options}, **given)


@_aspecthook.command("detach", short_help="Remove what was attached to a running process.")
@_of_process
def _detach(process: int) -> int:
    """Remove from a running process whatever was attached to it.

    \b
    example:
      aspecthook detach 4711
    """
    from ._attach import detach

    return detach(process)


@_aspecthook.command("run", short_help="Run a program with hooks from a file woven into it.", cls=_OfProgram)
@click.option("--config", type=_CONFIG_FILE, required=True, help="A TOML file that says what to weave.")
def _run(config: str) -> NoReturn:
    """Run a program with hooks from a TOML file woven into it and into its child processes.

    \b
    examples:
      aspecthook run --config aspects.toml -- app.py --port 8000
      aspecthook run --config aspects.toml -- gunicorn shop:app

    \b
    aspects.toml:
      [[weave]]
      target = "requests.sessions:Session.send"
      aspect = "retry"                  # or 'module:name'
      arguments = { attempts = 3 }
      priority = "HIGH"                 # and the other options of hooks
    """
    _program().execute({"config": config})


@_aspecthook.command("list", short_help="Run a program and print its mount points.", cls=_OfProgram)
@click.option("--config", type=_CONFIG_FILE, help="Weave the hooks of this file first, as `run` does.")
def _list(config: str | None) -> NoReturn:
    """Run a program and print its mount points and their chains when it ends, on standard error.

    \b
    examples:
      aspecthook list -- app.py
      aspecthook list --config aspects.toml -- -m shop
    """
    _program().execute({"list": True, "config": config})


@_aspecthook.command("explain", short_help="Print what a call of a mount point does.")
@click.argument("target", metavar="MODULE:FUNCTION")
def _explain(target: str) -> int:
    """Print what a call of a mount point does: its hooks, and the source that runs.

    \b
    example:
      aspecthook explain shop.cart:Cart.save
    """
    from aspecthook import explain
    from aspecthook.training.registry._configs import import_path

    if ":" not in target:
        raise click.BadParameter(f"{target!r} is not of the form 'module:function', such as 'shop.cart:Cart.save'")
    sys.path.insert(0, os.getcwd())  # as `python -m` does
    explain(import_path(target, "explain"))
    return 0


@_aspecthook.command("match", short_help="List what a pointcut selects and leaves out.")
@click.argument("pointcut")
@click.option("--all", "everything", is_flag=True, help="List what is left out too, with the reasons.")
def _match(pointcut: str, *, everything: bool) -> int:
    """List the functions that a pointcut selects; the modules that it names are imported.

    A pointcut is 'module:function'. Both may be globs; commas join several, and '!' excludes.

    \b
    examples:
      aspecthook match 'shop.*:*'
      aspecthook match --all 'shop:Cart.*, !shop:Cart.load'
    """
    from ._matching import match

    sys.path.insert(0, os.getcwd())  # as `python -m` does
    found = match(pointcut)
    taken = [one for one in found if one.why is None]
    left = [one for one in found if one.why is not None]
    for one in taken:
        click.echo(f"{one.label}  {one.place}".rstrip())
    hint = "; --all shows why" if left and not everything else ""
    if not found:
        hint = "; only a package whose name is spelt out is imported, as in 'shop:*, shop.*:*'"
    click.echo(f"{len(taken)} selected, {len(left)} left out{hint}")
    for one in left if everything else ():
        click.echo(f"{one.label}: {one.why}")
    return 0 if taken else 1


@_aspecthook.command("doctor", short_help="Print versions, extras, and what would not work here.")
def _doctor() -> int:
    """Print versions, optional packages, and what would not work here.

    \b
    example:
      aspecthook doctor
    """
    from ._doctor import report

    for line in report():
        click.echo(line)
    return 0


@_aspecthook.command("train", short_help="Train an image classifier.")
@click.option(
    "--config", metavar="FILE", help="A TOML file that overrides the defaults, or the config.json of an earlier run."
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override one setting, such as lr.min_lr=1e-4; may be repeated.",
)
@click.option("--backend", type=click.Choice(["numpy", "torch"]), help="The library to compute with [numpy].")
@click.option("--epochs", "max_epochs", type=int, metavar="N", help="The number of epochs to train [25].")
@click.option("--work-dir", metavar="DIR", help="The folder to write to [work_dirs/digits].")
@click.option(
    "--resume",
    is_flag=False,
    flag_value="",
    metavar="[CHECKPOINT]",
    help="Continue from this checkpoint, or from the furthest in the folder, with the settings of that run.",
)
@click.option("--overwrite", is_flag=True, help="Begin in a folder that holds a run, whose checkpoints are set aside.")
@click.option("--print-config", is_flag=True, help="Print the default settings, with comments.")
def _train(
    changes: tuple[str, ...], *, backend: str | None, max_epochs: int | None, work_dir: str | None, **options: Any
) -> int:
    """Train a classifier of images, by default of the handwritten digits that come with the package.

    Checkpoints, logs, curves and a report go into one folder. A run that was interrupted can be resumed.

    \b
    examples:
      aspecthook train                                      25 epochs with NumPy, in a few seconds
      aspecthook train --epochs 5 --set optimizer.lr=0.01
      aspecthook train --resume                             continue the run in work_dirs/digits
      aspecthook train --print-config > run.toml            write all settings to a file, to edit them
      aspecthook train --config run.toml                    train with them

    These are trusted as code: --config and --set, which may name classes and functions to import and call, and the
    installed plugins. These are not: checkpoints, the names of runs and metrics, and the config.json in a folder that
    is resumed, which may not name imports, files or addresses. If that file is your own, name it by --config.
    """
    from aspecthook.training.job._command import run

    given = {"backend": backend, "max_epochs": max_epochs, "work_dir": work_dir}
    first = [f"run.{key}={json.dumps(value)}" for key, value in given.items() if value is not None]
    return run(changes=[*first, *changes], **options)
