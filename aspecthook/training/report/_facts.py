"""What ran: the command, the settings and the environment of a run, without what is secret by its name."""

from __future__ import annotations

import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from math import prod
from typing import Any

from aspecthook._errors import brief
from aspecthook.training.backends._state import is_any
from aspecthook.training.loop._names import named
from aspecthook.training.loop._run import Run

Facts = list[tuple[str, str]]

_LONGEST = 2000  # characters of a setting
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


# Any: a setting, here and below.
def redacted(value: Any, name: str = "") -> Any:
    """Return settings as JSON holds them, without the values that are secrets by their names."""
    given: Any = value  # not narrowed by what follows
    if is_secret(name) and given is not None and given is not False and given != "":
        return REDACTED
    if is_any(value, Mapping):
        return {str(key): redacted(inner, str(key)) for key, inner in value.items()}
    if is_any(value, list, tuple):
        return [redacted(inner) for inner in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return _without_password(value if isinstance(value, str) else brief(value, _LONGEST))[:_LONGEST]


def facts_of(runner: Run, *, command: bool) -> Facts:
    """Return what ran, and where; a fact that is unknown is left out."""
    rows = [
        ("command", shlex.join(redacted_words(sys.orig_argv)) if command else ""),
        ("git commit", commit()),
        ("seed", "none" if runner.seed is None else str(runner.seed)),
        ("model", _model(runner)),
        ("optimizer", _optimizer(runner.optimizer)),
        ("hooks", ", ".join(name for name, _ in named(runner))),
        ("backend", _device(runner)),
        ("ranks", str(runner.world_size)),
        ("Python", f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}"),
        ("platform", f"{platform.platform()}, {os.cpu_count()} CPUs"),
        ("packages", ", ".join(versions())),
    ]
    return [(name, value) for name, value in rows if value]


def versions() -> list[str]:
    """Return the versions of this package, and of the packages it works with that are imported."""
    found: list[str] = []
    for name in ("aspecthook", "numpy", "autograd", "safetensors", "torch", "jax", "keras", "matplotlib"):
        if name in sys.modules:
            try:
                found.append(f"{name} {metadata.version(name)}")
            except metadata.PackageNotFoundError:
                continue
    return found


# What the configuration of a repository can make git run: a monitor of files, hooks, and helpers that fetch.
_NOTHING_RUN = ("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "-c", "protocol.allow=never")


def commit() -> str:
    """Return the git commit of the current folder; an empty string if there is none."""
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", *_NOTHING_RUN, "rev-parse", "--verify", "--end-of-options", "HEAD"],
            env={**os.environ, "GIT_NO_LAZY_FETCH": "1"},
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    return done.stdout.strip()[:12] if done.returncode == 0 else ""


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
    # Without the learning rate, which has a curve.
    settings = [
        f"{name}={value}"
        for group in groups[:1]
        for name, value in group.items()
        if is_any(value, int, float, tuple) and not name.endswith("lr")
    ]
    return f"{type(optimizer).__name__}({', '.join(settings)})"


def _device(runner: Run) -> str:
    if runner.backend.name != "torch":
        return runner.backend.name
    parameters = list(runner.backend.parameters(runner.model).values())
    device = str(parameters[0].device) if parameters else "cpu"
    torch: Any = sys.modules.get("torch")
    if not device.startswith("cuda"):
        return f"torch on {device}, {torch.get_num_threads()} threads"
    return f"torch on {device}, {torch.cuda.get_device_name(parameters[0].device)}"
