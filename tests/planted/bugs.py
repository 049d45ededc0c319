"""The planted bugs: small mistakes in the core, of the sort that a change might make.

Each replaces one short text, which occurs exactly once in its file. None is equivalent to the code that it replaces:
some call, or some look at a mount point, shows it.
"""

from __future__ import annotations

from dataclasses import dataclass

AREAS = (
    "order",
    "conditions",
    "answers",
    "exceptions",
    "membership",
    "pauses",
    "instances",
    "identity",
    "async",
    "generators",
    "arguments",
    "lifetime",
)


@dataclass(frozen=True)
class Bug:
    """One mistake in one file of the package.

    Attributes:
        name: What the command line and the table call it.
        area: One of `AREAS`.
        file: The file, relative to the package.
        old: The text that is replaced; it occurs once in the file.
        new: What replaces it.
        tests: The test files that are most likely to find it.
        reach: Whether the test kit can see it on a plain function.
    """

    name: str
    area: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    reach: bool = True


_ORDER = ("tests/core/test_order.py", "tests/properties/test_order.py")
_CONDITIONS = ("tests/core/test_conditions.py",)
_ANSWERS = ("tests/core/test_answers.py",)
_LAW = ("tests/core/test_answers.py", "tests/properties/test_law.py")
_ASKS = ("tests/core/test_asks.py",)
_INSTANCES = ("tests/core/test_instances.py",)
_INPLACE = ("tests/core/test_inplace.py",)
_COPIES = ("tests/copies",)
_ASYNC = ("tests/core/test_async.py", "tests/core/test_answers.py", "tests/properties/test_law.py")
_GENERATORS = ("tests/core/test_generators.py", "tests/core/test_answers.py", "tests/properties/test_law.py")
_MEMORY = ("tests/core/test_memory.py",)

ORDER = [
    Bug(
        "priority-ignored",
        "order",
        "_core/law/order.py",
        'ranked = sorted(hooks, key=attrgetter("priority", "added"))',
        'ranked = sorted(hooks, key=attrgetter("added"))',
        _ORDER,
    ),
    Bug(
        "ties-reversed",
        "order",
        "_core/law/order.py",
        'ranked = sorted(hooks, key=attrgetter("priority", "added"))',
        "ranked = sorted(hooks, key=lambda hook: (hook.priority, -hook.added))",
        _ORDER,
    ),
    Bug(
        "before-means-after",
        "order",
        "_core/law/order.py",
        "edges.update((place, other) for key in hook.before",
        "edges.update((other, place) for key in hook.before",
        _ORDER,
    ),
    Bug(
        "after-means-before",
        "order",
        "_core/law/order.py",
        "edges.update((other, place) for key in hook.after",
        "edges.update((place, other) for key in hook.after",
        _ORDER,
    ),
    Bug(
        "first-bearer-only",
        "order",
        "_core/law/order.py",
        "edges.update((place, other) for key in hook.before for other in bearers.get(key, ()))",
        "edges.update((place, other) for key in hook.before for other in bearers.get(key, ())[:1])",
        _ORDER,
    ),
    Bug(
        "first-name-only",
        "order",
        "_core/law/order.py",
        "edges.update((place, other) for key in hook.before for",
        "edges.update((place, other) for key in hook.before[:1] for",
        _ORDER,
    ),
    Bug(
        "last-name-only",
        "order",
        "_core/law/order.py",
        "edges.update((other, place) for key in hook.after for",
        "edges.update((other, place) for key in hook.after[-1:] for",
        _ORDER,
    ),
    Bug(
        "highest-ready-goes-next",
        "order",
        "_core/law/order.py",
        "place = heappop(ready)",
        "place = ready.pop()",
        _ORDER,
    ),
    Bug(
        "no-heap-any-more",
        "order",
        "_core/law/order.py",
        "heappush(ready, follower)",
        "ready.append(follower)",
        _ORDER,
    ),
    Bug(
        "one-met-constraint-is-enough",
        "order",
        "_core/law/order.py",
        "if not waiting[follower]:",
        "if waiting[follower] <= 1 and follower not in ready and ranked[follower] not in order:",
        _ORDER,
    ),
    Bug(
        "cycle-of-some-drops-them",
        "order",
        "_core/law/order.py",
        "if len(order) < len(ranked):",
        "if not order:",
        _ORDER,
    ),
    Bug(
        "cycle-through-old-names-unnoticed",
        "order",
        "_core/law/order.py",
        'follows = hook.after or any(("before", hook.kind, key) in self for key in hook.keys)',
        "follows = hook.after",
        _ORDER,
    ),
    Bug(
        "before-itself-accepted",
        "order",
        "_core/law/order.py",
        "return bool(leads and follows) or not {*hook.keys}.isdisjoint((*hook.before, *hook.after))",
        "return bool(leads and follows)",
        _ORDER,
    ),
    Bug(
        "removal-forgets-mentions-of-others",
        "order",
        "_core/law/order.py",
        "if not self[mention]:",
        "if step < 0:",
        _ORDER,
    ),
    Bug(
        "cycle-across-kinds-refused",
        "order",
        "_core/mount/members.py",
        "arrange([*(one for one in members if one.kind == hook.kind), hook], self.name)",
        "arrange([*members, hook], self.name)",
        _ORDER,
    ),
    Bug(
        "highest-priority-refused",
        "order",
        "_core/law/options.py",
        "if not 0 <= value <= 100:",
        "if not 0 < value <= 100:",
        _ORDER,
    ),
    Bug(
        "handle-means-its-name",
        "order",
        "_core/law/options.py",
        "id(one) if isinstance(one, Handle) else identity(one)",
        "one.name if isinstance(one, Handle) else identity(one)",
        _ORDER,
        reach=False,
    ),
    Bug(
        "names-of-priorities-rounded",
        "order",
        "_core/law/options.py",
        "return Priority[value.upper()].value",
        "return Priority[value.upper()].value // 20 * 20",
        _ORDER,
    ),
]

CONDITIONS = [
    Bug(
        "once-twice",
        "conditions",
        "_core/law/options.py",
        '        conditions["times"] = 1\n',
        '        conditions["times"] = 2\n',
        _CONDITIONS,
    ),
    Bug(
        "times-one-too-few",
        "conditions",
        "_core/law/guard.py",
        "return number <= times",
        "return number < times",
        _CONDITIONS,
    ),
    Bug(
        "times-stays-after-its-last",
        "conditions",
        "_core/law/guard.py",
        "if number >= times:",
        "if number > times:",
        _CONDITIONS,
    ),
    Bug(
        "once-again-from-within",
        "conditions",
        "_core/law/guard.py",
        "return number <= times",
        "return True",
        _CONDITIONS,
    ),
    Bug(
        "every-counts-from-the-first",
        "conditions",
        "_core/law/guard.py",
        "next(self._calls) % self.every:",
        "(next(self._calls) - 1) % self.every:",
        _CONDITIONS,
    ),
    Bug(
        "every-one-call-late",
        "conditions",
        "_core/law/guard.py",
        "next(self._calls) % self.every:",
        "next(self._calls) % (self.every + 1):",
        _CONDITIONS,
    ),
    Bug(
        "times-counts-what-every-left-out",
        "conditions",
        "_core/law/guard.py",
        """        if self.every is not None and next(self._calls) % self.every:
            return False
        if self.times is not None and not self._is_due(next(self._runs), self.times):
            return False
""",
        """        if self.times is not None and not self._is_due(next(self._runs), self.times):
            return False
        if self.every is not None and next(self._calls) % self.every:
            return False
""",
        _CONDITIONS,
    ),
    Bug(
        "counts-calls-that-when-refused",
        "conditions",
        "_core/compile/text.py",
        """            parts.append(f"{names['admit']}()")""",
        """            parts.insert(0, f"{names['admit']}()")""",
        _CONDITIONS,
    ),
    Bug(
        "when-inverted",
        "conditions",
        "_core/compile/text.py",
        "        return asked\n",
        '        return f"not {asked}"\n',
        _CONDITIONS,
    ),
    Bug(
        "when-of-always-ignored",
        "conditions",
        "_core/compile/text.py",
        "        if hook.when_asks is not None:\n            parts.append(\n",
        '        if hook.when_asks is not None and hook.kind != "always":\n            parts.append(\n',
        _CONDITIONS,
    ),
    Bug(
        "when-of-pre-ignored",
        "conditions",
        "_core/compile/text.py",
        "        if hook.when_asks is not None:\n            parts.append(\n",
        '        if hook.when_asks is not None and hook.kind != "pre":\n            parts.append(\n',
        _CONDITIONS,
    ),
    Bug(
        "when-of-around-ignored",
        "conditions",
        "_core/compile/layers.py",
        "    conditions = writer.conditions(hook, names)\n    with writer.optional",
        "    conditions = writer.conditions(hook, names) * (hook.guard is not None)\n    with writer.optional",
        _CONDITIONS,
    ),
    Bug(
        "around-that-does-not-act-skips-the-target",
        "conditions",
        "_core/compile/layers.py",
        'writer.line(f"$result = {writer.awaits}{_called(writer, inner)}")\n\n\ndef _proceeding',
        'writer.line("$result = None")\n\n\ndef _proceeding',
        _CONDITIONS,
    ),
    Bug(
        "every-and-times-want-each-other",
        "conditions",
        "_core/law/hook.py",
        "None if counts == (None, None, True) else",
        "None if counts[0] is None and counts[2] else",
        _CONDITIONS,
    ),
    Bug(
        "reentrant-false-ignored",
        "conditions",
        "_core/law/hook.py",
        "None if counts == (None, None, True) else",
        "None if counts[:2] == (None, None) else",
        _CONDITIONS,
    ),
    Bug(
        "run-not-left-when-the-hook-raises",
        "conditions",
        "_core/compile/text.py",
        (
            '                with self.optional("try:", needed=hook.leaves):\n'
            "                    self.note(kind, group)\n"
            "                    self.ask(hook, names)\n"
            "                    yield function\n"
            "                if hook.leaves:\n"
            '                    with self.block("finally:"):\n'
            '                        self.line("$run.leave()")\n'
        ),
        (
            "                self.note(kind, group)\n"
            "                self.ask(hook, names)\n"
            "                if hook.leaves:\n"
            '                    self.line("$run.leave()")\n'
            "                yield function\n"
        ),
        _CONDITIONS,
    ),
    Bug(
        "run-never-left",
        "conditions",
        "_core/law/guard.py",
        "        self._alive = False\n",
        "",
        _CONDITIONS,
    ),
    Bug(
        "guard-silences-other-functions",
        "conditions",
        "_core/law/guard.py",
        "any(one._alive and one._guard is guard for one in _running.get())",
        "any(one._alive for one in _running.get())",
        _CONDITIONS,
    ),
    Bug(
        "inner-run-ends-the-outer-one",
        "conditions",
        "_core/law/guard.py",
        "_running.set((*(one for one in _running.get() if one._alive), self))",
        "_running.set((self,))",
        _CONDITIONS,
    ),
    Bug(
        "isolated-failure-not-counted",
        "conditions",
        "_core/law/hook.py",
        "            mount.count_failure(self)\n",
        "",
        _CONDITIONS,
        reach=False,
    ),
]

ANSWERS = [
    Bug(
        "pre-return-none-runs-the-target",
        "answers",
        "_core/compile/source.py",
        ('                self.line("break")\n        if looped:\n            with self.block("if $skipped:"):'),
        (
            '                self.line("if $result is not None: break")\n'
            "        if looped:\n"
            '            with self.block("if $skipped:"):'
        ),
        _ANSWERS,
    ),
    Bug(
        "pre-return-skips-post-too",
        "answers",
        "_core/compile/source.py",
        ('                self.line("break")\n        if looped:\n            with self.block("if $skipped:"):'),
        (
            '                self.line("return $result" if self.style == "function" else "break")\n'
            "        if looped:\n"
            '            with self.block("if $skipped:"):'
        ),
        _ANSWERS,
    ),
    Bug(
        "post-return-none-ignored",
        "answers",
        "_core/compile/source.py",
        'self.line(f"{subject} = $answer if $type($answer) not in $ANSWERS else {returned}")',
        'self.line(f"{subject} = $answer if $type($answer) not in $ANSWERS else {returned} or {subject}")',
        _ANSWERS,
    ),
    Bug(
        "post-falsy-answer-ignored",
        "answers",
        "_core/compile/source.py",
        'with self.hook(kind, group) as function, self.block("if $answer is not None:"):',
        'with self.hook(kind, group) as function, self.block("if $answer:"):',
        _ANSWERS,
    ),
    Bug(
        "exception-return-none-not-handled",
        "answers",
        "_core/compile/source.py",
        ('            self.line("$handled = True")\n            self.line("break")\n'),
        ('            self.line("$handled = $result is not None")\n            self.line("break")\n'),
        _ANSWERS,
    ),
    Bug(
        "exception-return-does-not-skip-the-rest",
        "answers",
        "_core/compile/source.py",
        ('            self.line("$handled = True")\n            self.line("break")\n'),
        ('            self.line("$handled = True")\n'),
        _ANSWERS,
    ),
    Bug(
        "exception-hook-sees-only-plain-answers",
        "answers",
        "_core/compile/source.py",
        'self.line("$result = $answer.value")',
        'self.line("$result = $answer")',
        _ANSWERS,
    ),
    Bug(
        "args-not-for-the-target",
        "answers",
        "_core/compile/source.py",
        'self.line(f"{self.unpacked} = {revise}" if self.flat else revise)',
        "self.line(revise)",
        _ANSWERS,
    ),
    Bug(
        "args-not-in-the-call",
        "answers",
        "_core/compile/source.py",
        'self.line(f"$call._values = {self.values}")',
        'self.line("pass")',
        _LAW,
    ),
    Bug(
        "args-first-name-only",
        "answers",
        "_core/law/answers.py",
        "for name in changes:",
        "for name in list(changes)[:1]:",
        _ANSWERS,
    ),
    Bug(
        "args-unknown-name-ignored",
        "answers",
        "_core/law/answers.py",
        "    if varkw is None:\n        names",
        "    if varkw is None:\n        return\n        names",
        _ANSWERS,
    ),
    Bug(
        "post-result-not-in-the-call",
        "answers",
        "_core/compile/source.py",
        'if kind == "post" and self.wants_call:\n',
        'if kind == "item" and self.wants_call:\n',
        _LAW,
    ),
    Bug(
        "post-result-not-passed-on",
        "answers",
        "_core/compile/source.py",
        'self._value_hook("post", group, "$result")',
        'self._value_hook("post", group, result if group.first else "$answer")',
        _LAW,
    ),
    Bug(
        "always-answer-taken",
        "answers",
        "_core/compile/source.py",
        (
            '                    with self.block(f"if $answer is not None and {unfit}:"):\n'
            '                        self.line(self.wrong("always", function))\n'
        ),
        (
            '                    with self.block(f"if $answer is not None and {unfit}:"):\n'
            '                        self.line(self.wrong("always", function))\n'
            '                    self.line("$result = $result if $answer is None else $answer")\n'
        ),
        _ANSWERS,
    ),
    Bug(
        "always-return-accepted",
        "answers",
        "_core/compile/source.py",
        'unfit = f"({kind} is $Args or {kind} is $Return)"',
        'unfit = f"({kind} is $Args)"',
        _ANSWERS,
    ),
    Bug(
        "pre-plain-value-accepted",
        "answers",
        "_core/law/answers.py",
        "    raise wrong(site, kind, function, answer)\n\n\ndef settled",
        "    return answer\n\n\ndef settled",
        _ANSWERS,
    ),
    Bug(
        "around-given-old-arguments",
        "answers",
        "_core/compile/layers.py",
        'unnamed:"), _changed(writer, function):\n            writer.line(f"return',
        'unnamed:"):\n            writer.line(f"return',
        _ANSWERS,
    ),
    Bug(
        "around-return-not-unwrapped",
        "answers",
        "_core/compile/layers.py",
        'writer.line(f"$result = $answer if $type($answer) not in $ANSWERS else {_settled(function)}")',
        'writer.line("$result = $answer")',
        _ANSWERS,
    ),
    Bug(
        "around-innermost-first",
        "answers",
        "_core/compile/layers.py",
        "for place in reversed(range(outermost, len(writer.chain.around))):",
        "for place in range(outermost, len(writer.chain.around)):",
        _ANSWERS,
    ),
    Bug(
        "one-yield-none-is-the-result",
        "answers",
        "_core/law/streams.py",
        'return result if answer is None else settled(site, "around", function, answer)',
        'return settled(site, "around", function, answer)',
        _ANSWERS,
    ),
    Bug(
        "one-yield-swallows-the-exception",
        "answers",
        "_core/law/streams.py",
        "        if answer is None:\n            raise error\n",
        "        if answer is None:\n            return None\n",
        _ANSWERS,
    ),
    Bug(
        "one-yield-may-yield-twice",
        "answers",
        "_core/law/streams.py",
        "        return stop.value\n    hook.close()\n    raise _yielded_twice(site, function)",
        "        return stop.value\n    hook.close()\n    return None",
        ("tests/core/test_errors.py",),
    ),
]

EXCEPTIONS = [
    Bug(
        "interrupt-handled-by-all",
        "exceptions",
        "_core/compile/source.py",
        "with self.block(f\"except ${'Exception' if plain else 'BaseException'} as {exc}:\"):",
        'with self.block("except $BaseException as {exc}:"):',
        _LAW,
    ),
    Bug(
        "types-ignored",
        "exceptions",
        "_core/compile/source.py",
        'caught="" if plain else exc',
        'caught=""',
        _ANSWERS,
    ),
    Bug(
        "first-type-only",
        "exceptions",
        "_core/law/hook.py",
        "self.types = types\n",
        "self.types = types[:1]\n",
        _ANSWERS,
    ),
    Bug(
        "subclasses-not-taken",
        "exceptions",
        "_core/compile/text.py",
        "parts.append(f\"$isinstance({caught}, {names['types']})\")",
        "parts.append(f\"$type({caught}) in {names['types']}\")",
        _LAW,
    ),
    Bug(
        "cause-lost",
        "exceptions",
        "_core/compile/source.py",
        ('with self.block("if not $handled:"):\n                self.line("raise")'),
        ('with self.block("if not $handled:"):\n                self.line("raise $exc from None")'),
        _LAW,
        reach=False,
    ),
    Bug(
        "always-stop-at-the-first-that-raises",
        "exceptions",
        "_core/compile/source.py",
        'self.line(f"{self.awaits}${self.a}finish({rest}, {self.call()}, $error)")',
        'self.line("pass")',
        _ANSWERS,
    ),
    Bug(
        "always-stop-at-the-second-that-raises",
        "exceptions",
        "_core/law/law_sync.py",
        "                finish(hooks[place + 1 :], call, new)\n",
        "",
        _ANSWERS,
    ),
    Bug(
        "always-hook-behind-a-failed-one-skipped",
        "exceptions",
        "_core/compile/source.py",
        "$always_hooks[$stage + 1:]",
        "$always_hooks[$stage + 2:]",
        _ANSWERS,
    ),
    Bug(
        "failed-exception-hook-asked-again",
        "exceptions",
        "_core/compile/source.py",
        "$exception_hooks[$stage + 1:]",
        "$exception_hooks[$stage:]",
        _ANSWERS,
    ),
    Bug(
        "second-failure-of-an-exception-hook-ends-the-chain",
        "exceptions",
        "_core/law/law_sync.py",
        "                    return recover(hooks[place + 1 :], call, new)",
        "                    raise",
        _ANSWERS,
    ),
    Bug(
        "exception-hooks-see-the-old-exception",
        "exceptions",
        "_core/compile/source.py",
        "${self.a}recover({rest}, {self.call()}, $error)",
        "${self.a}recover({rest}, {self.call()}, $exc)",
        _ANSWERS,
    ),
    Bug(
        "failure-of-post-is-handled",
        "exceptions",
        "_core/compile/source.py",
        (
            "                self._try_part()\n"
            "            self._exception(exc)\n"
            "            if self.chain.post or self.wants_call:\n"
            '                with self.block("else:"):\n'
            "                    self._post()\n"
        ),
        (
            "                self._try_part()\n"
            "                self._post()\n"
            "            self._exception(exc)\n"
            "            if self.chain.post or self.wants_call:\n"
            '                with self.block("else:"):\n'
            '                    self.line("pass")\n'
        ),
        _ANSWERS,
    ),
    Bug(
        "post-runs-after-a-handled-exception",
        "exceptions",
        "_core/compile/source.py",
        """                with self.block("else:"):
                    self._post()
""",
        """                with self.block("if True:"):
                    self._post()
""",
        _ANSWERS,
    ),
    Bug(
        "always-sees-no-exception",
        "exceptions",
        "_core/compile/source.py",
        'self.line("$exc = $error")',
        'self.line("pass")',
        _LAW,
    ),
    Bug(
        "always-sees-the-result-of-a-failed-call",
        "exceptions",
        "_core/compile/source.py",
        ('                self.line("$result = None")\n                if self.wants_call:'),
        "                if self.wants_call:",
        _LAW,
    ),
    Bug(
        "always-sees-a-handled-exception",
        "exceptions",
        "_core/compile/source.py",
        ('for hook in hooks)):\n                self.line("$exc = None")'),
        'for hook in hooks)):\n                self.line("pass")',
        _LAW,
    ),
    Bug(
        "call-keeps-a-handled-exception",
        "exceptions",
        "_core/compile/source.py",
        'self.line("$call._exc, $call._result = None, $result")',
        'self.line("$call._result = $result")',
        _ANSWERS,
    ),
    Bug(
        "call-keeps-its-exception",
        "exceptions",
        "_core/compile/source.py",
        'self.line("$call._exc = None")',
        'self.line("pass")',
        _ANSWERS,
        reach=False,
    ),
    Bug(
        "isolate-swallows-the-interrupt",
        "exceptions",
        "_core/compile/text.py",
        """            if hook.isolate:
                with self.block("except $Exception as""",
        """            if hook.isolate:
                with self.block("except $BaseException as""",
        _CONDITIONS,
    ),
    Bug(
        "isolated-failure-ends-the-part",
        "exceptions",
        "_core/compile/text.py",
        "                    self.line(f\"{names['failed']}($slip)\")\n",
        "                    self.line(f\"{names['failed']}($slip)\")\n"
        '                    self.line("raise" if kind == "always" else "pass")\n',
        _CONDITIONS,
    ),
]

MEMBERSHIP = [
    Bug(
        "remove-handle-takes-off-its-name",
        "membership",
        "_core/mount/members.py",
        "            self.discard((hook,))\n            return\n",
        "            self.discard(tuple(one for one in self._members if one.name == hook.name))\n            return\n",
        _INPLACE,
        reach=False,
    ),
    Bug(
        "clear-leaves-one",
        "membership",
        "_core/mount/members.py",
        "        self.discard(self._members)\n",
        "        self.discard(self._members[1:])\n",
        _INPLACE,
    ),
    Bug(
        "again-ignored",
        "membership",
        "_core/mount/members.py",
        "if hook.again or not self.mentions.may_be_again(hook):",
        "if not self.mentions.may_be_again(hook):",
        _ORDER,
        reach=False,
    ),
    Bug(
        "added-again-is-two",
        "membership",
        "_core/mount/members.py",
        "        if older is not None:\n            return older\n        self.check",
        "        self.check",
        _ORDER,
        reach=False,
    ),
    Bug(
        "other-when-accepted",
        "membership",
        "_core/law/hook.py",
        '            "when": self.when_key,\n',
        "",
        _ORDER,
        reach=False,
    ),
    Bug(
        "other-types-are-no-other-hook",
        "membership",
        "_core/law/hook.py",
        "self.identity == other.identity and {*self.types} == {*other.types}",
        "self.identity == other.identity",
        _ORDER,
        reach=False,
    ),
    Bug(
        "remove-takes-off-the-same-function",
        "membership",
        "_core/mount/members.py",
        "tuple([hook for hook in members if id(hook) not in gone])",
        "tuple([hook for hook in members if hook.function not in [one.function for one in off]])",
        _ORDER,
    ),
    Bug(
        "places-counted-by-members",
        "membership",
        "_core/mount/members.py",
        "added=next(_added),",
        "added=len(self._members),",
        _ORDER,
    ),
    Bug(
        "remove-by-name-takes-the-first",
        "membership",
        "_core/mount/members.py",
        "        found = tuple(self._matching(meant))\n",
        "        found = tuple(self._matching(meant))[:1]\n",
        _INPLACE,
        reach=False,
    ),
    Bug(
        "remove-by-function-leaves-the-first",
        "membership",
        "_core/mount/members.py",
        "        found = tuple(self._matching(meant))\n",
        "        found = tuple(self._matching(meant))[-1:]\n",
        _INPLACE,
        reach=False,
    ),
    Bug(
        "block-that-raises-keeps-its-hook",
        "membership",
        "_core/law/hook.py",
        "    def __exit__(self, *_: object) -> None:\n        self.remove()\n",
        "    def __exit__(self, *_: object) -> None:\n        if _[0] is None:\n            self.remove()\n",
        _INPLACE,
        reach=False,
    ),
    Bug(
        "refused-hook-stays",
        "membership",
        "_core/mount/members.py",
        """        self.check_order(hook)
        self.mentions.count(hook, 1)
        self._change(lambda: self._store(lambda members: (*members, hook)))
""",
        """        self.mentions.count(hook, 1)
        self._change(lambda: self._store(lambda members: (*members, hook)))
        self.check_order(hook)
""",
        _ORDER,
    ),
    Bug(
        "hook-added-in-front",
        "membership",
        "_core/mount/members.py",
        "lambda members: (*members, hook)",
        "lambda members: (hook, *members)",
        _INPLACE,
    ),
    Bug(
        "change-without-stand-in",
        "membership",
        "_core/mount/point.py",
        "            place.hold()\n            self._reset_instances(place)\n",
        "            self._reset_instances(place)\n",
        _INPLACE,
    ),
]

PAUSES = [
    Bug(
        "paused-hook-acts",
        "pauses",
        "_core/mount/members.py",
        "return () if self.pauses else tuple([hook for hook in self._members if not hook.paused])",
        "return () if self.pauses else self._members",
        _INPLACE,
    ),
    Bug(
        "paused-mount-point-acts",
        "pauses",
        "_core/mount/point.py",
        "return bool(self.instances) or (not self.pauses and any(not hook.paused for hook in self._members))",
        "return bool(self.instances) or any(not hook.paused for hook in self._members)",
        _INPLACE,
    ),
    Bug(
        "resuming-one-resumes-all",
        "pauses",
        "_core/mount/members.py",
        "            for hook in hooks:\n                hook.paused = paused\n",
        "            for hook in hooks if paused else self._members:\n                hook.paused = paused\n",
        _INPLACE,
    ),
    Bug(
        "pausing-one-pauses-those-behind-it",
        "pauses",
        "_core/mount/members.py",
        "            for hook in hooks:\n                hook.paused = paused\n",
        "            for hook in self._members[self._members.index(hooks[0]) :] if paused else hooks:\n"
        "                hook.paused = paused\n",
        _INPLACE,
    ),
    Bug(
        "nested-pause-ends-too-early",
        "pauses",
        "_core/mount/members.py",
        "self.pauses | {pause} if on else self.pauses - {pause}",
        "self.pauses | {pause} if on else frozenset()",
        _INPLACE,
        reach=False,
    ),
    Bug(
        "pause-outlives-a-block-that-raises",
        "pauses",
        "_core/mount/members.py",
        "            yield\n        finally:\n            try:\n",
        "            yield\n        except Exception:\n            raise\n        else:\n            try:\n",
        _INPLACE,
        reach=False,
    ),
    Bug(
        "pause-leaves-the-old-chain",
        "pauses",
        "_core/mount/point.py",
        "        store()\n        self._chain = None\n",
        "        store()\n",
        _INPLACE,
    ),
    Bug(
        "paused-class-silences-its-instances",
        "pauses",
        "_core/mount/point.py",
        "return bool(self.instances) or (not self.pauses and any(not hook.paused for hook in self._members))",
        "return not self.pauses and (bool(self.instances) or any(not hook.paused for hook in self._members))",
        _INSTANCES,
        reach=False,
    ),
    Bug(
        "paused-class-acts-in-its-instances",
        "pauses",
        "_core/mount/instance.py",
        "Chain(self.parent.acting() + self.acting())",
        "Chain(tuple([hook for hook in self.parent.members if not hook.paused]) + self.acting())",
        _INSTANCES,
        reach=False,
    ),
    Bug(
        "paused-hook-of-a-class-acts-in-its-instances",
        "pauses",
        "_core/mount/instance.py",
        "Chain(self.parent.acting() + self.acting())",
        "Chain((() if self.parent.pauses else self.parent.members) + self.acting())",
        _INSTANCES,
        reach=False,
    ),
    Bug(
        "paused-instance-acts",
        "pauses",
        "_core/mount/instance.py",
        "Chain(self.parent.acting() + self.acting())",
        "Chain(self.parent.acting() + tuple([hook for hook in self.members if not hook.paused]))",
        _INSTANCES,
        reach=False,
    ),
    Bug(
        "paused-hook-of-an-instance-acts",
        "pauses",
        "_core/mount/instance.py",
        "Chain(self.parent.acting() + self.acting())",
        "Chain(self.parent.acting() + (() if self.pauses else self.members))",
        _INSTANCES,
        reach=False,
    ),
]

INSTANCES = [
    Bug(
        "instance-forgets-the-hooks-of-its-class",
        "instances",
        "_core/mount/instance.py",
        "Chain(self.parent.acting() + self.acting())",
        "Chain(self.acting() or self.parent.acting())",
        _INSTANCES,
        reach=False,
    ),
    Bug(
        "cycle-with-the-class-unnoticed",
        "instances",
        "_core/mount/instance.py",
        "yield self.parent.members + self.members",
        "yield self.members",
        _INSTANCES,
        reach=False,
    ),
    Bug(
        "cycle-with-an-instance-unnoticed",
        "instances",
        "_core/mount/point.py",
        "        for instance in list(self.instances.values()):  # a copy: an instance may die meanwhile\n"
        "            yield self._members + instance.members\n",
        "",
        _INSTANCES,
        reach=False,
    ),
    Bug(
        "instance-known-by-its-last-argument",
        "instances",
        "_core/compile/source.py",
        "first = self.idents[0]",
        "first = self.idents[-1]",
        _INSTANCES,
        reach=False,
    ),
    Bug(
        "all-instances-have-the-hooks-of-one",
        "instances",
        "_core/compile/source.py",
        'self.line(f"$run = $instances.get($id({first}))")',
        'self.line("$run = next(iter($instances.values()), None)")',
        _INSTANCES,
        reach=False,
    ),
    Bug(
        "change-of-a-class-not-seen-by-its-instances",
        "instances",
        "_core/mount/point.py",
        "            place.hold()\n            self._reset_instances(place)\n",
        "            place.hold()\n",
        _INSTANCES,
        reach=False,
    ),
    Bug(
        "change-of-an-instance-not-seen-by-its-calls",
        "instances",
        "_core/mount/point.py",
        "                instance.reset(self.place)\n",
        "",
        _INSTANCES,
        reach=False,
    ),
    Bug(
        "instance-that-lost-its-hooks-stays",
        "instances",
        "_core/mount/point.py",
        "            if alive and not instance.members:\n                self.drop_instance(key)\n",
        "",
        _INSTANCES,
        reach=False,
    ),
    Bug(
        "mount-point-of-a-dead-instance-found-again",
        "instances",
        "_core/mount/instance.py",
        "if not isinstance(found, InstanceMountPoint) or found.instance() is not instance:",
        "if not isinstance(found, InstanceMountPoint):",
        _INSTANCES,
        reach=False,
    ),
    Bug(
        "two-looks-at-an-instance-are-two-mount-points",
        "instances",
        "_core/mount/instance.py",
        "found = points[id(instance)] = InstanceMountPoint(parent, instance)",
        "found = InstanceMountPoint(parent, instance)",
        _INSTANCES,
        reach=False,
    ),
]

IDENTITY = [
    Bug(
        "code-not-restored",
        "identity",
        "_core/mount/occupancy.py",
        "            self.restore()\n        self.stranded = self.is_theirs()\n",
        "            pass\n        self.stranded = self.is_theirs()\n",
        _INPLACE,
    ),
    Bug(
        "wrapped-left-behind",
        "identity",
        "_core/mount/place.py",
        "            attributes.unwrap()\n",
        "            pass\n",
        _INPLACE,
    ),
    Bug(
        "dict-not-restored",
        "identity",
        "_core/mount/point.py",
        "                place.close()\n                self._forget()\n",
        "                place.close()\n",
        ("tests/weave/test_weaving.py",),
        reach=False,
    ),
    Bug(
        "code-of-others-overwritten",
        "identity",
        "_core/mount/occupancy.py",
        "        if self.is_theirs():\n            return False\n",
        "",
        _INPLACE,
        reach=False,
    ),
    Bug(
        "displaced-never-said",
        "identity",
        "_core/mount/occupancy.py",
        "            return now is not GONE and not self.is_ours(now)\n",
        "            return False\n",
        _INPLACE,
        reach=False,
    ),
    Bug(
        "kept-copy-of-old-code-runs-the-old-chain",
        "identity",
        "_core/mount/place.py",
        "        self.moved.run = self._enter\n",
        "",
        _INPLACE,
        reach=False,
    ),
    Bug(
        "copies-take-our-attributes-along",
        "identity",
        "_core/compile/copies.py",
        "for name, value in self.shown().items() if not self._is_ours(value)}",
        "for name, value in self.shown().items()}",
        _COPIES,
        reach=False,
    ),
    Bug(
        "wraps-takes-our-wrapped-along",
        "identity",
        "_core/compile/copies.py",
        "if value is not ours or name != _WRAPPED}",
        "}",
        _COPIES,
        reach=False,
    ),
    Bug(
        "attributes-of-others-lost-on-leaving",
        "identity",
        "_core/compile/copies.py",
        "        now = self._carry(self._known, before)\n",
        "        now = before\n",
        ("tests/copies", "tests/weave/test_weaving.py"),
        reach=False,
    ),
    Bug(
        "keyword-defaults-not-shown",
        "identity",
        "_core/mount/place.py",
        "        copy.__kwdefaults__ = function.__kwdefaults__\n",
        "        pass\n",
        _INPLACE,
        reach=False,
    ),
    Bug(
        "code-says-another-name",
        "identity",
        "_core/compile/link.py",
        "            co_name=model.co_name,\n",
        "",
        ("tests/core/test_explain.py", "tests/core/test_inplace.py"),
        reach=False,
    ),
]

ASYNC = [
    Bug(
        "target-not-awaited",
        "async",
        "_core/compile/source.py",
        'self.line(f"$result = {self.awaits}{source}")',
        'self.line(f"$result = {source}")',
        _ASYNC,
        reach=False,
    ),
    Bug(
        "answer-of-a-sync-hook-not-awaited",
        "async",
        "_core/compile/text.py",
        "        if self.awaits and not waits:\n",
        '        if self.awaits and not waits and hook.kind != "post":\n',
        _ASYNC,
        reach=False,
    ),
    Bug(
        "only-coroutines-awaited",
        "async",
        "_core/law/invoke.py",
        'return hasattr(type(answer), "__await__")',
        "return False",
        _ASYNC,
        reach=False,
    ),
    Bug(
        "result-awaited-twice",
        "async",
        "_core/compile/layers.py",
        'is $CoroutineType and $answer not in $given:"',
        'is $CoroutineType:"',
        _ASYNC,
        reach=False,
    ),
    Bug(
        "async-when-not-awaited",
        "async",
        "_core/compile/text.py",
        'return f"await {asked}"',
        "return asked",
        _CONDITIONS,
        reach=False,
    ),
    Bug(
        "async-always-stop-at-the-second-that-raises",
        "async",
        "_core/law/law.py",
        "                await finish(hooks[place + 1 :], call, new)\n",
        "",
        _ASYNC,
        reach=False,
    ),
    Bug(
        "async-second-failure-of-an-exception-hook-ends-the-chain",
        "async",
        "_core/law/law.py",
        "                    return await recover(hooks[place + 1 :], call, new)",
        "                    raise",
        _ASYNC,
        reach=False,
    ),
    Bug(
        "async-one-yield-none-is-the-result",
        "async",
        "_core/compile/layers.py",
        'with writer.block("if $answer is not None:"):\n                writer.line(f"$result = {_settled',
        'with writer.block("if True:"):\n                writer.line(f"$result = {_settled',
        _ASYNC,
        reach=False,
    ),
    Bug(
        "async-one-yield-swallows-the-exception",
        "async",
        "_core/compile/layers.py",
        ('with writer.block("if $answer is None:"):\n                writer.line("raise")'),
        ('with writer.block("if $answer is None:"):\n                writer.line("return None")'),
        _ASYNC,
        reach=False,
    ),
    Bug(
        "async-around-given-old-arguments",
        "async",
        "_core/compile/layers.py",
        'unnamed:"), _changed(writer, function):\n            writer.line(f"$result',
        'unnamed:"):\n            writer.line(f"$result',
        _ASYNC,
        reach=False,
    ),
    Bug(
        "async-hook-on-a-sync-generator-accepted",
        "async",
        "_core/law/flavour.py",
        'if flavour in ("async", "async generator") and style in ("function", "generator"):',
        'if flavour in ("async", "async generator") and style == "function":',
        _ASYNC,
        reach=False,
    ),
]

GENERATORS = [
    Bug(
        "item-hooks-skip-the-first-item",
        "generators",
        "_core/compile/source.py",
        'self.line("$sent = $thrown = None")',
        'self.line("$thrown, $sent = None, (yield next($source))")',
        _GENERATORS,
        reach=False,
    ),
    Bug(
        "first-item-hook-only",
        "generators",
        "_core/compile/source.py",
        ('        for group in groups(hooks):\n            self._value_hook("item", group, "$item")\n'),
        ('        for group in groups(hooks[:1]):\n            self._value_hook("item", group, "$item")\n'),
        _GENERATORS,
        reach=False,
    ),
    Bug(
        "return-value-lost-behind-item-hooks",
        "generators",
        "_core/compile/source.py",
        'self.line("$result = $stop.value")',
        'self.line("$result = None")',
        _GENERATORS,
        reach=False,
    ),
    Bug(
        "return-value-lost",
        "generators",
        "_core/compile/source.py",
        'self.line(f"$result = yield from {source}")',
        'self.line(f"$result = yield from {source}; $result = None")',
        _GENERATORS,
        reach=False,
    ),
    Bug(
        "sent-value-lost",
        "generators",
        "_core/compile/source.py",
        'self.line("$sent = yield $item")',
        'self.line("$sent = yield $item; $sent = None")',
        _GENERATORS,
        reach=False,
    ),
    Bug(
        "throw-does-not-reach-the-target",
        "generators",
        "_core/compile/source.py",
        'self.line("$thrown = $interrupt")',
        'self.line("raise")',
        _GENERATORS,
        reach=False,
    ),
    Bug(
        "athrow-sends",
        "generators",
        "_core/compile/source.py",
        'self.line("$step = $source.athrow($interrupt)")',
        'self.line("$step = $source.asend(None)")',
        _ASYNC,
        reach=False,
    ),
    Bug(
        "aclose-leaves-the-target-open",
        "generators",
        "_core/compile/source.py",
        ('            self.line(f"{self.awaits}$source.{self.a}close()")\n            self.line("raise")'),
        '            self.line("raise")',
        _ASYNC,
        reach=False,
    ),
    Bug(
        "answer-of-a-one-yield-hook-ignored",
        "generators",
        "_core/law/streams.py",
        "        return end(site, function, hook, result)\n",
        "        end(site, function, hook, result)\n        return result\n",
        _GENERATORS,
        reach=False,
    ),
    Bug(
        "stream-of-an-around-hook-never-left",
        "generators",
        "_core/law/streams.py",
        "        return (yield from source)\n    finally:\n        leave()\n",
        "        return (yield from source)\n    finally:\n        pass\n",
        ("tests/core/test_generators.py", "tests/core/test_conditions.py"),
        reach=False,
    ),
    Bug(
        "return-value-lost-behind-a-condition",
        "generators",
        "_core/law/streams.py",
        "    return (yield from opened())\n",
        "    yield from opened()\n",
        _GENERATORS,
        reach=False,
    ),
    Bug(
        "delegated-return-value-lost",
        "generators",
        "_core/compile/text.py",
        '"generator": "return (yield from "}',
        '"generator": "(yield from "}',
        _GENERATORS,
        reach=False,
    ),
]

ARGUMENTS = [
    Bug(
        "argument-behind-a-gap-in-the-wrong-place",
        "arguments",
        "_core/law/asks.py",
        'by_position = how == "positional" and skipped is None',
        'by_position = how == "positional"',
        _ASKS,
    ),
    Bug(
        "kwargs-have-what-was-asked-by-name",
        "arguments",
        "_core/law/asks.py",
        'for p in wanted if p.how in ("positional", "keyword")]\n            asks',
        'for p in wanted if p.how == "keyword"]\n            asks',
        _ASKS,
        reach=False,
    ),
    Bug(
        "always-is-given-no-result",
        "arguments",
        "_core/law/kinds.py",
        'words=("result", "exc"),',
        'words=("exc",),',
        _ASKS,
    ),
    Bug(
        "unknown-name-accepted",
        "arguments",
        "_core/law/asks.py",
        "    if not has_default:\n        raise HookSignatureError(_unknown(name, asker))\n",
        "",
        _ASKS,
        reach=False,
    ),
    Bug(
        "parameter-shadows-the-reserved-word",
        "arguments",
        "_core/law/asks.py",
        "    if name in RESERVED:\n        if name in _offered(asker):",
        "    if name in RESERVED and name not in asker.site.signature.index:\n        if name in _offered(asker):",
        _ASKS,
        reach=False,
    ),
    Bug(
        "first-default-overlooked",
        "arguments",
        "_core/law/callables.py",
        "place >= without_default",
        "place > without_default",
        _ASKS,
        reach=False,
    ),
    Bug(
        "self-of-a-bound-hook-asked-for",
        "arguments",
        "_core/law/callables.py",
        'return own if inner is function or (own[:1] and own[0].how == "*") else own[1:]',
        "return own",
        _ASKS,
    ),
    Bug(
        "second-positional-only-given-too",
        "arguments",
        "_core/law/asks.py",
        "                subject_given = True\n",
        "",
        _ASKS,
        reach=False,
    ),
    Bug(
        "keyword-only-arguments-shifted",
        "arguments",
        "_core/compile/text.py",
        "parts = [form % (place, self.idents[place]) for",
        "parts = [form % (place, self.idents[signature.positional]) for",
        _ASKS,
        reach=False,
    ),
    Bug(
        "args-without-star-args",
        "arguments",
        "_core/compile/text.py",
        """            return f"({inner},)" if inner else "()\"""",
        """            return f"({inner.partition(', *')[0]},)" if inner else "()\"""",
        _ASKS,
        reach=False,
    ),
    Bug(
        "predicate-of-around-given-proceed",
        "arguments",
        "_core/law/asks.py",
        '        words.remove("proceed")\n',
        "        pass\n",
        _CONDITIONS,
        reach=False,
    ),
]

LIFETIME = [
    Bug(
        "weak-hook-held-strongly",
        "lifetime",
        "_core/law/weak.py",
        "ref: Callable[[], Any] = weakref.ref(owner, gone)",
        "ref: Callable[[], Any] = (weakref.ref(owner, gone), lambda: owner)[1]",
        ("tests/events/test_weak.py", "tests/core/test_memory.py"),
        reach=False,
    ),
    Bug(
        "weak-hook-stays-when-its-object-is-gone",
        "lifetime",
        "_core/law/hook.py",
        "            if hook is not None and not ending():\n                hook.remove()\n",
        "            if hook is not None and not ending():\n                pass\n",
        ("tests/events/test_weak.py",),
        reach=False,
    ),
    Bug(
        "closures-hold-their-hooks-as-constants",
        "lifetime",
        "_core/mount/point.py",
        "            place.weak = module is None\n",
        "            place.weak = False\n",
        _MEMORY,
        reach=False,
    ),
    Bug(
        "hooks-of-a-dead-instance-stay",
        "lifetime",
        "_core/mount/instance.py",
        "            parent.forget_instance(self._key)\n",
        "            pass\n",
        ("tests/core/test_instances.py", "tests/core/test_memory.py"),
        reach=False,
    ),
    Bug(
        "method-of-the-instance-keeps-it-alive",
        "lifetime",
        "_core/mount/instance.py",
        "own = type(function) is MethodType and function.__self__ is self.instance()",
        "own = False",
        _INSTANCES,
        reach=False,
    ),
    Bug(
        "failed-call-is-a-cycle",
        "lifetime",
        "_core/law/law_sync.py",
        "        call._exc = None\n        del exc, call",
        "        call._exc = None",
        _MEMORY,
        reach=False,
    ),
    Bug(
        "one-yield-failure-is-a-cycle",
        "lifetime",
        "_core/law/streams.py",
        "            raise error\n    finally:\n        del error  # else",
        "            raise error\n    finally:\n        pass  # else",
        _MEMORY,
        reach=False,
    ),
    Bug(
        "unloaded-module-kept-by-constants",
        "lifetime",
        "_core/mount/unloading.py",
        "    if not ending():\n        _weaken_unloaded()\n",
        "    pass\n",
        ("tests/core/test_unloading.py",),
        reach=False,
    ),
    Bug(
        "hook-keeps-its-mount-point",
        "lifetime",
        "_core/law/hook.py",
        "        self._mount = weakref.ref(mount)\n",
        "        self._mount = lambda: mount\n",
        _MEMORY,
        reach=False,
    ),
]

BUGS = (
    *ORDER,
    *CONDITIONS,
    *ANSWERS,
    *EXCEPTIONS,
    *MEMBERSHIP,
    *PAUSES,
    *INSTANCES,
    *IDENTITY,
    *ASYNC,
    *GENERATORS,
    *ARGUMENTS,
    *LIFETIME,
)
