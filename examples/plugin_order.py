"""A bug in the order of plugins, found and shrunk: `aspecthook.testing.HookMachine` against a small plugin system.

A web application lets plugins be loaded and unloaded while it runs. A plugin says which others it must run after:
the audit log wants to know who is logged in, so it runs after `auth`. The system looks right, and as long as plugins
are loaded in the order in which they are listed it is. The machine loads and unloads them in any order, and calls;
what must be true of every call is one predicate. Look for

- `make`, the only thing that must be written: a fresh mount point for every run;
- rules of one's own, plain methods marked with Hypothesis's `@rule`, beside those that the machine has already;
- the violation: the shortest list of steps, the call and the chain, drawn.

Run `python examples/plugin_order.py` with aspecthook[testing] installed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from aspecthook import Hook, hookable, hooks
from aspecthook.testing import HookMachine, LawError, Trace, law

# The plugin system.


class Plugin(NamedTuple):
    """A hook on every request, and the plugins that it must run after."""

    name: str
    after: tuple[str, ...] = ()

    def __call__(self, request: str) -> None: ...

    def __repr__(self) -> str:
        return self.name


class App:
    """An application whose plugins come and go while it runs."""

    def __init__(self) -> None:
        @hookable
        def handle(request: str) -> str:
            return f"200 {request}"

        self.handle = handle
        self.loaded: dict[str, Hook] = {}

    def load(self, plugin: Plugin) -> None:
        if plugin.name not in self.loaded:
            after = self.places(plugin)
            self.loaded[plugin.name] = hooks(self.handle).add("pre", plugin, name=plugin.name, after=after)

    def places(self, plugin: Plugin) -> Any:
        """Find what a plugin must run after."""
        return [self.loaded[name] for name in plugin.after if name in self.loaded]

    def unload(self, plugin: Plugin) -> None:
        if plugin.name in self.loaded:
            self.loaded.pop(plugin.name).remove()


class Repaired(App):
    """The same without the bug: a name also means a hook that is yet to come, and one that has come back."""

    def places(self, plugin: Plugin) -> Any:
        return plugin.after


# The machine.

PLUGINS = Plugin("auth"), Plugin("audit", after=("auth",)), Plugin("cache", after=("auth", "audit"))


class Loading(HookMachine):
    candidates = ()  # hooks come and go by the plugin system alone
    app_type = App

    def make(self) -> Any:
        self.app = self.app_type()
        return self.app.handle

    @rule(plugin=st.sampled_from(PLUGINS))
    def load(self, plugin: Plugin) -> None:
        self.app.load(plugin)

    @rule(plugin=st.sampled_from(PLUGINS))
    def unload(self, plugin: Plugin) -> None:
        self.app.unload(plugin)

    @law
    @staticmethod
    def auth_before_audit(trace: Trace) -> bool:
        return trace.before("auth", "audit")


class LoadingRepaired(Loading):
    app_type = Repaired


def main() -> None:
    # Derandomized and without a database, so that every run of this example is the same.
    phases = Phase.generate, Phase.shrink
    chosen = settings(stateful_step_count=20, deadline=None, derandomize=True, database=None, phases=phases)
    try:
        run_state_machine_as_test(Loading, settings=chosen)
    except LawError as error:
        print(error)
        print("\nThe shortest list of steps that does it:\n")
        print(*(note for note in getattr(error, "__notes__", ()) if "state" in note), sep="\n")
    run_state_machine_as_test(LoadingRepaired, settings=chosen)
    print("\nWith names in the place of handles the law holds.")


if __name__ == "__main__":
    main()
