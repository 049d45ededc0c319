"""Around hooks as source: layers, which are closures linked from the inside out, the first hook outermost."""

from __future__ import annotations

from .subscribers import write_subscribers
from .text import Group, Writer


def write_layers(writer: Writer) -> None:
    """Write the function that links the layers. They are real closures, which the garbage collector traverses."""
    opening = len(writer.lines)
    writer.depth = 1
    extra = ["$call"] if writer.wants_call else []
    flat = ", ".join([*writer.idents, *extra])
    inner, direct = "$reach", f"$target({writer.passed()})"
    emission = writer.signature.emission
    if emission is not None and writer.chain.on:
        with writer.block(f"{writer.awaits.replace('await', 'async')}def $reach({flat}):"):
            writer.hide()
            write_subscribers(writer, emission, f"{writer.awaits}{direct}")
            writer.line("return $result")
        direct = f"$reach({flat})"
    else:
        with writer.block(f"def $reach({flat}):"):
            writer.hide()
            writer.line(f"return {direct}")
    for place in reversed(range(len(writer.chain.around))):
        layer = f"$layer_{place + 1}"
        asynchronous = "async " if writer.style == "coroutine" else ""
        with writer.block(f"{asynchronous}def {layer}({flat}):"):
            writer.hide()
            _layer(writer, place, inner, direct)
        inner, direct = layer, f"{layer}({flat})"
    writer.line(f"return {inner}")
    writer.layer_pins = writer.pins_in(writer.lines[opening:])
    writer.lines[opening:opening] = ["", f"def $linked({', '.join(['$' + pin for pin in writer.layer_pins])}):"]
    writer.notes = [n._replace(line=n.line + 2) if n.line >= opening else n for n in writer.notes]


def _layer(writer: Writer, place: int, inner: str, direct: str) -> None:
    hook = writer.chain.around[place]
    group = Group(hook, place, place)
    names = writer.names_of("around", group)
    waits = "await " if writer.style == "coroutine" else ""
    conditions = writer.conditions(hook, names)
    if "generator" in writer.style:
        _stream_layer(writer, group, names, inner, direct, conditions)
        return
    if conditions:
        with writer.block(f"if not ({conditions}):"):
            writer.line(f"return {waits}{direct}")
    with writer.optional("try:", needed=hook.leaves):
        if hook.proceeds:
            (_aproceed if waits else _proceed)(writer, names["function"], inner, direct)
            _around_answer(writer, group, names["function"])
        else:
            (_one_yield_awaited if waits else _one_yield)(writer, group, names["function"], waits + direct)
    if hook.leaves:
        with writer.block("finally:"):
            writer.line("$run.leave()")


def _proceed(writer: Writer, function: str, inner: str, direct: str) -> None:
    with writer.block("def $proceed(*$unnamed, **$changes):"):
        writer.hide()
        with writer.block("if $changes or $unnamed:"):
            writer.line(f"return {_changed(writer, function, inner)}")
        writer.line(f"return {direct}")


def _aproceed(writer: Writer, function: str, inner: str, direct: str) -> None:
    """Write an async `proceed`, which remembers the coroutines that it returns: they are results of the target.

    A coroutine that the hook answers, and that is not among them, is awaited.
    """
    writer.line("$given = ()")
    with writer.block("async def $proceed(*$unnamed, **$changes):"):
        writer.hide()
        writer.line("nonlocal $given")
        with writer.block("if $changes or $unnamed:"):
            writer.line(f"$result = await {_changed(writer, function, inner)}")
        with writer.block("else:"):
            writer.line(f"$result = await {direct}")
        with writer.block("if $type($result) is $CoroutineType:"):
            writer.line("$given = (*$given, $result)")
        writer.line("return $result")


def _changed(writer: Writer, function: str, inner: str) -> str:
    """Return the call of the next layer with changed arguments."""
    made = f"$proceed_with($site, {function}, $unnamed, $changes, {writer.values})"
    extra = ", $call" if writer.wants_call else ""
    return f"{inner}(*{made}{extra})"


def _around_answer(writer: Writer, group: Group, function: str) -> None:
    """Write the call of a hook that proceeds, and the reading of its answer."""
    writer.note("around", group)
    writer.ask(group.hook, {"function": function})
    if writer.style == "coroutine":
        with writer.block("if $type($answer) is $CoroutineType and $answer not in $given:"):
            writer.line("$answer = await $answer")
    with writer.block("if $type($answer) is $Return:"):
        writer.line("return $answer.value")
    with writer.block("if $type($answer) is $Args:"):
        writer.line(writer.wrong("around", function))
    writer.line("return $answer")


def _begun(writer: Writer, group: Group, function: str, direct: str) -> str:
    """Write the beginning of a one-yield hook and the inner call, up to its `except`.

    Returns:
        The arguments that `begin`, `end` and the like all take.
    """
    waits, a = ("await ", "a") if group.hook.flavour == "async generator" else ("", "")
    common = f"$site, {function}, $hook"
    writer.note("around", group)
    writer.line(f"$hook = {function}({writer.given(group.hook.asks, 'around', function)})")
    writer.line(f"{waits}${a}begin({common})")
    with writer.block("try:"):
        writer.line(f"$result = {direct}")
    return common


def _one_yield(writer: Writer, group: Group, function: str, direct: str) -> None:
    waits, a = ("await ", "a") if group.hook.flavour == "async generator" else ("", "")
    common = _begun(writer, group, function, direct)
    with writer.block("except $BaseException as $error:"):
        writer.line(f"return {waits}${a}fail({common}, $error)")
    if a:  # an async generator returns no answer
        writer.line(f"await $aended({common}, $result)")
        writer.line("return $result")
    else:
        writer.line(f"return $end({common}, $result)")


def _one_yield_awaited(writer: Writer, group: Group, function: str, direct: str) -> None:
    """Write a one-yield hook of an async function: the answer of a sync hook is awaited if it is awaitable."""
    if group.hook.flavour == "async generator":  # it returns no answer
        _one_yield(writer, group, function, direct)
        return
    settled = f'$settled($site, "around", {function}, $answer)'
    common = _begun(writer, group, function, direct)
    with writer.block("except $BaseException as $error:"):
        writer.line(f"$answer = $failed({common}, $error)")
        writer.await_answer()
        with writer.block("if $answer is None:"):
            writer.line("raise")
        writer.line(f"return {settled}")
    writer.line(f"$answer = $ended({common}, $result)")
    writer.await_answer()
    writer.line(f"return $result if $answer is None else {settled}")


def _stream_layer(
    writer: Writer, group: Group, names: dict[str, str], inner: str, direct: str, conditions: str
) -> None:
    """Write a layer that returns a stream; conditions are checked at its first step, when the call begins."""
    if not conditions:
        _opened_stream(writer, group, names["function"], inner, direct)
        return
    with writer.block("def $opened():"):
        writer.hide()
        with writer.block(f"if not ({conditions}):"):
            writer.line(f"return {direct}")
        _opened_stream(writer, group, names["function"], inner, direct)
    writer.line(f"return ${writer.a}lazy($opened)")


def _opened_stream(writer: Writer, group: Group, function: str, inner: str, direct: str) -> None:
    """Write the stream of a hook whose conditions hold."""
    a, leave = writer.a, "$run.leave"
    called = f"{function}({writer.given(group.hook.asks, 'around', function)})"
    if not group.hook.proceeds:
        writer.note("around", group)
        ends = leave if group.hook.leaves else "None"
        writer.line(f"return ${a}within($site, {function}, {called}, {direct}, {ends})")
        return
    _proceed(writer, function, inner, direct)
    with writer.optional("try:", needed=group.hook.leaves):
        writer.note("around", group)
        writer.line(f"$source = ${a}stream($site, {function}, {called})")
    if not group.hook.leaves:
        writer.line("return $source")
        return
    with writer.block("except $BaseException:"):
        writer.line(f"{leave}()")
        writer.line("raise")
    writer.line(f"return ${a}relay($source, {leave})")
