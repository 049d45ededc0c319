"""How Sphinx builds the site; `make docs` runs it, with warnings as errors."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FunctionType
from typing import Any

from docutils.nodes import Element, Text, literal_block
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.pycode import ModuleAnalyzer
from sphinx.transforms.post_transforms import ReferencesResolver, SphinxPostTransform

import aspecthook

project = "aspecthook"
author = project_copyright = "the aspecthook authors"
version = release = aspecthook.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]

# What a reader copies has no prompts, and of a session only what is typed.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = "aspecthook"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
pygments_dark_style = "github-dark"
if Path(__file__).with_name("logo.svg").exists():
    html_logo = html_favicon = "logo.svg"

# The headings of Markdown are anchors, named as GitHub names them.
myst_heading_anchors = 4

# In docstrings, code stands between double backticks, and a name, which may be a public one, between single ones.
default_role = "py:obj"
nitpicky = True
napoleon_custom_sections = [("Attributes", "params_style")]  # or they are called variables
autodoc_default_options = {"member-order": "bysource"}
autodoc_preserve_defaults = True
# One parameter a line where a signature is longer.
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
# PyTorch takes 200 MB and nothing of it is shown.
autodoc_mock_imports = ["torch"]

# Classes whose objects the library makes: how is not shown.
NOT_CALLED = {
    "aspecthook.Call",
    "aspecthook.Hook",
    "aspecthook.MountPoint",
    "aspecthook.Weaving",
    "aspecthook.aspects.Aspect",
    "aspecthook.aspects.Cached",
    "aspecthook.aspects.LimitError",
    "aspecthook.aspects.Timings",
    "aspecthook.plugins.Plugin",
    "aspecthook.record.RecordedCall",
    "aspecthook.record.RecordedError",
    "aspecthook.record.Sink",
    "aspecthook.testing.Step",
    "aspecthook.testing.Trace",
    "aspecthook.testing.Underconstrained",
    "aspecthook.torch.Seen",
    "aspecthook.training.session.Session",
    "aspecthook.training.session.SessionRunContext",
}


def keep_annotations(_: Sphinx, function: Any, *__: object) -> None:
    """Have a signature shown as it is written: evaluated, its aliases are long, and some names only type checkers know.

    `typing.get_type_hints` returns nothing for a function that is marked so.
    """
    function = getattr(function, "fget", None) or getattr(function, "__func__", function)
    if isinstance(function, FunctionType):
        function.__no_type_check__ = True


def with_links(_: Sphinx, what: str, ___: str, ____: object, _____: object, lines: list[str]) -> None:
    """Turn the links of docstrings, which are written for editors in Markdown, into those of Sphinx.

    Of a module, leave out what is said to those who work on it.
    """
    begin = r"(For maintainers|The invariant|Inside):|`_"
    inside = [number for number, line in enumerate(lines) if re.match(begin, line)]
    if what == "module" and inside:
        del lines[inside[0] :]
    lines[:] = [re.sub(r"\[([^]]+)\]\((https?:[^)]+)\)", r"`\1 <\2>`__", line) for line in lines]


def skip(_: Sphinx, __: str, name: str, member: Any, ___: bool, ____: object) -> bool | None:
    """Leave out what a reader knows from elsewhere: methods that override one of ours, and fields of named tuples."""
    keep_annotations(_, member)
    function = getattr(member, "fget", None) or getattr(member, "__func__", member)
    path = getattr(function, "__qualname__", "").split(".")
    owner = getattr(sys.modules.get(getattr(function, "__module__", None) or ""), path[0], None)
    if len(path) == 2 and isinstance(owner, type) and name in vars(owner):
        bases = [base for base in owner.__mro__[1:] if base.__module__.startswith("aspecthook")]
        if any(name in vars(base) for base in bases):
            return True
    return True if type(member).__name__ == "_tuplegetter" else None


def signature(_: Sphinx, what: str, name: str, described: Any, *__: object) -> tuple[str, str] | None:
    """Return no signature for a class that users do not call; have the overloads of a function left out.

    The signature below them has all parameters, in one line instead of ten.
    """
    if isinstance(described, FunctionType):
        analyzer = ModuleAnalyzer.for_module(described.__module__)
        analyzer.analyze()
        analyzer.overloads.clear()
    return ("", "") if what in ("class", "exception") and name in NOT_CALLED else None


class OneBlankLine(SphinxPostTransform):
    """Show one blank line where code has two: on a page they only take room."""

    default_priority = 400

    def run(self, **_: object) -> None:
        """Change the text of all blocks of code."""
        for block in self.document.findall(literal_block):
            text = re.sub(r"\n{3,}", "\n\n", block.astext())
            block.rawsource = text
            block[:] = [Text(text)]


class PublicNames(SphinxPostTransform):
    """Link the names in docstrings and signatures, which are seen from private modules, to where they are described."""

    default_priority = ReferencesResolver.default_priority - 1

    def run(self, **_: object) -> None:
        """Name the targets of all references to Python objects in full."""
        for node in self.document.findall(pending_xref):
            if node["refdomain"] == "py":
                node["reftarget"] = self.public_name(node.get("py:module"), node["reftarget"])
                node.attributes.pop("refspecific", None)  # or any method of that name would do

    def public_name(self, module: str | None, name: str) -> str:
        """Return the full name of the public object that a name means in a module; the name itself if there is none."""
        objects = self.env.domains.python_domain.objects
        private, _, ending = name.rpartition("._")
        ending = ending.partition(".")[2] if private else name
        for full in (f"{module}.{ending}", f"aspecthook.{ending}"):
            if full in objects:
                return full
        if ending.islower() and "." not in ending:
            return name  # a parameter, or a method of the class that is described
        found = [full for full in objects if full.endswith(f".{ending}") and "._" not in full]
        return found[0] if len(found) == 1 else name


def is_foreign(_: Sphinx, __: BuildEnvironment, node: pending_xref, content: Element) -> Element | None:
    """Show a name without a link, and without a warning, if it is a parameter or of another library."""
    target: str = node["reftarget"]
    is_ours = target.startswith("aspecthook.") and "._" not in target
    return content if node["refdomain"] == "py" and not is_ours else None


def setup(app: Sphinx) -> None:
    """Connect what is above, as Sphinx asks for it."""
    app.connect("autodoc-before-process-signature", keep_annotations)
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-docstring", with_links)
    app.connect("autodoc-process-signature", signature)
    app.add_post_transform(OneBlankLine)
    app.add_post_transform(PublicNames)
    app.connect("missing-reference", is_foreign)
