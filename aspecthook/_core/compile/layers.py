"""What takes the place of the target's call, as source: around hooks, and the subscribers of an event.

The first around hook is written into the call itself, those inside it are layers.

Layers are closures, linked from the inside out. Around a generator, all hooks are layers: each returns a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from aspecthook._core.law.signature import Emission

from .text import Group, Writer, groups


def write_around(writer: Writer) -> None:
    """Write the first around hook of a function or coroutine function, which leaves the result in ``result``."""
    inner = len(writer.chain.around) > 1 or writer.chain.on
    _around(writer, 0, "$inside" if inner else "$target")


def write_layers(writer: Writer) -> None:
    """Write the function that links the layers, if there are any."""
    emission = writer.signature.emission
    subscribed = emission is not None and writer.chain.on
    outermost = 0 if "generator" in writer.style else 1
    if len(writer.chain.around) == outermost and not subscribed:
        return
    opening = len(writer.lines)
    writer.depth = 1
    inner = "$target"
    if emission is not None and subscribed:
        with _layer(writer, "$reach", waits=bool(writer.awaits)):
            write_subscribers(writer, emission, f"{writer.awaits}{_called(writer, inner)}")
            writer.line("return $result")
        inner = "$reach"
    for place in reversed(range(outermost, len(writer.chain.around))):
        layer = f"$layer_{place + 1}"
        with _layer(writer, layer, waits=writer.style == "coroutine"):
            if "generator" in writer.style:
                _stream(writer, place, inner)
            else:
                _around(writer, place, inner)
                writer.line("return $result")
        inner = layer
    writer.line(f"return {inner}")
    writer.layer_pins = writer.pins_in(writer.lines[opening:])
    writer.lines[opening:opening] = ["", f"def $linked({', '.join(['$' + pin for pin in writer.layer_pins])}):"]
    writer.notes = [n._replace(line=n.line + 2) if n.line >= opening else n for n in writer.notes]


@contextmanager
def _layer(writer: Writer, name: str, *, waits: bool) -> Generator[None]:
    """Write the head of a layer, and inside the `with` its body."""
    with writer.block(f"{'async ' if waits else ''}def {name}({_passed(writer, name)}):"):
        writer.hide()
        yield


def _called(writer: Writer, inner: str) -> str:
    """Return the call of what is inside."""
    return f"{inner}({_passed(writer, inner)})"


def _passed(writer: Writer, inner: str) -> str:
    """Return the arguments of what is inside: the target, or a layer, which takes all of them by position."""
    if inner == "$target":
        return writer.passed()
    return ", ".join([*writer.idents, *([writer.handed] if writer.wants_call else [])])


# Around a function or a coroutine function: the hook leaves the result in ``result``.


def _around(writer: Writer, place: int, inner: str) -> None:
    hook = writer.chain.around[place]
    group = Group(hook, place, place)
    names = writer.names_of("around", group)
    conditions = writer.conditions(hook, names)
    with writer.optional(f"if {conditions}:", needed=bool(conditions)):
        with writer.optional("try:", needed=hook.leaves):
            (_proceeding if hook.proceeds else _one_yield)(writer, group, names["function"], inner)
        if hook.leaves:
            with writer.block("finally:"):
                writer.line("$run.leave()")
    if conditions:
        with writer.block("else:"):
            writer.line(f"$result = {writer.awaits}{_called(writer, inner)}")


def _proceeding(writer: Writer, group: Group, function: str, inner: str) -> None:
    (_aproceed if writer.awaits else _proceed)(writer, function, inner)
    writer.note("around", group.first, group.last)
    writer.ask(group.hook, {"function": function})
    if writer.awaits:
        with writer.block("if $type($answer) is $CoroutineType and $answer not in $given:"):
            writer.line("$answer = await $answer")
    writer.line(f"$result = $answer if $type($answer) not in $ANSWERS else {writer.settled('around', function)}")


def _proceed(writer: Writer, function: str, inner: str) -> None:
    with writer.block("def $proceed(*$unnamed, **$changes):"):
        writer.hide()
        _refuse_unnamed(writer, function)
        with writer.block("if $changes:"), _changed(writer, function):
            writer.line(f"return {_called(writer, inner)}")
        writer.line(f"return {_called(writer, inner)}")


def _aproceed(writer: Writer, function: str, inner: str) -> None:
    """Write an async `proceed`, which remembers the coroutines that it returns: they are results of the target.

    A coroutine that the hook answers, and that is not among them, is awaited.
    """
    writer.line("$given = ()")
    with writer.block("async def $proceed(*$unnamed, **$changes):"):
        writer.hide()
        writer.line("nonlocal $given")
        _refuse_unnamed(writer, function)
        with writer.block("if $changes:"), _changed(writer, function):
            writer.line(f"$result = await {_called(writer, inner)}")
        with writer.block("else:"):
            writer.line(f"$result = await {_called(writer, inner)}")
        with writer.block("if $type($result) is $CoroutineType:"):
            writer.line("$given = (*$given, $result)")
        writer.line("return $result")


def _refuse_unnamed(writer: Writer, function: str) -> None:
    with writer.block("if $unnamed:"):
        writer.line(f"raise $unnamed_values($site, {function}, $unnamed)")


@contextmanager
def _changed(writer: Writer, function: str) -> Generator[None]:
    """Write what changes arguments; inside the `with`, the changed ones are passed.

    They have names of their own, and a call of their own: another `proceed()` runs with the arguments as they were.
    """
    before = writer.idents, writer.handed
    writer.idents = [f"$new_{n + 1}" for n in range(len(writer.idents))]
    changed = f"[{', '.join(writer.idents)}]"
    writer.handed = f"$call._revised({changed})"
    writer.line(f'{changed} = $revise($site, "around", {function}, $changes, {writer.values})')
    yield
    writer.idents, writer.handed = before


def _one_yield(writer: Writer, group: Group, function: str, inner: str) -> None:
    is_async = group.hook.style == "async generator"
    waits, a = ("await ", "a") if is_async else ("", "")
    common = f"$site, {function}, $hook"
    writer.note("around", group.first, group.last)
    writer.line(f"$hook = {function}({writer.given(group.hook.asks, 'around', function)})")
    if is_async:
        writer.line(f"await $abegin({common})")
    else:
        with writer.block("if $next($hook, $ENDED) is $ENDED:"):
            writer.line(f"raise $never_yielded($site, {function})")
    with writer.block("try:"):
        writer.line(f"$result = {writer.awaits}{_called(writer, inner)}")
    with writer.block("except $BaseException as $error:"):
        writer.line(f"$answer = {waits}${a}failed({common}, $error)")
        if writer.awaits and not is_async:
            writer.await_answer()
        with writer.block("if $answer is None:"):
            writer.line("raise")
        writer.line(f"$result = {writer.settled('around', function)}")
    with writer.block("else:"):
        writer.line(f"$answer = {waits}${a}ended({common}, $result)")
        if writer.awaits and not is_async:
            writer.await_answer()
        with writer.block("if $answer is not None:"):
            writer.line(f"$result = {writer.settled('around', function)}")


# Around a generator: the layer returns a stream.


def _stream(writer: Writer, place: int, inner: str) -> None:
    """Write a layer that returns a stream; conditions are checked at its first step, when the call begins."""
    hook = writer.chain.around[place]
    group = Group(hook, place, place)
    names = writer.names_of("around", group)
    conditions = writer.conditions(hook, names)
    if not conditions:
        _opened_stream(writer, group, names["function"], inner)
        return
    with writer.block("def $opened():"):
        writer.hide()
        with writer.block(f"if not ({conditions}):"):
            writer.line(f"return {_called(writer, inner)}")
        _opened_stream(writer, group, names["function"], inner)
    writer.line(f"return ${'arelay' if writer.a else 'lazy'}($opened)")


def _opened_stream(writer: Writer, group: Group, function: str, inner: str) -> None:
    """Write the stream of a hook whose conditions hold."""
    a, hook = writer.a, group.hook
    called = f"$site, {function}, {function}({writer.given(hook.asks, 'around', function)})"
    if hook.proceeds:
        _proceed(writer, function, inner)
    with writer.optional("try:", needed=hook.leaves):
        writer.note("around", group.first, group.last)
        if hook.proceeds:
            writer.line(f"$source = ${a}stream({called})")
        else:
            opening = ", ".join(filter(None, [inner, _passed(writer, inner)]))
            opened = f"$partial({opening})"
            within = f"$arelay({opened}, None, ({called}))" if a else f"$within({called}, {opened})"
            writer.line(f"$source = {within}")
    if hook.leaves:
        with writer.block("except $BaseException:"):
            writer.line("$run.leave()")
            writer.line("raise")
    writer.line(f"return ${a}relay($source, $run.leave)" if hook.leaves else "return $source")


# The body of an event: its subscribers, one after another, and what becomes of their answers. `emit`
# in `tests/oracle/law.py` does the same by interpretation.


def write_subscribers(writer: Writer, emission: Emission, target: str) -> None:
    """Write what replaces the target's call in an event; the generated code leaves the result in ``result``."""
    if emission.gives == "first":
        _first(writer, emission, target)
    elif emission.gives == "fold":
        _fold(writer, emission.fold)
    else:
        _list(writer)


def _answered(writer: Writer, function: str) -> str:
    """Return the value of an answer."""
    value = f"$answer if $type($answer) not in $ANSWERS else {writer.settled('on', function)}"
    emission = writer.signature.emission
    if emission is None or not emission.checked:
        return value
    folded = writer.idents[emission.fold] if emission.gives == "fold" else "None"
    return f"$site.fits($site, {function}, {value}, {folded})"


def _each(writer: Writer, then: Callable[[Group, str], None]) -> None:
    """Write all subscribers; `then` writes what to do with an answer."""
    for group in groups(writer.chain.on):
        with writer.hook("on", group) as function, writer.block("if $answer is not None:"):
            then(group, function)


def _list(writer: Writer) -> None:
    writer.line("$result = []")
    _each(writer, lambda _, function: writer.line(f"$result.append({_answered(writer, function)})"))


def _fold(writer: Writer, place: int) -> None:
    # The argument itself stays as it was: post and always hooks see what the caller passed.
    writer.line(f"$result = {writer.idents[place]}")
    kept, writer.idents[place] = writer.idents[place], "$result"
    _each(writer, lambda _, function: writer.line(f"$result = {_answered(writer, function)}"))
    writer.idents[place] = kept


def _first(writer: Writer, emission: Emission, target: str) -> None:
    all_groups = list(groups(writer.chain.on))
    looped = any(group.last > group.first for group in all_groups)
    with writer.block("while True:"):
        if looped:
            writer.line("$found = False")
        for group in all_groups:
            with writer.hook("on", group) as function, writer.block("if $answer is not None:"):
                writer.line(f"$result = {_answered(writer, function)}")
                if group.last > group.first:
                    writer.line("$found = True")
                writer.line("break")
            if group.last > group.first:
                with writer.block("if $found:"):
                    writer.line("break")
        writer.line(f"$result = {target if emission.default else None}")
        writer.line("break")
