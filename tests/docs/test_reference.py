"""The reference describes what is public: every name of every public module, each with an example."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest

import aspecthook

PAGES = sorted((Path(__file__).parents[2] / "docs" / "reference").glob("*.md"))
# Its names are those of `aspecthook`, where a function has its name.
INSIDE = {"aspecthook.weave"}
TORCH = ("aspecthook.torch:", "aspecthook.training.data:Resumable")
DIRECTIVE = re.compile(r"^\.\. auto(class|exception|function):: ([\w.]+)(\(.*\))?", re.MULTILINE)


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


def found(path: str) -> Any:
    if path.startswith(TORCH):
        pytest.importorskip("torch")
    module, name = path.split(":")
    return getattr(importlib.import_module(module), name)


PUBLIC = [f"{module}:{name}" for module in public_modules() for name in exported(module)]
# The names of most modules are found by Sphinx; those of `aspecthook` are on its page in an order to be read.
BY_HAND = DIRECTIVE.findall((PAGES[0].parent / "aspecthook.md").read_text(encoding="utf-8"))


def test_every_public_module_has_a_page_and_is_listed() -> None:
    introduced = [
        name
        for page in PAGES
        for name in re.findall(r"^\.\. (?:auto)?module:: (.+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert sorted(introduced) == sorted(public_modules())
    listed = (PAGES[0].parent / "index.md").read_text(encoding="utf-8").splitlines()
    assert [page.stem for page in PAGES if page.stem not in (*listed, "index")] == []


def test_the_page_of_aspecthook_describes_each_name_once_as_what_it_is() -> None:
    assert sorted(name for _, name, _ in BY_HAND) == sorted(exported("aspecthook"))
    for directive, name, _ in BY_HAND:
        thing = getattr(aspecthook, name)
        is_error = isinstance(thing, type) and issubclass(thing, BaseException)
        assert directive == ("exception" if is_error else "class" if isinstance(thing, type) else "function")


@pytest.mark.parametrize(("name", "text"), [(name, text) for _, name, text in BY_HAND if text])
def test_a_signature_by_hand_is_the_real_one(name: str, text: str) -> None:
    def bare(signature: inspect.Signature) -> list[tuple[str, object]]:
        return [(parameter.name, parameter.kind) for parameter in signature.parameters.values()]

    space: dict[str, Any] = {}
    exec(f"def by_hand{text}: ...", space)
    by_hand, real = inspect.signature(space["by_hand"]), inspect.signature(getattr(aspecthook, name))
    assert bare(by_hand) == bare(real)
    for parameter in by_hand.parameters.values():
        if parameter.default is not parameter.empty:
            assert parameter.default == real.parameters[parameter.name].default


@pytest.mark.parametrize("path", [path for path in PUBLIC if not path.endswith(":HOOKS")])
def test_every_public_name_has_a_docstring_with_an_example(path: str) -> None:
    assert ">>>" in (inspect.getdoc(found(path)) or "")
