"""Fixtures of the tests of plugins."""

from __future__ import annotations

import gc
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MethodType
from typing import Any

import pytest

from aspecthook import hooks
from aspecthook.plugins import Plugins
from tests.plugins.shop import GROUP, Install, Kiosk, Shop, Stall, functions_of, trace_left


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """No test may leave a hook on what outlives it, or a path, or a module."""
    before, path, modules = trace_left(Kiosk, Stall), list(sys.path), set(sys.modules)
    yield
    if trace_left(Kiosk, Stall) != before:
        gc.collect()
    assert trace_left(Kiosk, Stall) == before
    assert sys.path == path
    assert not [name for name in sys.modules if name.startswith("plugged_") and name not in modules]


@pytest.fixture
def shop() -> Iterator[Any]:
    made = Shop()
    yield made
    for function in functions_of(Shop):  # pytest keeps what a fixture has given
        held = hooks(function).instances.get(id(made))
        if held is not None:
            hooks(MethodType(function, made)).clear()


@pytest.fixture
def plugins(shop: Any) -> Plugins:
    return Plugins(shop)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put real distributions on the path, whose modules begin with `plugged_`."""

    def install(name: str, points: Mapping[str, str], modules: Mapping[str, str], *, group: str = GROUP) -> None:
        folder = tmp_path / name
        info = folder / f"{name}-1.2.dist-info"
        info.mkdir(parents=True)
        info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        lines = [f"{key} = {value}" for key, value in points.items()]
        info.joinpath("entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
        for module, source in modules.items():
            folder.joinpath(f"{module}.py").write_text(textwrap.dedent(source))
        monkeypatch.syspath_prepend(str(folder))

    yield install
    monkeypatch.undo()
    for module in [one for one in sys.modules if one.startswith("plugged_")]:
        del sys.modules[module]
