"""From what is to be woven to the spots where hooks go: a search of the modules that are imported now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from types import CodeType, MethodType, ModuleType

from aspecthook._core.law.callables import code_of
from aspecthook._core.law.kinds import Kind
from aspecthook._core.law.options import Options
from aspecthook._errors import WeaveError, qualified
from aspecthook._hints import Any, NamedTuple, TypeAlias

from ._imports import is_being_imported
from ._members import Member, find, is_excluded, modules_of, public
from ._pointcut import Pointcut, Term
from ._pytorch import model_of
from ._reasons import why_empty
from ._spots import Chosen, Spot, label_of, spot_of, spot_of_object

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

Where: TypeAlias = Callable[[Any], object]


class Wanted(NamedTuple):
    """One hook that is to be woven."""

    kind: Kind
    function: Callable[..., Any]
    types: tuple[type[BaseException], ...]
    options: Options
    key: object  # equal for hooks that a spot gets once: the callable, its kind, and what its options come to


class Plan(NamedTuple):
    """What is to be woven on one target."""

    target: object  # a Pointcut, or the target itself
    wanted: tuple[Wanted, ...]
    where: Where | None

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms of the target that choose, if it is a pointcut."""
        return self.target.terms if isinstance(self.target, Pointcut) else ()

    def means(self, spot: Spot) -> bool:
        """Whether the predicate of the user lets hooks on a spot."""
        return self.where is None or bool(self.where(spot.function))


Spots: TypeAlias = list[tuple[Plan, Spot]]


def spots_in_modules(
    plans: Iterable[Plan], hooks: Collection[CodeType], imported: ModuleType | None = None
) -> tuple[Spots, set[Term]]:
    """Return the spots that pointcuts mean, and their terms that have chosen something.

    Args:
        plans: What is to be woven.
        hooks: The code of the hooks. A glob does not choose them: a hook must not run before itself.
        imported: If given, search only this module, which has been imported.

    Raises:
        WeaveError: A term means something that cannot be woven.
    """
    spots: Spots = []
    terms: set[Term] = set()
    for plan in plans:
        for term in plan.terms:
            for module in modules_of(term):
                if imported is not None and module is not imported:
                    continue
                # Asked first: the import of another thread may end while we look, and then nothing shows any more that
                # what is missing was not defined yet.
                begun = is_being_imported(module)
                try:
                    found = _spots_in(term, module, plan.target, hooks)
                except WeaveError:
                    if begun:
                        continue  # what is missing may still be defined
                    raise
                if found:
                    terms.add(term)
                spots += [(plan, spot) for spot in found if plan.means(spot)]
    return spots, terms


def _spots_in(term: Term, module: ModuleType, pointcut: Any, hooks: Collection[CodeType]) -> list[Spot]:
    """Return the spots that a term means in a module; a glob passes over members that take no hooks.

    Raises:
        WeaveError: A member that is named is missing or takes no hooks, or none of those that a glob chooses does.
    """
    spots, refused = _accepted([one for one in find(term, module) if not is_excluded(one, pointcut)])
    if not term.exact:
        spots = [spot for spot in spots if code_of(spot.function) not in hooks]
    if not spots and refused is not None and term.exact_module:
        raise refused
    return spots


def _accepted(members: Iterable[Member]) -> tuple[list[Spot], WeaveError | None]:
    """Return the spots of the members that take hooks, and why the first of the others takes none."""
    spots: list[Spot] = []
    refused: WeaveError | None = None
    for member in members:
        try:
            spots.append(spot_of(member))
        except WeaveError as error:
            refused = refused or error
    return spots, refused


def spots_of_objects(plans: Iterable[Plan]) -> Spots:
    """Return the spots of targets that were given themselves."""
    return [(plan, spot) for plan in plans if not plan.terms for spot in _spots_of(plan.target) if plan.means(spot)]


def _spots_of(target: Any) -> list[Spot]:
    """Return the spots of a target that was given itself: of a module or a class, those of its public functions."""
    if isinstance(target, Chosen):
        return target.spots
    if isinstance(target, (ModuleType, type)):
        path = tuple(target.__qualname__.split(".")) if isinstance(target, type) else ()
        spots, refused = _accepted(public(target, path))
        if not spots:
            label = qualified(target) if isinstance(target, type) else target.__name__
            raise refused or WeaveError(why_empty(target, label))
        return spots
    model = model_of(target.__self__) if isinstance(target, MethodType) else None
    spot: Spot | None = model.spot_of_method(target) if model is not None else None
    if spot is None:
        spot = spot_of_object(target)
    if spot is None:
        raise WeaveError(
            f"{label_of(target)} cannot be woven: it is a value, of type {type(target).__name__}; give a function, a "
            f"method, a class, a module, a pointcut such as 'shop:price, shop:Cart.*', or an object with methods "
            f"marked pre, post and so on"
        )
    return [spot]
