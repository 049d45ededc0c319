"""Law 1, written out as source: one flat function for one signature and one chain.

The invariant: the text depends only on the shapes of the signature and of the hooks, so chains of one shape share it.
Read it beside `tests/oracle/law.py`, which does the same by interpretation, and beside `tests/core/snapshots`, which
show what comes out.
"""

from __future__ import annotations

from collections.abc import Sequence

from aspecthook._core.law.hook import Hook
from aspecthook._core.law.kinds import Kind
from aspecthook._hints import final

from .layers import write_around, write_layers, write_subscribers
from .show import FREE_THREADED
from .text import Group, Text, Writer, groups, wanted

# What belongs to the chain or the mount point, and is no constant where the code looks its objects up.
_LINKED_UP = frozenset(
    ("always_hooks", "default", "exception_hooks", "hook", "inside", "instances", "on_hooks", "row", "site", "target")
)


@final
class Source(Writer):
    """Writes the whole text of one mount point's code."""

    def head(self) -> str:
        """Return the `def` line."""
        signature = self.signature
        parts = self.idents[: signature.positional]
        if signature.positional_only:
            parts.insert(signature.positional_only, "/")
        keyword_only = self.idents[signature.positional : signature.regular]
        if signature.varargs is not None:
            parts.append("*" + self.idents[signature.varargs])
        elif keyword_only:
            parts.append("*")
        parts += keyword_only
        if signature.varkw is not None:
            parts.append("**" + self.idents[signature.varkw])
        return f"{'async ' if self.awaits else ''}def $hooked({', '.join(parts)}):"

    def text(self) -> Text:
        """Return the text of a call with hooks."""
        with self.block(self.head()):
            self.hide()
            opening = len(self.lines)
            self._instances()
            if self.wants_call:
                self.line(f"$call = $Call($site, {self.values})")
            if self.chain.always:
                self._guarded_by_always()
            elif self.chain.exception and self.wants_call:
                with self.block("try:"):
                    self._guarded_by_exception()
                with self.block("finally:"):
                    self.line("$call._exc = None")
            else:
                self._guarded_by_exception()
            if self.style != "async generator" and not self.at_once:
                self.line("return $result")
            links = self._guard(opening)
        if self.chain.around:
            write_layers(self)
        return self._done(links)

    def stub(self) -> Text:
        """Return the text of the stub, the code that is in the function until the first call after a change."""
        with self.block(self.head()):
            self.hide()
            self.delegate("$first()")
        return self._done(())

    def empty(self) -> Text:
        """Return the text of an event without hooks, whose subscribers give a list, or fold a value."""
        emission = self.signature.emission
        result = self.idents[emission.fold] if emission is not None and emission.gives == "fold" else "[]"
        self.lines = [self.head(), f"    return {result}"]
        return self._done(())

    def _done(self, links: tuple[str, ...]) -> Text:
        self.pins_in(self.lines)
        return Text("\n".join(self.lines) + "\n", self.pins, tuple(self.notes), links, self.layer_pins)

    def _guard(self, opening: int) -> tuple[str, ...]:
        """Write, around the lines from `opening` on, what hands the call on if the code is stale; return the links.

        This comes last, when all pins are known.
        """
        body = self.lines[opening:]
        del self.lines[opening:]
        links = tuple([pin for pin in self.pins_in(body) if self.pins[pin].what in _LINKED_UP]) if self.slot else ()
        if links:
            with self.block("try:"):
                # Without the GIL the garbage collector looks into code, and a weak reference costs more.
                slot = "$moved" if FREE_THREADED else "$slot()"
                self.line(f"{', '.join(['$' + pin for pin in links])}{',' * (len(links) == 1)} = {slot}.links")
            with self.block(
                "except ($AttributeError, $TypeError):  # the mount point is gone, or somebody kept this code"
            ):
                self.line("pass")
            self.line("else:")
            body = ["    " + line for line in body]
            if self.style == "async generator":
                body.append("        return")
        elif not self.alone:
            with self.block("if $moved.run is not None:  # somebody else kept this code: step aside"):
                self.delegate("$moved.run")
        self.notes = [note._replace(line=note.line + len(self.lines) - opening) for note in self.notes]
        self.lines += body
        if links:
            self.delegate("$first()")
        return links

    def _instances(self) -> None:
        """Write the call of an instance's own function, if some instances have hooks of their own."""
        if self.instances:
            first = self.idents[0]
            with self.block(f"if $getweakrefcount({first}):  # else it has no hooks, which refer to it weakly"):
                self.line(f"$run = $instances.get($id({first}))")
                with self.block("if $run is not None:"):
                    self.delegate("$run")

    def delegate(self, callee: str) -> None:
        """Write the return of what another callable returns for this call."""
        if self.style == "async generator":
            self._relay(f"{callee}({self.passed()})", ())
            self.line("return")
            return
        lead = {"function": "return ", "coroutine": "return await ", "generator": "return (yield from "}[self.style]
        self.line(f"{lead}{callee}({self.passed()}){')' if self.style == 'generator' else ''}")

    # The outline: try, except, else, finally

    def _guarded_by_always(self) -> None:
        """Write the call with its `finally` part, and what the always hooks need to know of the outcome."""
        if self.always_wants:
            self.line("$result = $exc = None")
        with self.block("try:"):
            self._guarded_by_exception(exc="$caught")
        if self.always_wants:
            with self.block("except $BaseException as $error:"):
                self.line("$exc = $error")
                self.line("$result = None")
                if self.wants_call:
                    self.line("$call._exc, $call._result = $error, None")
                self.line("raise")
        with self.block("finally:"):
            keeps_exc = self.always_wants or any("exc" in wanted(hook) for hook in self.chain.exception)
            with self.optional("try:", needed=keeps_exc or self.wants_call):
                self._always()
            if keeps_exc or self.wants_call:
                with self.block("finally:"):
                    if keeps_exc:
                        self.line("$exc = None")
                    if self.wants_call:  # else it and the frames that it went through would keep each other alive
                        self.line("$call._exc = None")

    def _guarded_by_exception(self, exc: str = "$exc") -> None:
        """Write the `try`, `except` and `else` parts."""
        hooks = self.chain.exception
        if not hooks:
            self._try_part()
            self._post()
        else:
            with self.block("try:"):
                self._try_part()
            self._exception(exc)
            if self.chain.post or self.wants_call:
                with self.block("else:"):
                    self._post()

    # The try part

    def _try_part(self) -> None:
        skippable = bool(self.chain.pre) and not self.at_once
        with self.optional("while True:", needed=skippable):
            for group in groups(self.chain.pre):
                self._pre(group)
            self._body()
            if skippable and self.lines[-1].startswith("    " * self.depth + "$"):
                self.lines[-1] += "; break"  # on a line of its own it would be one more instruction
            elif skippable:
                self.line("break")

    def _pre(self, group: Group) -> None:
        """Write pre hooks, inside the ``while True:`` that a `Return` breaks out of."""
        looped = group.last > group.first and not self.at_once
        if looped:
            self.line("$skipped = False")
        with self.hook("pre", group) as function, self.block("if $answer is not None:"):
            with self.block("if $type($answer) is $Args:"):
                self._replace(group.hook, function)
                if self.wants_call:
                    self.line(f"$call._values = {self.values}")
            with self.block("else:"):
                self.line(self.gives + self.settled("pre", function, often=group.hook.likely_answers[1]))
                if looped:
                    self.line("$skipped = True")
                if not self.at_once:
                    self.line("break")
        if looped:
            with self.block("if $skipped:"):
                self.line("break")

    def _replace(self, hook: Hook, function: str) -> None:
        """Write what replaces arguments: in line where the hook, as most do, replaces the one that it asks for."""
        asked = [what for _, what in hook.asks if isinstance(what, int) and what < self.signature.regular]
        choice = "if"
        for place in asked if hook.likely_answers[0] else ():
            with self.block(f"{choice} $len($answer) == 1 and '${place}' in $answer:"):
                self.line(f"{self.idents[place]} = $answer['${place}']")
            choice = "elif"
        with self.optional("else:", needed=choice == "elif"):
            revise = f'$revise($site, "pre", {function}, $answer, {self.values})'
            self.line(f"{self.unpacked} = {revise}" if self.flat else revise)

    def _body(self) -> None:
        """Write the target's call, inside the around hooks; or the subscribers of an event."""
        if self.chain.around and "generator" not in self.style:
            write_around(self)
            return
        if self.chain.around:
            extra = ["$call"] if self.wants_call else []
            source = f"$inside({', '.join([*self.idents, *extra])})"
        else:
            source = self._target_call()
        emission = self.signature.emission
        if emission is not None and self.chain.on:
            write_subscribers(self, emission, f"{self.awaits}{source}")
            return
        if self.style == "async generator":
            self.line("$result = None")
            self._relay(source, self.chain.item)
        elif self.style == "generator":
            if self.chain.item:
                self._relay(source, self.chain.item)
            else:
                self.line(f"$result = yield from {source}")
        else:
            self.line(f"{self.gives}{self.awaits}{source}")

    def _target_call(self) -> str:
        """Return the call of the target."""
        signature, called = self.signature, f"$target({self.passed()})"
        if signature.varkw is None or signature.regular > signature.positional:
            return called
        # Unpacking a dict costs a copy of it, and most calls of wrappers have nothing in theirs.
        return f"({called} if {self.idents[signature.varkw]} else $target({self.passed(keywords=False)}))"

    def _relay(self, source: str, hooks: Sequence[Hook]) -> None:
        """Write out what `yield from` does (PEP 380), with each item passed through the item hooks."""
        self.line(f"$source = {source}")
        loop = self._arelay_loop if self.awaits else self._relay_loop
        with self.optional("try:", needed=bool(hooks)):
            loop(hooks)
        if hooks:
            with self.block("finally:"):
                self.line(f"{self.awaits}$source.{self.a}close()")

    def _relay_loop(self, hooks: Sequence[Hook]) -> None:
        self.line("$send, $sent, $thrown = $source.send, None, None")
        with self.block("while True:"):
            with self.block("try:"):
                with self.block("if $thrown is None:"):
                    self.line("$item = $send($sent)")
                with self.block("else:"):
                    self.line("$step, $thrown = $source.throw, [$thrown]")
                    self.line("$item = $step($thrown.pop())")
                    self.line("$thrown = None")
            with self.block("except $StopIteration as $stop:"):
                self.line("$result = $stop.value")
                self.line("break")
            self._step(hooks)
            with self.block("except $BaseException as $interrupt:"):
                self.line("$thrown = $interrupt")

    def _arelay_loop(self, hooks: Sequence[Hook]) -> None:
        self.line("$step = $start($source)")
        with self.block("while True:"):
            with self.block("try:"):
                self.line("$item = await $step")
            with self.block("except $StopAsyncIteration:"):
                self.line("break")
            with self.block("finally:"):
                self.line("$step = None")
            self._step(hooks)
            with self.block("except $BaseException as $interrupt:"):
                self.line("$step = $source.athrow($interrupt)")
            with self.block("else:"):
                self.line("$step = $source.asend($sent)")

    def _step(self, hooks: Sequence[Hook]) -> None:
        """Write the item hooks and the `yield`, up to its `except`."""
        for group in groups(hooks):
            self._value_hook("item", group, "$item")
        with self.block("try:"):
            self.line("$sent = yield $item")
        with self.block("except $GeneratorExit:"):
            self.line(f"{self.awaits}$source.{self.a}close()")
            self.line("raise")

    # The other parts

    def _post(self) -> None:
        if self.wants_call:
            self.line("$call._result = $result")
        for group in groups(self.chain.post):
            self._value_hook("post", group, "$result")

    def _value_hook(self, kind: Kind, group: Group, subject: str) -> None:
        """Write a hook whose answer, if not None, replaces its subject."""
        with self.hook(kind, group) as function, self.block("if $answer is not None:"):
            self.line(f"{subject} = $answer if $type($answer) not in $ANSWERS else {self.settled(kind, function)}")
            if kind == "post" and self.wants_call:
                self.line(f"$call._result = {subject}")

    def _exception(self, exc: str) -> None:
        hooks = self.chain.exception
        plain = all(hook.types == (Exception,) for hook in hooks)
        many = len(hooks) > 1
        with self.block(f"except ${'Exception' if plain else 'BaseException'} as {exc}:"):
            if exc != "$exc" and any("exc" in wanted(hook) for hook in hooks):
                self.line(f"$exc = {exc}")
            if self.wants_call:
                self.line(f"$call._exc = {exc}")
            self.line("$handled = False")
            with self.optional("try:", needed=many), self.block("while True:"):
                for group in groups(hooks):
                    self._exception_hook(group, exc, plain=plain, many=many)
                self.line("break")
            if many:
                with self.block("except $BaseException as $error:"):
                    rest = "$exception_hooks[$stage + 1:]"
                    self.line(f"$result = {self.awaits}${self.a}recover({rest}, {self.call()}, $error)")
                    self.line("$handled = True")
            with self.block("if not $handled:"):
                self.line("raise")
            if exc != "$exc" and (self.always_wants or any("exc" in wanted(hook) for hook in hooks)):
                self.line("$exc = None")
            if self.wants_call:
                self.line("$call._exc, $call._result = None, $result")

    def _exception_hook(self, group: Group, exc: str, *, plain: bool, many: bool) -> None:
        looped = group.last > group.first
        if many:
            self.line(f"$stage = {group.first - looped}")
        with (
            self.hook("exception", group, stage="$stage" if many else "", caught="" if plain else exc) as function,
            self.block("if $answer is not None:"),
        ):
            self.line("$result = " + self.settled("exception", function, often=True))
            self.line("$handled = True")
            self.line("break")
        if looped:
            with self.block("if $handled:"):
                self.line("break")

    def _always(self) -> None:
        hooks = self.chain.always
        many = len(hooks) > 1
        with self.optional("try:", needed=many or self.wants_call):
            for group in groups(hooks):
                looped = group.last > group.first
                if many:
                    self.line(f"$stage = {group.first - looped}")
                with self.hook("always", group, stage="$stage" if many else "") as function:
                    kind = "$type($answer)"
                    unfit = f"({kind} is $Args or {kind} is $Return)"
                    with self.block(f"if $answer is not None and {unfit}:"):
                        self.line(f'raise $wrong($site, "always", {function}, $answer)')
        if many:
            with self.block("except $BaseException as $error:"):
                rest = "$always_hooks[$stage + 1:]"
                self.line(f"{self.awaits}${self.a}finish({rest}, {self.call()}, $error)")
                self.line("raise")
        elif self.wants_call:  # a call that fails in its one always hook has no result either
            with self.block("except $BaseException:"):
                self.line("$call._result = None")
                self.line("raise")
