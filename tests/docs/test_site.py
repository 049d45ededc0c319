"""The site builds without a warning, describes every public name, and needs no network; links between files hold."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from .test_reference import PUBLIC

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


class Loads(HTMLParser):
    """Collects what a page loads by itself, and the ids in it."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids.add(given.get("id") or "")
        if tag in ("script", "img", "iframe", "source") and given.get("src"):
            self.loaded.append(str(given["src"]))
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload", "shortcut icon"):
            self.loaded.append(str(given["href"]))


def read(page: Path) -> Loads:
    found = Loads()
    found.feed(page.read_text(encoding="utf-8"))
    return found


# One test, since a build takes half a minute, and each worker of pytest-xdist would make its own.
def test_the_site_builds_without_a_warning_describes_every_public_name_and_needs_no_network(tmp_path: Path) -> None:
    for needed in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(needed)
    site = tmp_path / "html"
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--quiet"]
    command += ["--doctree-dir", str(tmp_path / "doctrees"), str(ROOT / "docs"), str(site)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")

    pages = {page: read(page) for page in sorted(site.rglob("*.html"))}
    assert len(pages) > 40
    for page, found in pages.items():
        for address in found.loaded:
            assert not re.match(r"(https?:)?//", address), (page, address)
            assert (page.parent / address.partition("?")[0]).exists(), (page, address)

    ids = {name for page, found in pages.items() if page.parent.name == "reference" for name in found.ids}
    assert {path.replace(":", ".") for path in PUBLIC} <= ids

    index = (site / "searchindex.js").read_text(encoding="utf-8")
    assert all(word in index for word in ('"hookable"', '"assert_order"', "pointcut"))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, named as GitHub and MyST name them."""
    found = set[str]()
    for title in re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE):
        text = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", title).lower()
        found.add(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_lead_to_files_and_headings_that_exist(page: Path) -> None:
    for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), f"{page}: {link}"
        # The others are objects of the reference, which the build of the site checks.
        if anchor and target.suffix == ".md" and not anchor.startswith("aspecthook."):
            assert anchor in anchors(target), f"{page}: {link}"
