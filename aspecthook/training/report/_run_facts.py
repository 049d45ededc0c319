"""The parts of a report that are not numbers: the hooks of a run, its checkpoints, settings and environment."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import metadata
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from aspecthook._errors import brief
from aspecthook.training.backends._state import is_any
from aspecthook.training.hooks._checkpoint import CheckpointHook
from aspecthook.training.hooks._evaluation import EvalHook
from aspecthook.training.loop._names import named
from aspecthook.training.loop._run import Run

Facts = list[tuple[str, str]]

_LONGEST = 2000  # characters of a setting
_MOST_SETTINGS = 400


def hooks_of(runner: Run) -> Facts:
    """Return the names of the hooks of a run, and their priorities."""
    return [(name, str(getattr(hook, "priority", ""))) for name, hook in named(runner)]


# Checkpoints


class Saved(NamedTuple):
    """A checkpoint on disk."""

    path: str
    size: str
    note: str


def checkpoints_of(runner: Run) -> list[Saved]:
    """Return the checkpoints that the hooks of a run keep, the best ones first."""
    savers: list[Any] = [hook.saver if isinstance(hook, EvalHook) else hook for hook in runner.hooks]
    found: list[Saved] = []
    for saver in savers:
        if isinstance(saver, CheckpointHook):
            if saver.best is not None and saver.watched is not None:
                found.append(_saved(saver.best, f"the best {saver.watched.name}, {saver.watched.best:g}"))
            found += [_saved(path, "") for path in reversed(saver.kept)]
    return list(dict.fromkeys(found))


def _saved(path: Path, note: str) -> Saved:
    try:
        size = f"{path.stat().st_size / 1e6:.2f} MB"
    except OSError:
        size = "deleted"
    return Saved(str(path), size, note)


# Secrets

REDACTED = "(redacted)"
_SECRET = re.compile(
    r"\b(apikey|auth|authorization|bearer|cookie|credentials?|passphrase|passwd|password|pwd|secrets?|token"
    r"|(access|account|api|encryption|private|signing|ssh) keys?)\b"
)


def is_secret(name: str) -> bool:
    """Whether a setting or an option is a secret by its name: ``api_token``, ``AWSSecretKey``; not ``max_tokens``."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return _SECRET.search(" ".join(words).lower()) is not None


def redacted_words(command: Sequence[str]) -> list[str]:
    """Return the words of a command line, without the values that are secrets by the names of their options."""
    shown: list[str] = []
    secret = False  # whether the word is the value of the option before it
    for word in command:
        name, equals, value = word.partition("=")
        if secret and not word.startswith("--"):
            shown.append(REDACTED)
        elif equals and value and is_secret(name):
            shown.append(f"{name}={REDACTED}")
        else:
            shown.append(_without_password(word))
        secret = not equals and word.startswith("-") and is_secret(name)
    return shown


def _without_password(text: str) -> str:
    """Return a text without the passwords of its URLs."""
    return re.sub(r"(\w://[^/@:\s]*:)[^/@\s]+@", rf"\g<1>{REDACTED}@", text)


# Settings


def settings_of(config: Mapping[str, Any]) -> Facts:
    """Return a config as rows of a dotted name and a value, without the values that are secrets by their names."""
    rows = list(_flat(config, "")) if config else []
    if len(rows) > _MOST_SETTINGS:
        rows = [*rows[:_MOST_SETTINGS], ("…", f"and {len(rows) - _MOST_SETTINGS} more")]
    return rows


def _flat(value: Any, name: str) -> Iterator[tuple[str, str]]:  # Any: a setting
    if is_secret(name.rpartition(".")[2]) and _text(value) not in ("", "null", "false"):
        yield name, REDACTED
    elif is_any(value, Mapping) and value:
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else str(key))
    elif is_any(value, list, tuple) and any(is_any(one, Mapping) for one in value):
        for place, inner in enumerate(value):
            yield from _flat(inner, f"{name}[{place}]")
    else:
        yield name, _without_password(_text(value))


def _text(value: object) -> str:
    if isinstance(value, str):
        text = value
    else:
        try:
            text = json.dumps(value)
        except (TypeError, ValueError):
            text = brief(value, _LONGEST)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


# Environment


def environment_of(runner: Run, *, command: bool = True, git_status: bool = False) -> Facts:
    """Return the environment of a run; a fact that is unknown is left out."""
    rows = [
        ("command", shlex.join(redacted_words(sys.orig_argv)) if command else ""),
        ("folder", _folder()),
        ("git commit", commit(status=git_status)),
        ("seed", "none" if runner.seed is None else str(runner.seed)),
        ("model", _model(runner)),
        ("optimizer", _optimizer(runner.optimizer)),
        ("backend", _device(runner)),
        ("ranks", str(runner.world_size)),
        ("Python", f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}"),
        ("platform", platform.platform()),
        ("CPUs", _cpus()),
        ("packages", ", ".join(versions())),
    ]
    return [(name, value) for name, value in rows if value]


def _folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # it was deleted
        return ""


def _cpus() -> str:
    count = os.cpu_count()
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else count
    return f"{count}" + (f", of which {usable} may be used" if usable != count else "")


def versions() -> list[str]:
    """Return the versions of this package, and of the packages it works with that are imported."""
    names = ("aspecthook", "numpy", "autograd", "safetensors", "torch", "jax", "keras", "matplotlib")
    return [found for name in names if name in sys.modules and (found := version(name))]


@cache
def version(name: str) -> str:
    """Return the name and the version of a package; an empty string if it is not installed."""
    try:
        return f"{name} {metadata.version(name)}"
    except metadata.PackageNotFoundError:
        return ""


def commit(*, status: bool = False) -> str:
    """Return the git commit of the current folder; an empty string if there is none.

    Whether there are changes is looked up only if `status` is set, since ``git status`` may run what the configuration
    of the repository names, such as the filters of its files.
    """
    revision = _git("rev-parse", "--verify", "--end-of-options", "HEAD")[:12]  # the whole hash is read from no object
    if not revision or not status:
        return revision
    return revision + (", with changes" if _git("status", "--porcelain", "--untracked-files=no") else "")


# What the configuration of a repository can make git run: a monitor of files, hooks, and helpers that fetch.
_NOTHING_RUN = ("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "-c", "protocol.allow=never")


def _git(*words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", *_NOTHING_RUN, *words],
            env={**os.environ, "GIT_NO_LAZY_FETCH": "1"},
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _model(runner: Run) -> str:
    name = type(runner.model).__name__
    try:
        count = sum(prod(map(int, one.shape)) for one in runner.backend.parameters(runner.model).values())
    except Exception:  # not every model has parameters
        return name
    return f"{name}, {count:,} parameters" if count else name


def _optimizer(optimizer: Any) -> str:
    if optimizer is None:
        return ""
    groups: list[Mapping[str, Any]] = list(getattr(optimizer, "param_groups", ()))
    settings = [
        (name, value) for group in groups[:1] for name, value in group.items() if is_any(value, int, float, tuple)
    ]
    # Without the learning rate, which has a curve.
    shown = ", ".join(f"{name}={_text(value)}" for name, value in settings if not name.endswith("lr"))
    return f"{type(optimizer).__name__}({shown})"


def _device(runner: Run) -> str:
    if runner.backend.name != "torch":
        return runner.backend.name
    parameters = list(runner.backend.parameters(runner.model).values())
    device = str(parameters[0].device) if parameters else "cpu"
    torch: Any = sys.modules.get("torch")
    if not device.startswith("cuda"):
        return f"torch on {device}, {torch.get_num_threads()} threads"
    return f"torch on {device}, {torch.cuda.get_device_name(parameters[0].device)}"
