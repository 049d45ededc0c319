"""Law 1, written out as source: one flat function for one signature and one chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from aspecthook._core.law.asks import Kind
from aspecthook._core.law.hook import Hook

from .layers import write_layers
from .subscribers import write_subscribers
from .text import Group, Text, Writer, groups, wanted


@final
class Source(Writer):
    """Writes the whole text of one mount point's code."""

    def head(self) -> str:
        signature = self.signature
        parts = list(signature.idents[: signature.positional])
        if signature.positional_only:
            parts.insert(signature.positional_only, "/")
        keyword_only = list(signature.idents[signature.positional : signature.regular])
        if signature.varargs is not None:
            parts.append("*" + signature.idents[signature.varargs])
        elif keyword_only:
            parts.append("*")
        parts += keyword_only
        if signature.varkw is not None:
            parts.append("**" + signature.idents[signature.varkw])
        return f"{'async ' if self.awaits else ''}def {self.own('hooked')}({', '.join(parts)}):"

    def text(self) -> Text:
        """Write all of it."""
        with self.block(self.head()):
            self.hide()
            opening = len(self.lines)
            self._instances()
            if self.wants_call:
                self.line(f"{self.own('call')} = {self.lib('Call')}({self.pin('site')}, {self.values})")
            if self.chain.always:
                self._guarded_by_always()
            elif self.chain.exception and self.wants_call:
                with self.block("try:"):
                    self._guarded_by_exception()
                with self.block("finally:"):
                    self._let_go()
            else:
                self._guarded_by_exception()
            if self.style != "async generator":
                self.line(f"return {self.own('result')}")
            prologue, links = self._prologue()
        self.lines[opening:opening] = prologue
        self.notes = [note._replace(line=note.line + len(prologue)) for note in self.notes]
        if self.chain.around:
            write_layers(self)
        return self._done(links)

    def stub(self) -> Text:
        """Write the code that stands in until the first call after a change."""
        with self.block(self.head()):
            self.hide()
            self.delegate(self.pin("first") + "()")
        return self._done(())

    def empty(self) -> Text:
        """Write the code of an event that nobody listens to: it gives what there is without an answer."""
        emission = self.signature.emission
        assert emission is not None
        gives = "[]" if emission.gives == "list" else "None"
        if emission.gives == "fold":
            gives = self.signature.idents[emission.fold]
        with self.block(self.head()):
            if emission.replay:  # in one line: it stands in those of the stub
                late, made = self.own("late"), f"{self.lib('Call')}({self.pin('site')}, {self.values})"
                noted = f"({late} := {self.pin('record')}({self.values}, ()))"
                gives = f"{gives} if not {noted} else {self.lib('missed')}({late}, {made}) or {gives}"
            self.line(f"return {gives}")
        return self._done(())

    def _done(self, links: tuple[str, ...]) -> Text:
        return Text(
            "\n".join(self.lines) + "\n",
            self.pins,
            tuple(self.notes),
            links,
            tuple(self.layer_pins),
            self.own("inside"),
        )

    def _prologue(self) -> tuple[list[str], tuple[str, ...]]:
        """Write what comes first: step aside if the code is stale; unpack what may not be a constant."""
        kept, depth = self.lines, self.depth
        self.lines = []
        links: tuple[str, ...] = ()
        if self.weak:
            name, slot = self.own("links"), self.pin("slot")
            links = tuple(
                pin for pin, role in self.pins.items() if role.what.partition(" ")[0] not in ("library", "slot")
            )
            with self.block("try:"):
                self.line(f"{name} = {slot}().links")
            with self.block(f"except {self.lib('AttributeError')}:  # even the place is gone where the hooks were"):
                self.line(f"{name} = (0,)")
            with self.block(f"if {name}[0] != {self.weak}:  # somebody else kept this code: step aside"):
                self.delegate(f"{self.pin('first')}()")
            self.line(f"{self.own('_')}, {', '.join(links)} = {name}")
        else:
            with self.block(f"if {self.pin('moved')}.run is not None:  # somebody else kept this code: step aside"):
                self.delegate(f"{self.pin('moved')}.run")
        prologue, self.lines, self.depth = self.lines, kept, depth
        return prologue, links

    def _instances(self) -> None:
        if self.instances:
            run, first = self.own("run"), self.signature.idents[0]
            self.line(f"{run} = {self.pin('instances')}.get({self.lib('id')}({first}))")
            with self.block(f"if {run} is not None:"):
                self.delegate(run)

    def _guarded_by_always(self) -> None:
        result, exc, error = self.own("result"), self.own("exc"), self.own("error")
        if self.always_wants:
            self.line(f"{result} = {exc} = None")
        with self.block("try:"):
            self._guarded_by_exception(exc=self.own("caught"))
        if self.always_wants:
            with self.block(f"except {self.lib('BaseException')} as {error}:"):
                self.line(f"{exc} = {error}")
                self.line(f"{result} = None")
                if self.wants_call:
                    self.line(f"{self.own('call')}._exc, {self.own('call')}._result = {error}, None")
                self.line("raise")
        with self.block("finally:"):
            held = self.always_wants or any("exc" in wanted(hook) for hook in self.chain.exception)
            with self.optional("try:", needed=held or self.wants_call):
                self._always()
            if held or self.wants_call:
                with self.block("finally:"):
                    if held:
                        self.line(f"{exc} = None")
                    if self.wants_call:
                        self._let_go()

    def _let_go(self) -> None:
        """Forget the exception: else it and the frames that it went through would keep each other alive."""
        self.line(f"{self.own('call')}._exc = None")

    def _guarded_by_exception(self, exc: str = "") -> None:
        hooks = self.chain.exception
        if not hooks:
            self._try_part()
            self._post()
        else:
            with self.block("try:"):
                self._try_part()
            self._exception(exc or self.own("exc"))
            if self.chain.post or self.wants_call:
                with self.block("else:"):
                    self._post()
                    if not self.chain.post and not self.wants_call:
                        self.line("pass")

    # The try part

    def _try_part(self) -> None:
        with self.optional("while True:", needed=bool(self.chain.pre)):
            for group in groups(self.chain.pre):
                self._pre(group)
            self._body()
            if self.chain.pre:
                self.line("break")

    def _pre(self, group: Group) -> None:
        answer, result, skipped = self.own("answer"), self.own("result"), self.own("skipped")
        looped = group.last > group.first
        if looped:
            self.line(f"{skipped} = False")
        with self.hook("pre", group) as function, self.block(f"if {answer} is not None:"):
            with self.block(f"if {self.lib('type')}({answer}) is {self.lib('Args')}:"):
                revise = f'{self.lib("revise")}({self.pin("site")}, "pre", {function}, {answer}.changes, {self.values})'
                self.line(f"{self.unpacked} = {revise}" if self.flat else revise)
                if self.wants_call:
                    self.line(f"{self.own('call')}._values = {self.values}")
            with self.block("else:"):
                self.line(f'{result} = {self.lib("returned")}({self.pin("site")}, "pre", {function}, {answer})')
                if looped:
                    self.line(f"{skipped} = True")
                self.line("break")
        if looped:
            with self.block(f"if {skipped}:"):
                self.line("break")

    def _body(self) -> None:
        if self.chain.around:
            extra = [self.own("call")] if self.wants_call else []
            source = f"{self.pin('inside')}({', '.join([*self.signature.idents, *extra])})"
        else:
            source = f"{self.pin('target')}({self.passed()})"
        result = self.own("result")
        emission = self.signature.emission
        if emission is not None and self.chain.on and not self.chain.around:
            write_subscribers(self, emission, f"{self.awaits}{source}")
            return
        if self.style == "async generator":
            self.line(f"{result} = None")
            self._relay(source, self.chain.item)
        elif self.style == "generator":
            if self.chain.item:
                self._relay(source, self.chain.item)
            else:
                self.line(f"{result} = yield from {source}")
        else:
            self.line(f"{result} = {self.awaits}{source}")

    def _relay(self, source: str, hooks: Sequence[Hook]) -> None:
        """Write out what `yield from` does (PEP 380), with each item given to the item hooks."""
        stream = self.own("source")
        self.line(f"{stream} = {source}")
        loop = self._arelay_loop if self.awaits else self._relay_loop
        with self.optional("try:", needed=bool(hooks)):
            loop(stream, hooks)
        if hooks:
            with self.block("finally:"):
                self.line(f"{self.awaits}{stream}.{self.a}close()")

    def _relay_loop(self, stream: str, hooks: Sequence[Hook]) -> None:
        item, step, sent, thrown = self.own("item"), self.own("step"), self.own("sent"), self.own("thrown")
        self.line(f"{sent} = {thrown} = None")
        with self.block("while True:"):
            with self.block("try:"):
                with self.block(f"if {thrown} is None:"):
                    self.line(f"{item} = {stream}.send({sent})")
                with self.block("else:"):
                    self.line(f"{step}, {thrown} = {stream}.throw, [{thrown}]")
                    self.line(f"{item} = {step}({thrown}.pop())")
                    self.line(f"{thrown} = None")
            with self.block(f"except {self.lib('StopIteration')} as {self.own('stop')}:"):
                self.line(f"{self.own('result')} = {self.own('stop')}.value")
                self.line("break")
            self._step(stream, sent, item, hooks)
            with self.block(f"except {self.lib('BaseException')} as {self.own('interrupt')}:"):
                self.line(f"{thrown} = {self.own('interrupt')}")

    def _arelay_loop(self, stream: str, hooks: Sequence[Hook]) -> None:
        item, step, sent = self.own("item"), self.own("step"), self.own("sent")
        self.line(f"{step} = {self.lib('start')}({stream})")
        with self.block("while True:"):
            with self.block("try:"):
                self.line(f"{item} = await {step}")
            with self.block(f"except {self.lib('StopAsyncIteration')}:"):
                self.line("break")
            with self.block("finally:"):
                self.line(f"{step} = None")
            self._step(stream, sent, item, hooks)
            with self.block(f"except {self.lib('BaseException')} as {self.own('interrupt')}:"):
                self.line(f"{step} = {stream}.athrow({self.own('interrupt')})")
            with self.block("else:"):
                self.line(f"{step} = {stream}.asend({sent})")

    def _step(self, stream: str, sent: str, item: str, hooks: Sequence[Hook]) -> None:
        for group in groups(hooks):
            self._value_hook("item", group, item)
        with self.block("try:"):
            self.line(f"{sent} = yield {item}")
        with self.block(f"except {self.lib('GeneratorExit')}:"):
            self.line(f"{self.awaits}{stream}.{self.a}close()")
            self.line("raise")

    # The other parts

    def _post(self) -> None:
        result, call = self.own("result"), self.own("call")
        if self.wants_call:
            self.line(f"{call}._result = {result}")
        for group in groups(self.chain.post):
            self._value_hook("post", group, result)

    def _value_hook(self, kind: Kind, group: Group, subject: str) -> None:
        """Write a hook whose answer, if not None, takes the place of its subject."""
        answer = self.own("answer")
        with self.hook(kind, group) as function, self.block(f"if {answer} is not None:"):
            taken = f'{self.lib("returned")}({self.pin("site")}, "{kind}", {function}, {answer})'
            plain = f"{self.lib('type')}({answer}) not in {self.lib('ANSWERS')}"
            self.line(f"{subject} = {answer} if {plain} else {taken}")
            if kind == "post" and self.wants_call:
                self.line(f"{self.own('call')}._result = {subject}")

    def _exception(self, exc: str) -> None:
        hooks = self.chain.exception
        plain = all(hook.types == (Exception,) for hook in hooks)
        handled, error, result = self.own("handled"), self.own("error"), self.own("result")
        many = len(hooks) > 1
        with self.block(f"except {self.lib('Exception' if plain else 'BaseException')} as {exc}:"):
            if self.own("exc") != exc and any("exc" in wanted(hook) for hook in hooks):
                self.line(f"{self.own('exc')} = {exc}")
            if self.wants_call:
                self.line(f"{self.own('call')}._exc = {exc}")
            self.line(f"{handled} = False")
            with self.optional("try:", needed=many), self.block("while True:"):
                for group in groups(hooks):
                    self._exception_hook(group, exc, plain=plain, many=many)
                self.line("break")
            if many:
                with self.block(f"except {self.lib('BaseException')} as {error}:"):
                    rest = f"{self.pin('exception_hooks')}[{self.own('stage')} + 1:]"
                    self.line(f"{result} = {self.awaits}{self.lib(self.a + 'recover')}({rest}, {self.call()}, {error})")
                    self.line(f"{handled} = True")
            with self.block(f"if not {handled}:"):
                self.line("raise")
            if self.own("exc") != exc and (self.always_wants or any("exc" in wanted(hook) for hook in hooks)):
                self.line(f"{self.own('exc')} = None")
            if self.wants_call:
                self.line(f"{self.own('call')}._exc, {self.own('call')}._result = None, {result}")

    def _exception_hook(self, group: Group, exc: str, *, plain: bool, many: bool) -> None:
        answer, handled, stage = self.own("answer"), self.own("handled"), self.own("stage")
        looped = group.last > group.first
        if many:
            self.line(f"{stage} = {group.first - looped}")
        with (
            self.hook("exception", group, stage=stage if many else "", caught="" if plain else exc) as function,
            self.block(f"if {answer} is not None:"),
        ):
            with self.block(f"if {self.lib('type')}({answer}) is not {self.lib('Return')}:"):
                self.line(self.wrong("exception", function))
            self.line(f"{self.own('result')} = {answer}.value")
            self.line(f"{handled} = True")
            self.line("break")
        if looped:
            with self.block(f"if {handled}:"):
                self.line("break")

    def _always(self) -> None:
        hooks = self.chain.always
        many = len(hooks) > 1
        stage, error, answer = self.own("stage"), self.own("error"), self.own("answer")
        with self.optional("try:", needed=many or self.wants_call):
            for group in groups(hooks):
                looped = group.last > group.first
                if many:
                    self.line(f"{stage} = {group.first - looped}")
                with self.hook("always", group, stage=stage if many else "") as function:
                    kind = f"{self.lib('type')}({answer})"
                    unfit = f"({kind} is {self.lib('Args')} or {kind} is {self.lib('Return')})"
                    with self.block(f"if {answer} is not None and {unfit}:"):
                        self.line(self.wrong("always", function))
        if many:
            with self.block(f"except {self.lib('BaseException')} as {error}:"):
                rest = f"{self.pin('always_hooks')}[{stage} + 1:]"
                self.line(f"{self.awaits}{self.lib(self.a + 'finish')}({rest}, {self.call()}, {error})")
                self.line("raise")
        elif self.wants_call:  # a call that fails in its one always hook has no result either
            with self.block(f"except {self.lib('BaseException')}:"):
                self.line(f"{self.own('call')}._result = None")
                self.line("raise")
