"""Optional libraries whose objects take hooks in a way of their own, as the modules and tensors of PyTorch do.

The table is all that weaving knows of a library. The module of ours that knows the rest is loaded when an object of the
library is woven; the library itself is never imported from here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from types import MethodType

from aspecthook._core.law.callables import type_of
from aspecthook._errors import WeaveError, brief
from aspecthook._hints import Any, NamedTuple, Protocol, cast

from ._spots import Chosen, Spot, shown


class Library(Protocol):
    """What knows how to weave the objects of one library."""

    def takes(self, target: object) -> bool:
        """Whether a target takes hooks in the library's own way."""
        ...

    def choose(
        self, target: Any, names: Any, words: Iterable[str], where: Callable[[Any], object] | None
    ) -> dict[str, Chosen]:
        """Return where the hooks of each word go; "call" stands for the kinds that every function takes.

        Raises:
            WeaveError: There is no such place.
        """
        ...

    def spot_of_method(self, method: MethodType) -> Spot | None:
        """Return where the hooks of a bound method go; None if that is the method itself."""
        ...

    def warn_of(self, function: object) -> None:
        """Warn of calls that will not see the hooks on a function of a class."""
        ...


class KnownLibrary(NamedTuple):
    """What is known of a library before our module for it is loaded."""

    home: str  # the module whose `library` is the `Library`
    objects: str  # what messages call the objects
    words: tuple[str, ...]  # the keywords of `weave` that only these objects take
    methods: frozenset[str]  # the methods that the library itself calls, or compiles


TABLE = {
    "torch": KnownLibrary(
        "aspecthook.torch._model",
        "modules and tensors of PyTorch",
        (
            "backward_pre",
            "backward",
            "state_dict_pre",
            "state_dict_post",
            "load_state_dict_pre",
            "load_state_dict_post",
            "grad",
            "accumulated",
        ),
        frozenset({"forward"}),
    )
}
WORDS = tuple([word for known in TABLE.values() for word in known.words])


def library_of(target: object) -> Library | None:
    """Return what knows how to weave an object in the way of its library."""
    for name, known in TABLE.items():
        if name in sys.modules and any(_package(base) == name for base in type_of(target).__mro__):
            library = _load(known)
            if library.takes(target):
                return library
    return None


def warn_of(function: object) -> None:
    """Warn of calls that will not see the hooks on a function, if a library is known to make such calls."""
    for name, known in TABLE.items():
        if name in sys.modules and getattr(function, "__name__", "") in known.methods:
            _load(known).warn_of(function)


def refuse_words(target: object, names: object, words: Iterable[str]) -> None:
    """Refuse what only objects of a library take.

    Raises:
        WeaveError: There is any of it.
    """
    for word in words:
        raise _only_for([known.objects for known in TABLE.values() if word in known.words], f"{word}=", target)
    if isinstance(target, str) and isinstance(names, str):
        raise WeaveError(f"weave takes one pointcut; for several write one string: {brief(f'{target}, {names}')}")
    if names is not None:
        raise _only_for([known.objects for known in TABLE.values()], brief(names), target)


def _only_for(objects: list[str], given: str, target: object) -> WeaveError:
    kind = type(target).__name__
    return WeaveError(f"{given} is for {', '.join(objects)}, and {shown(target)} is of type {kind}")


def _package(cls: type[Any]) -> str:
    return str(cls.__module__).partition(".")[0]


def _load(known: KnownLibrary) -> Library:
    return cast("Library", import_module(known.home).library)
