"""Runs of pytest inside of a test, with the plugin and without what else is installed."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest

# A run inside of a test drops the modules that it was the first to import, and the next one would make them anew.
from aspecthook import pytest_plugin as _plugin  # noqa: F401
from aspecthook.record import _tape  # noqa: F401
from aspecthook.testing import _inject  # noqa: F401
from aspecthook.weave import _imports, _weaving  # noqa: F401

SHOP = '''
import asyncio, aspecthook
sent = []
def price(item, qty=1):
    """Say what it costs."""
    return 2.5 * qty
def charge(amount):
    return "paid"
def checkout(items):
    total = sum(price(item) for item in items)
    try:
        return charge(total)
    except ConnectionError:
        return charge(total)
class Cart:
    def add(self, item):
        return item
cart = Cart()
async def fetch(url):
    sent.append(url)
    return url
def numbers(n):
    got = yield from range(n)
    return "end"
async def anumbers(n):
    for i in range(n):
        sent.append((yield i))
@aspecthook.hookable
def total(n):
    return n
@total.pre
def imported():
    pass
'''

# Other plugins that happen to be installed; aspectlib's has a fixture `weave` too.
OTHERS = ("aspectlib", "asyncio", "anyio", "xdist", "timeout", "hypothesispytest", "randomly", "cacheprovider")
_PLUGIN = [] if entry_points(group="pytest11", name="aspecthook") else ["-p", "aspecthook.pytest_plugin"]


@pytest.fixture
def shop(request):
    """Run pytest on a test file beside the module `kit_shop`."""
    if not request.config.pluginmanager.has_plugin("pytester"):
        pytest.skip("needs `-p pytester`")
    pytester = request.getfixturevalue("pytester")
    pytester.makepyfile(kit_shop=SHOP)

    def run(text, *args, plugins=(), how=pytester.runpytest_inprocess, **files):
        header = "import aspecthook, pytest, kit_shop\nfrom aspecthook import hooks, Args, Return\n"
        pytester.makepyfile(test_it=header + _dedent(text), **{name: _dedent(one) for name, one in files.items()})
        without = [part for name in OTHERS if name not in plugins for part in ("-p", f"no:{name}")]
        # Else the filters of this process, where warnings are errors, would be theirs.
        return how(*_PLUGIN, *without, "-W", "default", *args)

    run.pytester = pytester
    yield run
    # What a test leaves behind on purpose would be woven on the next `kit_shop` that is imported.
    for watcher in list(_imports._watchers.values()):
        watcher.imported.__self__.remove()


def _dedent(text):
    import textwrap

    return textwrap.dedent(text)
