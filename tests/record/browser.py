"""A real browser without a window, and pages of recorded calls opened in it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from aspecthook.record._saving import save

playwright = pytest.importorskip("playwright.sync_api")

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@contextmanager
def started() -> Iterator:
    """Start the browser that is installed; skip the tests that ask for it where there is none."""
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        pytest.skip(f"needs a browser: none of {', '.join(_NAMES)} is installed")
    # Chromium refuses to run as root inside its sandbox.
    options = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=options)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser, rows: Iterable[Mapping[str, object]], folder: Path, **options):
    """Write the page of recorded calls, and open it."""
    save(map(json.dumps, rows), folder / "calls.html")
    with shown(browser, folder / "calls.html", **options) as page:
        yield page


@contextmanager
def shown(browser, file: Path, *, width=1400, height=900, scheme="light", **options):
    """Open a page; at the end, it must have loaded nothing else and raised nothing."""
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme, **options)
    complaints: list[str] = []
    loaded: list[str] = []
    page.on("pageerror", lambda error: complaints.append(f"{error}"))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: loaded.append(request.url))
    try:
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        yield page
        assert complaints == []
        assert loaded == [file.as_uri()]
    finally:
        page.close()


def search(page, text: str) -> str:
    """Type into the search field, and return how many calls are found."""
    page.fill("#search", text)
    page.keyboard.press("Enter")  # at once, without the pause after which typing is taken as ended
    return page.inner_text("#count")


def names(page) -> list[str]:
    """Return the names of the functions on the lines of the tree that are in sight."""
    return page.locator("#tree .row .name").all_text_contents()
