"""The oracle: what proves that a mount point keeps its laws, by a model and an interpreter that ask nothing of it.

A machine (`machine`) plays short stories, the same in each run, then long ones that Hypothesis makes up: hooks come and
go, are paused and resumed, and after each change a call is made. The model is a plain list (`rows`): it says which
hooks must run in each call, with every condition and each two of them. The interpreter of law 1 (`law`) plays each call
again with what hooks and target have answered (`replay`, `model`), and compares what each was given, what `call`
showed, what came of it, and the contexts of its exceptions. A call may have a guest, a hook that is there for it alone
and fails, answers, calls again, adds or removes hooks (`guests`); its caller may read a stream in parts, throw into it,
cancel it, or make two calls at once (`calls`). `laws` says what a change must leave as it was.

Beside the machines stand a model of what hooks ask for (`test_asking`), one of the places that others take too
(`test_removal`), and what must die (`test_lifetimes`).
"""
