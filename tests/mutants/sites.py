"""Where the core and weaving can be mutated, and the mutants: each is one small change that cosmic-ray makes.

A *site* is a place in a file and a sort of change (another comparison, another number, `not` added). A site has as many
mutants as there are such changes; a sample takes one of them, so that ten ways to replace one `+` count once. Lines
that ``make coverage`` leaves out, since only other Pythons run them, have no sites.
"""

from __future__ import annotations

import ast
import difflib
import random
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from coverage import Coverage

ROOMS = ("aspecthook/_core", "aspecthook/weave")

# Decorators that only type checkers read.
_TYPED = re.compile(r"@(final|overload|override)\b")


@dataclass(frozen=True)
class Site:
    """A place that can be mutated, and the ways to do it: operators of cosmic-ray, and which of their occurrences."""

    file: str
    line: int
    column: int
    sort: str
    ways: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Mutant:
    """A file with one small change.

    Attributes:
        site: Where it is.
        operator: The operator of cosmic-ray that has made it.
        source: The whole text of the file, with the change.
        lines: The lines of the statement that is changed.
        imported: Whether it is a statement of a module or a class: it runs as that is imported, and any test may show
            what it has made.
        diff: The lines that differ.
    """

    site: Site
    operator: str
    source: str
    lines: range
    imported: bool
    diff: str

    def __str__(self) -> str:
        return f"{self.site.file}:{self.site.line} {self.operator}"


def sites(root: Path, chosen: Sequence[str] = ROOMS) -> list[Site]:
    """Return all sites in some files and folders below a root, in the order of files and lines."""
    paths = [root / name for name in chosen]
    files = sorted(file for path in paths for file in ([path] if path.is_file() else path.rglob("*.py")))
    coverage = Coverage(data_file=None, config_file=str(root / "pyproject.toml"))
    return [
        site
        for path in files
        for excluded in [coverage.analysis2(str(path))[2]]
        for site in _sites_of(path.relative_to(root).as_posix(), path.read_text())
        if site.line not in excluded
    ]


def _sites_of(file: str, source: str) -> list[Site]:
    nodes = list(ast_nodes(get_ast(source)))
    never_run = set(_never_run(ast.parse(source)))
    ways: dict[tuple[int, int, str], list[tuple[str, int]]] = defaultdict(list)
    for name in operator_names():
        operator_class = get_operator(name)
        if operator_class.arguments():  # it replaces variables that it has to be told
            continue
        operator = operator_class()
        positions = (start for node in nodes for start, _ in operator.mutation_positions(node))
        for occurrence, (line, column) in enumerate(positions):
            if (line, column) not in never_run:
                ways[line, column, _sort(name)].append((name, occurrence))
    return [Site(file, *key, tuple(sorted(found))) for key, found in sorted(ways.items())]


def _sort(operator: str) -> str:
    """Return what sort of change it is: the name of the operator without what it replaces by what."""
    return operator.removeprefix("core/").partition("Operator_")[0]


def _never_run(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Yield each place in an annotation: with `from __future__ import annotations`, they are text."""
    for node in ast.walk(tree):
        annotation = getattr(node, "annotation", None) or getattr(node, "returns", None)
        if annotation is not None:
            for line in range(annotation.lineno, annotation.end_lineno + 1):
                first = annotation.col_offset if line == annotation.lineno else 0
                last = annotation.end_col_offset if line == annotation.end_lineno else 500
                yield from ((line, column) for column in range(first, last))


def sample(root: Path, found: list[Site], size: int, seed: int) -> Iterator[Mutant]:
    """Yield mutants of sites drawn at random, until there are so many; a site whose mutant is none is passed over."""
    draw = random.Random(seed)
    left = size
    for site in draw.sample(found, len(found)):
        if left == 0:
            return
        operator, occurrence = draw.choice(site.ways)
        made = mutant(root, site, operator, occurrence)
        if made is not None:
            left -= 1
            yield made


def mutant(root: Path, site: Site, operator: str, occurrence: int) -> Mutant | None:
    """Return a mutant, or None if it does not compile or says the same."""
    old = (root / site.file).read_text()
    new = mutate_code(old, get_operator(operator)(), occurrence)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # of `is` with a number
            tree = ast.parse(new or "")
            compile(tree, site.file, "exec")
    except SyntaxError:  # a `/` or `*` among the parameters is no operator
        return None
    before = ast.parse(old)
    if ast.dump(before) == ast.dump(tree):
        return None
    diff = [line for line in difflib.ndiff(old.splitlines(), new.splitlines()) if line.startswith(("- ", "+ "))]
    if any(_TYPED.search(line) for line in diff):
        return None
    lines = _statement(before, site.line)
    return Mutant(site, operator, new, lines, not _in_function(before, lines.start), "\n".join(diff))


def _statement(tree: ast.Module, line: int) -> range:
    """Return the lines of the innermost statement at a line, without the statements in it."""
    around = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and node.lineno <= line <= _end(node)]
    innermost = max(around, key=lambda node: node.lineno, default=None)
    if innermost is None:  # a decorator, which is before the line of its function
        return range(line, line + 1)
    body = getattr(innermost, "body", None)
    last = body[0].lineno - 1 if body and body[0].lineno > innermost.lineno else _end(innermost)
    return range(innermost.lineno, max(last, line) + 1)


def _in_function(tree: ast.Module, line: int) -> bool:
    """Whether the statement that begins at a line runs when a function is called."""
    functions = (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return any(node.lineno < line <= _end(node) for node in functions)


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno
