"""What the benchmarks use of each other is there: their libraries are not installed where the tests run."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
TREES = {path.stem: ast.parse(path.read_text()) for path in FOLDER.glob("*.py")}


def defined(tree: ast.Module) -> set[str]:
    """Return the names that a module has."""
    found = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}
    found |= {
        alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    return found | {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


@pytest.mark.parametrize("module", TREES)
def test_names_of_other_modules_are_there(module: str) -> None:
    # `many` asked for a helper that had been removed, and `make bench` failed.
    modules: dict[str, str] = {}
    missing: list[str] = []
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module is None:
            modules |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 1 and node.module is not None:
            there = defined(TREES[node.module])
            missing += [f"{node.module}.{alias.name}" for alias in node.names if alias.name not in there]
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            home = modules[node.value.id]
            missing += [f"{home}.{node.attr}"] if node.attr not in defined(TREES[home]) else []
    assert missing == []
