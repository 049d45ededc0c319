"""Candidates: the hooks that a `HookMachine` may add."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Unpack, cast

from aspecthook._errors import HookTypeError
from aspecthook._values import shortened
from aspecthook.weave._aspects import marks_of

from ._mount import Adding, Hook, Kind, MountPoint, Options, name_of


class Candidate:
    """A hook that a `HookMachine` may add: its kind, function, exception types and options.

    Example:
        >>> def auth(): ...
        >>> Candidate("pre", auth, before="audit")
        pre auth, before='audit'
    """

    __slots__ = ("function", "kind", "options", "types")

    def __init__(
        self, kind: Kind, function: Callable[..., Any], /, *types: type[BaseException], **options: Unpack[Options]
    ) -> None:
        self.kind: Kind = kind
        self.function: Callable[..., Any] = function
        self.types: tuple[type[BaseException], ...] = types
        self.options: Options = options

    @property
    def name(self) -> str:
        """The name of the hook: its ``name=``, or that of the function."""
        return self.options.get("name") or name_of(self.function)

    def __repr__(self) -> str:
        shown = [f"{name}={shortened(value)}" for name, value in self.options.items() if name != "name"]
        return ", ".join([f"{self.kind} {self.name}", *shown])


def read(given: Iterable[Any]) -> Iterator[Candidate]:
    """Read candidates: each is one, or a function with the marks of some.

    Raises:
        HookTypeError: One of them is neither.
    """
    for one in given:
        if isinstance(one, Candidate):
            yield one
            continue
        marks = marks_of(one)
        if not marks:
            raise HookTypeError(
                f"{shortened(one)} is not a candidate; use Candidate(kind, function), or mark the function with "
                "`aspecthook.pre` or another kind"
            )
        for mark in marks:
            yield Candidate(mark.kind, one, *mark.types, **mark.options)


def keyed(candidates: Iterable[Candidate]) -> dict[str, Candidate]:
    """Return candidates by the words that a story names them with: ``"pre audit"``, and ``"pre audit#2"``."""
    found: dict[str, Candidate] = {}
    alike = Counter[str]()
    for one in candidates:
        key = f"{one.kind} {one.name}"
        alike[key] += 1
        found[key if alike[key] == 1 else f"{key}#{alike[key]}"] = one
    return found


def put(mount: MountPoint, candidate: Candidate) -> Hook:
    """Add a hook, with ``again=True`` if the same callable is there already."""
    function = mount.unbound(candidate.function)
    there = any((one.kind, one.meant) == (candidate.kind, function) for one in mount.members)
    options = cast("Adding", {**candidate.options, "again": True} if there else candidate.options)
    return mount.add(candidate.kind, candidate.function, *candidate.types, **options)
