"""The reference describes what is public: every name of every public module, and no other."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import aspecthook

PAGES = sorted((Path(__file__).parents[2] / "docs" / "reference").glob("*.md"))
# Its names are those of `aspecthook`, where a function has its name.
INSIDE = {"aspecthook.weave"}
TORCH = ("aspecthook.torch:", "aspecthook.training.data:Resumable")
DIRECTIVE = re.compile(r"^\.\. (?:auto)?(\w+):: ([\w.]+)(\(.*\))?((?:\n   :.*)*)", re.MULTILINE)


def public_modules() -> list[str]:
    """Return the modules whose names have no underscore and that say what of theirs is public."""
    names = ["aspecthook", *(info.name for info in pkgutil.walk_packages(aspecthook.__path__, "aspecthook."))]
    return [name for name in names if "._" not in name and name not in INSIDE and exported(name)]


def exported(module: str) -> list[str]:
    """Return a module's `__all__`, which is read and not run: importing a module may take what is not installed."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def described() -> Iterator[tuple[str, str, str | None, str]]:
    """Return what the reference describes: the directive, ``module:name``, a signature by hand, and the options."""
    for page in PAGES:
        module = ""
        for directive, name, signature, options in DIRECTIVE.findall(page.read_text(encoding="utf-8")):
            if directive in ("module", "currentmodule"):
                module = name
            else:
                yield directive, f"{module}:{name}", signature or None, options


DESCRIBED = list(described())


def found(path: str) -> Any:
    if path.startswith(TORCH):
        pytest.importorskip("torch")
    module, name = path.split(":")
    return getattr(importlib.import_module(module), name)


def test_every_public_name_is_described_once_and_nothing_else_is() -> None:
    public = [f"{module}:{name}" for module in public_modules() for name in exported(module)]
    assert sorted(path for _, path, _, _ in DESCRIBED) == sorted(public)


def test_every_public_module_has_a_page_and_is_listed() -> None:
    introduced = [name for page in PAGES for name in re.findall(r"^\.\. module:: (.+)", page.read_text(), re.MULTILINE)]
    assert sorted(introduced) == sorted(public_modules())
    listed = (PAGES[0].parent / "index.md").read_text(encoding="utf-8").splitlines()
    assert [page.stem for page in PAGES if page.stem not in (*listed, "index")] == []


@pytest.mark.parametrize(("directive", "path"), [(directive, path) for directive, path, _, _ in DESCRIBED])
def test_a_name_is_described_as_what_it_is(directive: str, path: str) -> None:
    thing = found(path)
    if isinstance(thing, type):
        assert directive == ("exception" if issubclass(thing, BaseException) else "class")
    else:
        assert directive == ("function" if inspect.isroutine(thing) or hasattr(thing, "__wrapped__") else "data")


@pytest.mark.parametrize(("path", "options"), [(path, options) for _, path, _, options in DESCRIBED if options])
def test_the_members_that_are_named_exist(path: str, options: str) -> None:
    names = re.search(r":members: (.+)", options)
    if names is not None:
        thing = found(path)
        assert [name for name in names[1].split(", ") if not hasattr(thing, name)] == []


@pytest.mark.parametrize(("path", "text"), [(path, text) for _, path, text, _ in DESCRIBED if text])
def test_a_signature_by_hand_is_the_real_one(path: str, text: str) -> None:
    def bare(signature: inspect.Signature) -> list[tuple[str, object]]:
        return [(parameter.name, parameter.kind) for parameter in signature.parameters.values()]

    space: dict[str, Any] = {}
    exec(f"def by_hand{text}: ...", space)
    by_hand, real = inspect.signature(space["by_hand"]), inspect.signature(found(path))
    assert bare(by_hand) == bare(real)
    for name, parameter in by_hand.parameters.items():
        if parameter.default is not parameter.empty:
            assert parameter.default == real.parameters[name].default


@pytest.mark.parametrize("path", [path for directive, path, _, _ in DESCRIBED if directive != "data"])
def test_every_public_name_has_a_docstring_with_an_example(path: str) -> None:
    assert ">>>" in (inspect.getdoc(found(path)) or "")
