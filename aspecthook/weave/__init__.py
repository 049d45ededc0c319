"""Weaving: hooks on code that is not yours, added and removed at run time, also before it is imported.

For maintainers: `_plans` makes of the arguments of `weave` the hooks (`_aspects` has those of marked methods) and their
targets (`_pointcut`, or objects). `_finding` searches the modules for the `_members` that are meant, and `_spots` says
where the hooks of a member go. `_weaving` puts them there now and when `_imports` notices an import; `_calls` restricts
them to the calls that are meant. `_pytorch` leads to the room that knows the modules and tensors of PyTorch.
`_decorators` makes around hooks of any decorator. `_steps` drives generators for the rooms above.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from aspecthook._core.law.options import Asking, Options
from aspecthook._errors import entrance
from aspecthook._hints import TYPE_CHECKING, Any, TypeAlias, Unpack
from aspecthook._lazy import load_lazily

if TYPE_CHECKING:
    from ._aspects import always, around, exception, item, on, post, pre
    from ._weaving import Scope, Weaving

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

__all__ = ["Weaving", "always", "around", "exception", "item", "on", "post", "pre", "weave"]

# A hook asks for arguments by name, and its kind decides what it may answer; both are checked when it is added.
Hooks: TypeAlias = "Asking | Sequence[Asking]"
Names: TypeAlias = "str | type[Any] | Sequence[str | type[Any]]"
Types: TypeAlias = "type[BaseException] | tuple[type[BaseException], ...]"


class MoreHooks(Options, total=False):
    """The hooks that only modules and tensors of PyTorch take."""

    backward_pre: Hooks | None
    backward: Hooks | None
    grad: Hooks | None


@entrance
def weave(
    target: object,
    names: Names | None = None,
    /,
    *,
    pre: Hooks | None = None,
    around: Hooks | None = None,
    on: Hooks | None = None,
    item: Hooks | None = None,
    exception: Hooks | Mapping[Types, Hooks] | None = None,
    post: Hooks | None = None,
    always: Hooks | None = None,
    aspect: object = None,
    where: Callable[[Any], object] | None = None,
    scope: Scope = "everywhere",
    **options: Unpack[MoreHooks],
) -> Weaving:
    """Put hooks on functions that are not yours, in place, and return the handle to remove them.

    Args:
        target: A function; a bound method (the hooks act for that instance alone); a class (its public methods); a
            module (its public functions); a pointcut, ``"module:name"``, with globs, commas and ``!`` to exclude; an
            aspect, an object whose methods are marked with `pre`, `post` and so on; or a module or a tensor of PyTorch,
            which takes hooks on gradients too: see docs/training/pytorch.md. If a module is not
            imported yet, it is woven at the end of its import.
        names: The modules or the parameters of a PyTorch model: a pattern such as ``"layer*.conv*"``, a class of
            modules, or several of them; by default the model itself.
        pre: A hook of this kind, or several.
        around: Likewise.
        on: Likewise; for events.
        item: Likewise; for generators.
        post: Likewise.
        always: Likewise.
        exception: A hook for every `Exception`, or several, or a mapping from types to hooks.
        aspect: An object whose marked methods are hooks on the target, unless their marks name another.
        where: A predicate that selects some of the functions found.
        scope: ``"everywhere"``, or ``"context"``: the hooks act only inside the ``with`` block of this weaving, in the
            task or thread that entered it and in the tasks that are started there.
        options: For every hook: ``name``, ``priority``, ``before``, ``after``, ``when``, ``once``, ``times``,
            ``every``, ``isolate``, ``reentrant``. For PyTorch also hooks of the kinds ``backward_pre``, ``backward``,
            ``grad``.

    Raises:
        WeaveError: The target cannot be woven, or does not exist; the message says what to weave instead.
        HookSignatureError: A hook asks for something that a target does not offer. After any error, nothing is
            woven.
        HookTypeError: A hook could never work on a target.

    Example:
        >>> import shutil
        >>> with weave("shutil:disk_usage", post=lambda result: result._replace(free=0)):
        ...     shutil.disk_usage("/").free
        0
        >>> shutil.disk_usage("/").free > 0
        True
    """
    from . import _plans

    kinds = dict(pre=pre, around=around, on=on, item=item, exception=exception, post=post, always=always)
    return _plans.begin(target, names, kinds, options, aspect, where, scope)


# Names that few programs need are loaded when they are first used.
load_lazily(__name__, {"_weaving": "Weaving", "_aspects": "always around exception item on post pre"})
