"""A bug in the order of plugins, found and shrunk: `aspecthook.testing.HookMachine` against a small plugin system.

A web application loads and unloads plugins while it runs. A plugin names those that it must run after: the audit log
needs to know who is logged in, so it runs after `auth`. The system looks right, and it is, as long as plugins are
loaded in the order in which they are listed. The machine loads and unloads them in any order and makes
calls; one predicate states what must be true of every call. Look for

- `make`, the only method that you must write: it returns a fresh mount point for every run;
- your own rules, methods marked with Hypothesis's `@rule`, beside those that the machine already has;
- the violation: the call and the chain, and the shortest list of steps, as a test to paste.

After `pip install '.[testing]'`, run `python examples/plugin_order.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from aspecthook import Hook, hookable, hooks
from aspecthook.testing import HookMachine, LawError, Trace, law

# The plugin system.


class Plugin(NamedTuple):
    """A hook on every request, and the plugins that it must run after."""

    name: str
    after: tuple[str, ...] = ()

    def __call__(self, request: str) -> None: ...


PLUGINS = {
    plugin.name: plugin
    for plugin in (Plugin("auth"), Plugin("audit", after=("auth",)), Plugin("cache", after=("auth", "audit")))
}


class App:
    """An application that loads and unloads plugins while it runs."""

    def __init__(self) -> None:
        @hookable
        def handle(request: str) -> str:
            return f"200 {request}"

        self.handle = handle
        self.loaded: dict[str, Hook] = {}

    def load(self, name: str) -> None:
        if name not in self.loaded:
            plugin = PLUGINS[name]
            self.loaded[name] = hooks(self.handle).add("pre", plugin, name=name, after=self.places(plugin))

    def places(self, plugin: Plugin) -> Any:
        """Return what a plugin must run after."""
        return [self.loaded[name] for name in plugin.after if name in self.loaded]

    def unload(self, name: str) -> None:
        if name in self.loaded:
            self.loaded.pop(name).remove()


class Repaired(App):
    """The same without the bug: a name also stands for a hook that is loaded later, or loaded again."""

    def places(self, plugin: Plugin) -> Any:
        return plugin.after


# The machine.


class Loading(HookMachine):
    candidates = ()  # only the plugin system adds and removes hooks
    app_type = App

    def make(self) -> Any:
        self.app = self.app_type()
        return self.app.handle

    @rule(name=st.sampled_from([*PLUGINS]))
    def load(self, name: str) -> None:
        self.app.load(name)

    @rule(name=st.sampled_from([*PLUGINS]))
    def unload(self, name: str) -> None:
        self.app.unload(name)

    @law
    @staticmethod
    def auth_before_audit(trace: Trace) -> bool:
        return trace.before("auth", "audit")


class LoadingRepaired(Loading):
    app_type = Repaired


def main() -> None:
    for machine in (Loading, LoadingRepaired):
        # Derandomized and without a database, so that every run of this example is the same.
        machine.TestCase.settings = settings(machine.TestCase.settings, derandomize=True, database=None)
    try:
        Loading.TestCase().runTest()
    except LawError as error:
        print(error, "", *error.__notes__, sep="\n")
    LoadingRepaired.TestCase().runTest()
    print("With names instead of handles, the law holds.")


if __name__ == "__main__":
    main()
