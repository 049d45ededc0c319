"""Pointcuts: expressions that choose functions by module and name. Pure: text is parsed, and nothing is looked up.

A term is ``module:name``, and both parts may be globs. Commas separate terms, and ``!`` makes one exclude. In the
module part ``*`` crosses dots (``shop.*`` is everything below `shop`); in the name part it does not, and a name that
begins with an underscore is chosen only by a pattern that begins with one.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from aspecthook._errors import WeaveError
from aspecthook._hints import NamedTuple, final

_WILD = frozenset("*?[")


def is_glob(text: str) -> bool:
    """Whether a pattern has wildcards."""
    return not _WILD.isdisjoint(text)


class Segment(NamedTuple):
    """One part of a name between dots."""

    glob: str
    exact: bool  # whether it can only match one name

    def chooses(self, name: str) -> bool:
        """Whether the pattern matches a name; leading underscores must be in the pattern, as dots in a shell."""
        lead = "__" if name.startswith("__") else "_" if name.startswith("_") else ""
        return self.glob.startswith(lead) and fnmatchcase(name, self.glob)


@final
class Term:
    """One ``module:name`` of a pointcut."""

    __slots__ = ("exact", "exact_module", "module", "segments", "text")

    def __init__(self, text: str, whole: str) -> None:
        self.text = text
        module, colon, name = text.partition(":")
        if not colon:
            where = f" in {text!r}" if text != whole else ""
            raise WeaveError(f"the pointcut {whole!r} has no colon{where}; {_where_to_put_it(text)}")
        if not module or not name or ":" in name or len(text.split()) != 1:
            raise WeaveError(
                f"the pointcut {whole!r} has {text!r}; write one module and one name, 'module:name', and commas "
                f"between several"
            )
        segments: list[Segment] = []
        for glob in name.split("."):
            if not glob:
                raise WeaveError(f"the pointcut {whole!r} has an empty name between dots in {text!r}")
            segments.append(Segment(glob, not is_glob(glob)))
        self.module = module
        self.segments = tuple(segments)
        # Whether it can only match one module; and names one thing, which must exist.
        self.exact_module = not is_glob(module)
        self.exact = self.exact_module and not is_glob(name)

    def in_module(self, name: str) -> bool:
        """Whether the term means a module of this name."""
        return name == self.module if self.exact_module else fnmatchcase(name, self.module)

    def covers(self, path: tuple[str, ...]) -> bool:
        """Whether the term, which excludes, matches a name or a class around it."""
        if len(path) < len(self.segments):
            return False
        return all(fnmatchcase(name, segment.glob) for name, segment in zip(path, self.segments, strict=False))


def _where_to_put_it(text: str) -> str:
    module, dot, name = text.rpartition(".")
    if not dot:
        return f"for the functions of a module write '{text}:*'"
    return f"write '{module}:{name}' (or '{text}:*', if {text} is a module)"


@final
class Pointcut:
    """A whole expression: the terms that choose and those that exclude."""

    __slots__ = ("excluded", "terms", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        parts = [part.strip() for part in text.split(",")]
        if "" in parts or "!" in parts:
            raise WeaveError(f"the pointcut {text!r} is empty, or empty between commas; write 'module:name'")
        self.terms = tuple([Term(part, text) for part in parts if not part.startswith("!")])
        self.excluded = tuple([Term(part[1:].strip(), text) for part in parts if part.startswith("!")])
        if not self.terms:
            raise WeaveError(f"the pointcut {text!r} only excludes; add a term that chooses, as in 'shop:*, {text}'")
