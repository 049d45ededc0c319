"""The names of parameters as a property: the code that functions share is, for each, what would be compiled for it."""

from __future__ import annotations

import dis
import re
import sys
from types import CodeType
from typing import Any

import pytest
from hypothesis import given

from aspecthook import hookable, hooks
from aspecthook._core.compile.link import Linker, compiled, template
from aspecthook._core.compile.text import unlike
from aspecthook._core.mount import point as _mount
from aspecthook._core.mount.place import Moved

from .signatures import signatures


def facts(code: CodeType) -> tuple[Any, ...]:
    """Return what is the same in code that was compiled with the names and in code that got them when it was linked."""
    inner = [facts(one) for one in code.co_consts if isinstance(one, CodeType)]
    cells = sorted(code.co_cellvars), sorted(code.co_freevars)
    # The compiler numbers cells in the order of their names; and equal constants are one constant.
    steps = [] if any(cells) else [(one.opname, _seen(one.argval)) for one in dis.get_instructions(code)]
    return code.co_varnames, cells, steps, list(code.co_lines()), inner


def _seen(operand: object) -> object:
    if isinstance(operand, CodeType):
        return "code"
    return "a pin" if isinstance(operand, str) and operand.startswith("\1") else operand


LEADS = {
    "function": "def target({}): return",
    "coroutine": "async def target({}): return",
    "generator": "def target({}): yield",
    "async generator": "async def target({}): yield",
}


@pytest.mark.parametrize("permanent", [True, False], ids=["strong", "weak"])
@pytest.mark.parametrize("style", LEADS)
def test_linked_code_is_what_the_compiler_makes_of_the_source_that_is_shown(
    style: str, permanent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_mount, "watch_module", lambda function, mount: sys.modules[__name__] if permanent else None)

    @given(signatures())
    def same(drawn: tuple[str, list[str], list[int], dict[str, int]]) -> None:
        text, names, _, _ = drawn
        space: dict[str, Any] = {}
        exec(f"{LEADS[style].format(text)} 1", space)
        mount = hooks(hookable(space["target"]))
        asked = ", ".join(names)
        exec(f"def hook({asked}{', ' * bool(asked)}call, kwargs): pass", space)
        exec(f"def surround({asked}):\n yield", space)
        mount.add("pre", space["hook"], reentrant=False)
        mount.add("around", space["surround"], when=lambda args: True)
        mount.add("around", space["surround"], again=True) if "generator" in style else None
        mount.add("exception", lambda exc: None, KeyError)
        mount.add("post", lambda result: None, isolate=True)
        mount.add("always", lambda exc, result: None, every=2)
        place, chain, signature = mount.place, mount.chain(), mount.site().signature
        assert place is not None
        found = template(signature, chain, weak=place.weak)
        # The same source with the names of the parameters, and other names for variables that are called as these are.
        constants = found.text.pins.keys() - {*found.text.links}
        words = re.compile(r"\$(\w+)")

        def name(word: re.Match[str]) -> str:
            if word[1].isdigit():
                return signature.names[int(word[1])]
            kept = word[1] == "linked" or (word[1] in constants and word.start() < layers_at)
            return word[0] if kept else unlike(word[1], signature.names)

        source = found.text.template
        layers_at = source.find("$linked") if "$linked" in source else len(source)
        text = found.text._replace(template=words.sub(name, source))
        code, layers = compiled(text)
        values: Any = dict.fromkeys(found.text.pins, "\1")
        linker = Linker(signature, code, "", {}, {})
        assert facts(linker._put(found.code, values, "")) == facts(code)
        assert (found.layers is None) == (layers is None)
        if found.layers is not None and layers is not None:
            assert facts(linker._put(found.layers, values, "")) == facts(layers)
        linked, _ = place._link(chain, Moved())
        assert linked.co_varnames == code.co_varnames
        assert len(set(linked.co_varnames)) == len(linked.co_varnames)

    same()
