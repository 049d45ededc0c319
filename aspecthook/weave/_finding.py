"""From what is to be woven to the spots where hooks go: a search of the modules that are imported now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from types import CodeType, MethodType, ModuleType

from aspecthook._core.law.callables import code_of, type_of
from aspecthook._errors import WeaveError, plural, qualified
from aspecthook._hints import Any, NamedTuple, TypeAlias, cast, final

from ._imports import is_being_imported, is_running
from ._members import find, is_excluded, modules, path_of, public
from ._pointcut import Pointcut, Term
from ._pytorch import model_of
from ._reasons import why_empty
from ._spots import Chosen, Spot, shown, spot_of, spot_of_object, type_name
from ._woven import Wanted

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

Where: TypeAlias = Callable[[Any], object]


class Plan(NamedTuple):
    """What is to be woven on one target."""

    target: object  # a Pointcut, or the target itself
    wanted: tuple[Wanted, ...]
    where: Where | None


@final
class Search:
    """One search for spots, and what it has found.

    Args:
        hooks: The code of the hooks to be woven. A glob does not choose them: a hook must not run before itself.
    """

    def __init__(self, hooks: Collection[CodeType]) -> None:
        self._hooks = hooks
        self.spots: list[tuple[Plan, Spot]] = []
        self.found: set[Term] = set()  # the terms that have chosen something
        self.excluded: set[Term] = set()  # the terms of which `!` has left nothing

    def in_modules(self, plans: Iterable[Plan], imported: ModuleType | None = None) -> Search:
        """Search all modules, or the one that has been imported and what has come with it."""
        for plan in plans:
            if isinstance(plan.target, Pointcut):
                for term in plan.target.terms:
                    self.spots.extend([(plan, spot) for spot in self._of_term(term, plan, imported)])
        return self

    def of_objects(self, plans: Iterable[Plan]) -> Search:
        """Add the spots of targets that were given themselves."""
        for plan in plans:
            if not isinstance(plan.target, Pointcut):
                self.spots.extend([(plan, spot) for spot in _spots_of(plan.target, plan.where)])
        return self

    def _of_term(self, term: Term, plan: Plan, imported: ModuleType | None) -> Iterator[Spot]:
        everywhere = imported is None or term.takes_subclasses
        for module in modules(term):
            if not everywhere and module is not imported:
                continue
            # Asked first: the import of another thread may end while we look, and then nothing shows any more that what
            # is missing was not defined yet.
            is_begun = is_running(module) or (is_being_imported(module) and module is not imported)
            try:
                spots = list(self._in_module(term, module, plan))
            except WeaveError:
                if is_begun:
                    continue  # what is missing may still be defined
                raise
            if spots:
                self.found.add(term)
            for spot in spots:
                if plan.where is None or plan.where(spot.function):
                    yield spot

    def _in_module(self, term: Term, module: ModuleType, plan: Plan) -> Iterator[Spot]:
        """Return the spots that a term means in a module; a glob passes over members that take no hooks.

        Raises:
            WeaveError: A member that is named is missing or takes no hooks, or none of those that a glob chooses does.
        """
        refused: WeaveError | None = None
        some = excluded = False
        for member in find(term, module):
            if is_excluded(member, cast("Pointcut", plan.target)):
                excluded = True
                continue
            try:
                spot = spot_of(member)
            except WeaveError as error:
                if term.exact and len(member.path) == len(term.segments):
                    raise
                refused = refused or error
                continue
            if term.exact or code_of(spot.function) not in self._hooks:
                some = True
                yield spot
        if not some and refused is not None and term.exact_module:
            raise refused
        if not some and excluded and term.exact_module:
            self.excluded.add(term)


def _spots_of(target: Any, where: Where | None) -> list[Spot]:
    """Return the spots of a target that was given itself."""
    if isinstance(target, Chosen):
        return target.spots
    if isinstance(target, (ModuleType, type)):
        return _of_owner(target, where)
    model = model_of(target.__self__) if isinstance(target, MethodType) else None
    spot: Spot | None = model.spot_of_method(target) if model is not None else None
    if spot is None:
        spot = spot_of_object(target)
    if spot is None and type_of(target) in (list, tuple, set) and target:
        raise WeaveError(
            f"{shown(target)} cannot be woven: a weaving has one target; weave each of them, or name them in one "
            f"pointcut, as in 'shop:price, shop:Cart.*'"
        )
    if spot is None:
        raise WeaveError(
            f"{shown(target)} cannot be woven: it is a value, of type {type_name(target)}; give a function, a method, "
            f"a class, a module, a pointcut such as 'shop:price, shop:Cart.*', or an object with methods marked "
            f"pre, post and so on"
        )
    if where is not None and not where(spot.function):
        raise WeaveError(f"{shown(target)} is not woven: `where` refuses it")
    return [spot]


def _of_owner(target: ModuleType | type[Any], where: Where | None) -> list[Spot]:
    """Return the spots of the public functions of a module or a class."""
    spots: list[Spot] = []
    refused: list[WeaveError] = []
    for member in public(target, path_of(target) if isinstance(target, type) else ()):
        try:
            spots.append(spot_of(member))
        except WeaveError as error:
            refused.append(error)
    label = qualified(target) if isinstance(target, type) else target.__name__
    if not spots:
        raise refused[0] if refused else WeaveError(why_empty(target, label))
    chosen = [spot for spot in spots if where is None or where(spot.function)]
    if not chosen:
        raise WeaveError(f"{label} is not woven: `where` refuses all of it, {plural(len(spots), 'function')}")
    return chosen
