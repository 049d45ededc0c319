"""The modules and tensors of PyTorch, which take hooks in a way of their own.

`aspecthook.torch._model` knows that way. It is in a room above this one and is loaded when an object of PyTorch is
woven; PyTorch itself is never imported from here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module

from aspecthook._core.law.callables import type_of
from aspecthook._errors import WeaveError, brief
from aspecthook._hints import Any

from ._spots import label_of

_MODEL = "aspecthook.torch._model"
# The keywords of `weave` that only these objects take.
WORDS = ("backward_pre", "backward", "grad")


def model_of(target: object) -> Any:
    """Return `aspecthook.torch._model` for a module or tensor of PyTorch; None for any other object."""
    bases = type_of(target).__mro__
    if "torch" not in sys.modules or all(str(one.__module__).partition(".")[0] != "torch" for one in bases):
        return None
    model = import_module(_MODEL)
    return model if model.takes(target) else None


def warn_of(function: object) -> None:
    """Warn of calls that will not see the hooks on a function, if PyTorch may have compiled it."""
    if "torch" in sys.modules and getattr(function, "__name__", "") == "forward":
        import_module(_MODEL).warn_of(function)


def refuse_words(target: object, names: object, words: Iterable[str]) -> None:
    """Refuse what only objects of PyTorch take.

    Raises:
        WeaveError: There is any of it.
    """
    only = [f"{word}=" for word in words]
    if isinstance(target, str) and isinstance(names, str) and not only:
        raise WeaveError(f"weave takes one pointcut; for several write one string: {brief(f'{target}, {names}')}")
    if names is not None:
        only.append(brief(names))
    if only:
        raise WeaveError(
            f"{only[0]} is for modules and tensors of PyTorch, and {label_of(target)} is of type "
            f"{type(target).__name__}"
        )
