"""Hooks of the kit's own that ask for what their target offers, in each way in which a hook may ask."""

from __future__ import annotations

from collections.abc import Iterator
from keyword import iskeyword

from aspecthook._core.law.asks import RESERVED, Kind, kinds_of
from aspecthook._core.mount.point import MountPoint

from ._candidates import Candidate, Ran
from ._refusals import NOBODYS
from ._signatures import define, signature


def asking_hooks(mount: MountPoint, ran: Ran) -> list[Candidate]:
    """Return hooks that note that they have run, and ask for the arguments of the target by name, and for more."""
    kinds = kinds_of(mount.site().signature)
    return [_asking(kind, name, asks, ran) for kind, name, asks in _ways(mount) if kind in kinds]


def _ways(mount: MountPoint) -> Iterator[tuple[Kind, str, str]]:
    found = mount.site().signature
    names = [name for name in found.names[: found.regular] if name.isidentifier() and not iskeyword(name)]
    names = [name for name in names if name not in RESERVED]
    first, last = names[:1], names[1:][-1:]
    yield "pre", "named", ", ".join(names)
    yield "pre", "unnamed", "arguments, other=None, /"
    yield "pre", "open", ", ".join([*first, "**more"])
    yield "exception", "rest", "exc, *args, **kwargs"
    yield "post", "apart", ", ".join([*first, f"{NOBODYS}=None", *(f"{name}=None" for name in last)])
    yield "always", "keywords", ", ".join(["*", *reversed(names), "result", "exc"])


def _asking(kind: Kind, name: str, asks: str, ran: Ran) -> Candidate:
    def note(_given: dict[str, object]) -> None:
        ran.note(f"{kind} {name}")

    return Candidate(kind, define(name, signature(f"({asks})"), "def: return ACT(GIVEN)", note), name=name)
