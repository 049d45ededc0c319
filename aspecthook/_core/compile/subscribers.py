"""The body of an event as source: its subscribers, one after another, and what becomes of their answers.

It does what `law.emit` and `tally` do by interpretation.
"""

from __future__ import annotations

from collections.abc import Callable

from aspecthook._core.law.signature import Emission

from .text import Group, Writer, groups


def write_subscribers(writer: Writer, emission: Emission, target: str) -> None:
    """Write what replaces the target's call in an event; the generated code leaves the result in ``result``."""
    if emission.replay:
        writer.line(f"$late = $record({writer.values}, $on_hooks)")
    if emission.gather:
        call = writer.call()
        writer.note("on", Group(writer.chain.on[0], 0, len(writer.chain.on) - 1))
        writer.line(f"$result = await $agathered($on_hooks, {call}, {writer.values})")
        return
    if not emission.group:
        _subscribers(writer, emission, target)
        return
    writer.line("$slips = []")
    with writer.block("try:"):
        _subscribers(writer, emission, target)
        with writer.block("if $slips:"):
            writer.line("raise $together($site, $slips)")
    with writer.block("finally:"):  # else they and the frame, which is in their tracebacks, keep each other alive
        writer.line("$slips = None")


def _subscribers(writer: Writer, emission: Emission, target: str) -> None:
    if emission.gives == "first":
        _first(writer, emission, target)
    elif emission.gives == "fold":
        _fold(writer, emission.fold)
    else:
        _list(writer)
    if emission.replay:
        with writer.block("if $late:  # subscribed since this call began"):
            # They get the arguments that the other subscribers got, which around hooks may have replaced.
            failures = ", $slips" if emission.group else ""
            writer.line(f"$missed($late, $Call($site, {writer.values}){failures})")


def _answered(writer: Writer, function: str) -> str:
    """Return the value of an answer."""
    value = f'$answer if $type($answer) not in $ANSWERS else $returned($site, "on", {function}, $answer)'
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
        if emission.group and emission.default:
            _body_after_failures(writer, f"$result = {target}")
        else:
            writer.line(f"$result = {target if emission.default else None}")
        writer.line("break")


def _body_after_failures(writer: Writer, asked: str) -> None:
    """Write the call of the stub's body, whose failure is grouped with those of the subscribers before it."""
    with writer.block("try:"):
        writer.line(asked)
    with writer.block("except $Exception as $slip:"):
        with writer.block("if not $slips:"):
            writer.line("raise")
        writer.line("$slips.append($slip)")
