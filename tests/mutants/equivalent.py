"""Mutants that are equivalent: no call and no look at a mount point shows them, and why."""

from __future__ import annotations

from .sites import Mutant

# By the file, the line before the change without its indentation, and the operator; "": any.
EQUIVALENT = {
    (
        "aspecthook/_core/law/asks.py",
        "if len(names) - is_method == 1 and signature.regular == len(names):",
        "ReplaceComparisonOperator_Eq_Is",
    ): "there are one or two names, and small numbers are compared by identity as well",
    (
        "aspecthook/_core/compile/layers.py",
        'writer.note("on", 0, len(writer.chain.on) - 1)',
        "ReplaceBinaryOperator_Sub_BitXor",
    ): "behind the last subscriber there are no more to name",
    (
        "aspecthook/_core/law/answers.py",
        'if kind == "pre":',
        "ReplaceComparisonOperator_Eq_GtE",
    ): "of the words for kinds, it is the last one",
    (
        "aspecthook/_core/compile/copies.py",
        "return itemgetter(0), ((self._witness, _Put(self._function, self._witness)),)",
        "NumberReplacer",
    ): "both are loaded as None",
    (
        "aspecthook/_core/mount/point.py",
        "continue",
        "ReplaceContinueWithBreak",
    ): "`_settle` opens until it is open, the next time in the place that is found here",
    (
        "aspecthook/_core/law/law.py",
        "if type(answer) is Args:",
        "ReplaceComparisonOperator_Is_Eq",
    ): "other classes of answers are refused before, and these two are compared by identity as well",
    (
        "aspecthook/_core/law/law_sync.py",
        "if type(answer) is Args:",
        "ReplaceComparisonOperator_Is_Eq",
    ): "likewise",
    (
        "aspecthook/_core/law/tally.py",
        'self.result: Any = [] if gives == "list" else values[self._emission.fold] if gives == "fold" else None',
        "ReplaceComparisonOperator_Eq_GtE",
    ): "of the three words, the two others come before it",
    (
        "aspecthook/_core/law/signature.py",
        'if function is None or ("__signature__" not in space and space.get("__wrapped__") in (None, original)):',
        "ReplaceOrWithAnd",
    ): "a shortcut: a function that wraps nothing shows its own parameters",
    (
        "aspecthook/_core/law/signature.py",
        "if len(_known) >= _MOST:",
        "",
    ): "a cache is emptied at another size",
    (
        "aspecthook/_core/mount/lock.py",
        "@wraps(function)",
        "RemoveDecorator",
    ): "private functions are described by their wrapper",
    (
        "aspecthook/_core/mount/original.py",
        "key = free, has_defaults = len(code.co_freevars), defaults is not None",
        "",
    ): "the defaults are set later then, or by the same code: a call takes 6 ns longer from 3.13 on, and does the same",
    (
        "aspecthook/_core/mount/unloading.py",
        "if older is not mount:",
        "ReplaceComparisonOperator_IsNot_NotEq",
    ): "mount points are equal to themselves alone",
    (
        "aspecthook/weave/_finding.py",
        "if term.exact and len(member.path) == len(term.segments):",
        "ReplaceComparisonOperator_Eq_Is",
    ): "small numbers are compared by identity as well",
    (
        "aspecthook/weave/_finding.py",
        "if term.exact and len(member.path) == len(term.segments):",
        "ReplaceComparisonOperator_Eq_LtE",
    ): "a path has a name for each segment of the term, or more",
    (
        "aspecthook/weave/_imports.py",
        "if now is None or (now is not _set and not _in_specs):",
        "ReplaceComparisonOperator_IsNot_NotEq",
    ): "functions are equal to themselves alone",
    (
        "aspecthook/weave/_imports.py",
        'if vars(machinery.ModuleSpec).get("__setattr__") is _set:',
        "ReplaceComparisonOperator_Is_Eq",
    ): "functions are equal to themselves alone",
    (
        "aspecthook/weave/_imports.py",
        "if _set_before is object.__setattr__:",
        "ReplaceComparisonOperator_Is_Eq",
    ): "methods of C are equal to themselves alone",
    (
        "aspecthook/weave/_imports.py",
        "if one is old and finders[place] is old:",
        "ReplaceComparisonOperator_Is_Eq",
    ): "the same finder is compared by identity as well",
    (
        "aspecthook/weave/_spots.py",
        "bare = get is None or (isinstance(value, partial) and sys.version_info < (3, 14))",
        "ReplaceComparisonOperator_Lt_LtE",
    ): "no version is (3, 14) alone",
    (
        "aspecthook/weave/_weaving.py",
        "self._limit = 2 * len(self._pieces) + 16",
        "",
    ): "what is gone is dropped at another size",
}


def reason(mutant: Mutant) -> str | None:
    """Return why a mutant is equivalent, or None if nobody has shown that it is."""
    before = [line[2:].strip() for line in mutant.diff.splitlines() if line.startswith("- ")]
    return next(
        (
            why
            for (file, line, operator), why in EQUIVALENT.items()
            if file == mutant.site.file and line in before and operator in ("", mutant.operator.removeprefix("core/"))
        ),
        None,
    )
