"""The body of an event, written out as source: its subscribers, one after another, and their answers."""

from __future__ import annotations

from collections.abc import Callable

from aspecthook._core.law.signature import Emission

from .text import Group, Writer, groups


def write_subscribers(writer: Writer, emission: Emission, target: str) -> None:
    """Write what takes the place of the target's call: it leaves the answer of the event in ``result``."""
    late = writer.own("late")
    if emission.replay:
        writer.line(f"{late} = {writer.pin('record')}({writer.values}, {writer.pin('on_hooks')})")
    if emission.gather:
        hooks, call = writer.pin("on_hooks"), writer.call()
        writer.note("on", Group(writer.chain.on[0], 0, len(writer.chain.on) - 1))
        writer.line(f"{writer.own('result')} = await {writer.lib('agathered')}({hooks}, {call}, {writer.values})")
        return
    if not emission.group:
        _subscribers(writer, emission, target, late)
        return
    slips = writer.own("slips")
    writer.line(f"{slips} = []")
    with writer.block("try:"):
        _subscribers(writer, emission, target, late)
        with writer.block(f"if {slips}:"):
            writer.line(f"raise {writer.lib('together')}({writer.pin('site')}, {slips})")
    with writer.block("finally:"):  # else they and this frame, which is in their tracebacks, keep each other alive
        writer.line(f"{slips} = None")


def _subscribers(writer: Writer, emission: Emission, target: str, late: str) -> None:
    if emission.gives == "first":
        _first(writer, emission, target)
    elif emission.gives == "fold":
        _fold(writer, emission.fold)
    else:
        _list(writer)
    if emission.replay:
        with writer.block(f"if {late}:  # subscribed since this call began"):
            # What the others are told, which around hooks may have changed.
            made = f"{writer.lib('Call')}({writer.pin('site')}, {writer.values})"
            slips = f", {writer.own('slips')}" if emission.group else ""
            writer.line(f"{writer.lib('missed')}({late}, {made}{slips})")


def _answered(writer: Writer, function: str) -> str:
    """Write the value of an answer."""
    answer = writer.own("answer")
    taken = f'{writer.lib("returned")}({writer.pin("site")}, "on", {function}, {answer})'
    value = f"{answer} if {writer.lib('type')}({answer}) not in {writer.lib('ANSWERS')} else {taken}"
    emission = writer.signature.emission
    if emission is None or not emission.checked:
        return value
    folded = writer.idents[emission.fold] if emission.gives == "fold" else "None"
    return f"{writer.pin('site')}.fits({writer.pin('site')}, {function}, {value}, {folded})"


def _each(writer: Writer, then: Callable[[Group, str], None]) -> None:
    for group in groups(writer.chain.on):
        with writer.hook("on", group) as function, writer.block(f"if {writer.own('answer')} is not None:"):
            then(group, function)


def _list(writer: Writer) -> None:
    result = writer.own("result")
    writer.line(f"{result} = []")
    _each(writer, lambda _, function: writer.line(f"{result}.append({_answered(writer, function)})"))


def _fold(writer: Writer, place: int) -> None:
    # The argument itself stays what it was: post and always hooks, and the caller's other hooks, see what was passed.
    result = writer.own("result")
    writer.line(f"{result} = {writer.idents[place]}")
    kept, writer.idents[place] = writer.idents[place], result
    _each(writer, lambda _, function: writer.line(f"{result} = {_answered(writer, function)}"))
    writer.idents[place] = kept


def _first(writer: Writer, emission: Emission, target: str) -> None:
    result, found = writer.own("result"), writer.own("found")
    rows = list(groups(writer.chain.on))
    looped = any(group.last > group.first for group in rows)
    with writer.block("while True:"):
        if looped:
            writer.line(f"{found} = False")
        for group in rows:
            with writer.hook("on", group) as function, writer.block(f"if {writer.own('answer')} is not None:"):
                writer.line(f"{result} = {_answered(writer, function)}")
                if group.last > group.first:
                    writer.line(f"{found} = True")
                writer.line("break")
            if group.last > group.first:
                with writer.block(f"if {found}:"):
                    writer.line("break")
        if emission.group and emission.default:
            _body_after_failures(writer, f"{result} = {target}")
        else:
            writer.line(f"{result} = {target if emission.default else None}")
        writer.line("break")


def _body_after_failures(writer: Writer, asked: str) -> None:
    """Ask the stub's body, whose failure must not make those before it unheard."""
    slip, slips = writer.own("slip"), writer.own("slips")
    with writer.block("try:"):
        writer.line(asked)
    with writer.block(f"except {writer.lib('Exception')} as {slip}:"):
        with writer.block(f"if not {slips}:"):
            writer.line("raise")
        writer.line(f"{slips}.append({slip})")
