"""Around hooks as layers: closures, linked from the inside out, the first hook outermost."""

from __future__ import annotations

from .subscribers import write_subscribers
from .text import Group, Writer


def write_layers(writer: Writer) -> None:
    """Write a function that links the layers; they are real closures, which the garbage collector can see into."""
    opening = len(writer.lines)
    writer.in_layers = True
    writer.depth = 1
    extra = [writer.own("call")] if writer.wants_call else []
    flat = ", ".join([*writer.signature.idents, *extra])
    reach = writer.own("reach")
    inner, direct = reach, f"{writer.pin('target')}({writer.passed()})"
    emission = writer.signature.emission
    if emission is not None and writer.chain.on:
        with writer.block(f"{writer.awaits.replace('await', 'async')}def {reach}({flat}):"):
            writer.hide()
            write_subscribers(writer, emission, f"{writer.awaits}{direct}")
            writer.line(f"return {writer.own('result')}")
        direct = f"{reach}({flat})"
    else:
        with writer.block(f"def {reach}({flat}):"):
            writer.hide()
            writer.line(f"return {direct}")
    for place in reversed(range(len(writer.chain.around))):
        layer = writer.own(f"layer_{place + 1}")
        asynchronous = "async " if writer.style == "coroutine" else ""
        with writer.block(f"{asynchronous}def {layer}({flat}):"):
            writer.hide()
            _layer(writer, place, inner, direct)
        inner, direct = layer, f"{layer}({flat})"
    writer.line(f"return {inner}")
    head = ["", f"def {writer.own('linked')}({', '.join(writer.layer_pins)}):"]
    writer.lines[opening:opening] = head
    writer.notes = [n._replace(line=n.line + 2) if n.line >= opening else n for n in writer.notes]


def _layer(writer: Writer, place: int, inner: str, direct: str) -> None:
    hook = writer.chain.around[place]
    group = Group(hook, place, place)
    names = writer.row("around", group)
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
            writer.line(f"{writer.own('run')}.leave()")


def _proceed(writer: Writer, function: str, inner: str, direct: str) -> None:
    unnamed, changes = writer.own("unnamed"), writer.own("changes")
    with writer.block(f"def {writer.own('proceed')}(*{unnamed}, **{changes}):"):
        writer.hide()
        with writer.block(f"if {changes} or {unnamed}:"):
            writer.line(f"return {_changed(writer, function, inner)}")
        writer.line(f"return {direct}")


def _aproceed(writer: Writer, function: str, inner: str, direct: str) -> None:
    """Write a `proceed` to be awaited, which notes the coroutines that it gives: they are results, not answers."""
    unnamed, changes = writer.own("unnamed"), writer.own("changes")
    result, given = writer.own("result"), writer.own("given")
    writer.line(f"{given} = ()")
    with writer.block(f"async def {writer.own('proceed')}(*{unnamed}, **{changes}):"):
        writer.hide()
        writer.line(f"nonlocal {given}")
        with writer.block(f"if {changes} or {unnamed}:"):
            writer.line(f"{result} = await {_changed(writer, function, inner)}")
        with writer.block("else:"):
            writer.line(f"{result} = await {direct}")
        with writer.block(f"if {writer.lib('type')}({result}) is {writer.lib('CoroutineType')}:"):
            writer.line(f"{given} = (*{given}, {result})")
        writer.line(f"return {result}")


def _changed(writer: Writer, function: str, inner: str) -> str:
    """Write the call of what is inside with other arguments."""
    unnamed, changes = writer.own("unnamed"), writer.own("changes")
    made = f"{writer.lib('proceed_with')}({writer.pin('site')}, {function}, {unnamed}, {changes}, {writer.values})"
    extra = f", {writer.own('call')}" if writer.wants_call else ""
    return f"{inner}(*{made}{extra})"


def _around_answer(writer: Writer, group: Group, function: str) -> None:
    answer = writer.own("answer")
    writer.note("around", group)
    writer.ask(group.hook, {"function": function})
    if writer.style == "coroutine":
        new = (
            f"{writer.lib('type')}({answer}) is {writer.lib('CoroutineType')} and {answer} not in {writer.own('given')}"
        )
        with writer.block(f"if {new}:"):
            writer.line(f"{answer} = await {answer}")
    with writer.block(f"if {writer.lib('type')}({answer}) is {writer.lib('Return')}:"):
        writer.line(f"return {answer}.value")
    with writer.block(f"if {writer.lib('type')}({answer}) is {writer.lib('Args')}:"):
        writer.line(writer.wrong("around", function))
    writer.line(f"return {answer}")


def _begun(writer: Writer, group: Group, function: str, direct: str) -> tuple[str, str, str]:
    """Write how a one-yield hook begins and the inner call is made, up to its `except`.

    Return what every helper of the hook is given, and the names of the result and of the exception.
    """
    hook, result, error = writer.own("hook"), writer.own("result"), writer.own("error")
    waits, a = ("await ", "a") if group.hook.flavour == "async generator" else ("", "")
    common = f"{writer.pin('site')}, {function}, {hook}"
    writer.note("around", group)
    writer.line(f"{hook} = {function}({writer.given(group.hook.asks, 'around', function)})")
    writer.line(f"{waits}{writer.lib(a + 'begin')}({common})")
    with writer.block("try:"):
        writer.line(f"{result} = {direct}")
    return common, result, error


def _one_yield(writer: Writer, group: Group, function: str, direct: str) -> None:
    waits, a = ("await ", "a") if group.hook.flavour == "async generator" else ("", "")
    common, result, error = _begun(writer, group, function, direct)
    with writer.block(f"except {writer.lib('BaseException')} as {error}:"):
        writer.line(f"return {waits}{writer.lib(a + 'fail')}({common}, {error})")
    writer.line(f"return {waits}{writer.lib(a + 'end')}({common}, {result})")


def _one_yield_awaited(writer: Writer, group: Group, function: str, direct: str) -> None:
    """Write a one-yield hook of an async function: what a sync one answers is awaited if it can be."""
    if group.hook.flavour == "async generator":  # it answers nothing
        _one_yield(writer, group, function, direct)
        return
    answer, site = writer.own("answer"), writer.pin("site")
    settled = f'{writer.lib("settled")}({site}, "around", {function}, {answer})'
    common, result, error = _begun(writer, group, function, direct)
    with writer.block(f"except {writer.lib('BaseException')} as {error}:"):
        writer.line(f"{answer} = {writer.lib('failed')}({common}, {error})")
        writer.await_answer()
        with writer.block(f"if {answer} is None:"):
            writer.line("raise")
        writer.line(f"return {settled}")
    writer.line(f"{answer} = {writer.lib('ended')}({common}, {result})")
    writer.await_answer()
    writer.line(f"return {result} if {answer} is None else {settled}")


def _stream_layer(
    writer: Writer, group: Group, names: dict[str, str], inner: str, direct: str, conditions: str
) -> None:
    """Write a layer that answers a stream; whether a hook with conditions acts is settled at its first step."""
    if not conditions:
        _opened_stream(writer, group, names["function"], inner, direct)
        return
    opened = writer.own("opened")
    with writer.block(f"def {opened}():"):
        writer.hide()
        with writer.block(f"if not ({conditions}):"):
            writer.line(f"return {direct}")
        _opened_stream(writer, group, names["function"], inner, direct)
    writer.line(f"return {writer.lib(writer.a + 'lazy')}({opened})")


def _opened_stream(writer: Writer, group: Group, function: str, inner: str, direct: str) -> None:
    a, leave = writer.a, f"{writer.own('run')}.leave"
    called = f"{function}({writer.given(group.hook.asks, 'around', function)})"
    if not group.hook.proceeds:
        writer.note("around", group)
        held = leave if group.hook.leaves else "None"
        writer.line(f"return {writer.lib(a + 'within')}({writer.pin('site')}, {function}, {called}, {direct}, {held})")
        return
    _proceed(writer, function, inner, direct)
    source = writer.own("source")
    with writer.optional("try:", needed=group.hook.leaves):
        writer.note("around", group)
        writer.line(f"{source} = {writer.lib(a + 'stream')}({writer.pin('site')}, {function}, {called})")
    if not group.hook.leaves:
        writer.line(f"return {source}")
        return
    with writer.block(f"except {writer.lib('BaseException')}:"):
        writer.line(f"{leave}()")
        writer.line("raise")
    writer.line(f"return {writer.lib(a + 'relay')}({source}, {leave})")
