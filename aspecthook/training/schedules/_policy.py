"""The base class of policies, the types of their options, and their names in configs.

To add a policy, write one class in `_policies`, with the decorator `policy` and fields of the option types below. Then
configs and both hooks accept it, and it has mmcv's names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from math import inf, isfinite, ulp
from numbers import Integral, Real
from typing import (
    Annotated,
    Any,
    ClassVar,
    NamedTuple,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
    get_type_hints,
)

from aspecthook._core.law.callables import Parameter
from aspecthook._errors import ConfigError, brief, nearest
from aspecthook.training.registry._configs import listed
from aspecthook.training.registry._registry import check_arguments


class Policy(Protocol):
    """A function that returns the value at a point of a run; any function of three numbers will do.

    The maximum is infinite if the run does not know its end; the policies here that need it raise an error then.

    Example:
        >>> def halves(base, progress, maximum):
        ...     return base if 2 * progress < maximum else base / 2
        >>> halves(0.1, 5, 10)
        0.05
    """

    def __call__(self, base: float, progress: float, maximum: float, /) -> float:
        """Return the value at a point of a run."""
        ...


class Course(NamedTuple):
    """A policy, and the value that it starts from; None for the value that the parameter group has."""

    policy: Policy
    start: float | None = None


# The types of options


class Rule(NamedTuple):
    """The rule for an option: a number within bounds, a list of such numbers, or one of some values."""

    advice: str
    low: float = 0.0
    high: float = inf
    whole: bool = False
    one: bool = True
    many: bool = False
    among: tuple[object, ...] = ()

    # Any: the value comes from a config.
    def check(self, who: str, name: str, value: Any) -> Any:
        """Return the value of an option, a list as a tuple; the error says which values are possible."""
        several = isinstance(value, (list, tuple))
        values: tuple[Any, ...] = tuple(cast("Any", value)) if several else (value,)
        if not values or not (self.many if several else self.one) or not all(map(self._fits, values)):
            hint = nearest(str(value), [*map(str, self.among)])
            raise ConfigError(f"{who}({name}={brief(value)}): give {self.advice}{hint}")
        return values if several else value

    def _fits(self, value: object) -> bool:
        if self.among:
            return isinstance(value, (str, bool)) and value in self.among
        if isinstance(value, bool) or not isinstance(value, Integral if self.whole else Real):
            return False
        return isfinite(value) and self.low <= float(value) <= self.high


FLAG = Rule("True or False", among=(True, False))
COUNT = Rule("a whole number from 1 up", low=1.0, whole=True)
WARMUP = Rule("None, 'constant', 'linear' or 'exp'", among=("constant", "linear", "exp"))
WARMUP_RATIO = Rule("a number above 0 and up to 1", low=ulp(0.0), high=1.0)
PEAKS = Rule("a number above 0, or a list of one for each parameter group", low=ulp(0.0), many=True)

Flag: TypeAlias = Annotated[bool, FLAG]
Count: TypeAlias = Annotated[int, COUNT]
NotNegative: TypeAlias = Annotated[float, Rule("a number from 0 up")]
Positive: TypeAlias = Annotated[float, Rule("a number above 0", low=ulp(0.0))]
Share: TypeAlias = Annotated[float, Rule("a number from 0 to 1", high=1.0)]
Strategy: TypeAlias = Annotated[str, Rule("'cos' or 'linear'", among=("cos", "linear"))]
Ratios: TypeAlias = Annotated[float | Sequence[float], Rule("a number from 0 up, or a list of two", many=True)]
Periods: TypeAlias = Annotated[
    Sequence[int], Rule("a list of whole numbers from 1 up", low=1.0, whole=True, one=False, many=True)
]
Weights: TypeAlias = Annotated[Sequence[float], Rule("a list of numbers from 0 up", one=False, many=True)]
Milestones: TypeAlias = Annotated[
    int | Sequence[int], Rule("a whole number from 1 up, or a list of them", low=1.0, whole=True, many=True)
]


def _rule_in(hint: Any) -> Rule:
    """Return the rule of an option type, which may be one of the types of a union."""
    rules: list[Rule] = [rule for one in (hint, *get_args(hint)) for rule in getattr(one, "__metadata__", ())]
    return rules[0]


# The base class


@dataclass(frozen=True, slots=True, kw_only=True)
class BasePolicy:
    """A policy whose options are checked when it is made, and which a config can name."""

    by_step: ClassVar[bool] = False  # whether it cannot count epochs
    momentum_defaults: ClassVar[Mapping[str, Any]] = {}  # the options that have another default for momenta

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self), include_extras=True)
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None or field.default is not None:
                checked = _rule_in(hints[field.name]).check(type(self).__name__, field.name, value)
                object.__setattr__(self, field.name, checked)

    def __call__(self, base: float, progress: float, maximum: float, /) -> float:
        raise NotImplementedError

    @classmethod
    def courses(cls, who: str, word: str, options: Mapping[str, Any]) -> list[Course]:
        """Return the course that a config means for all parameter groups, or one for each.

        For the word ``"lr"``, a config says ``min_lr`` for `min_value` and ``min_lr_ratio`` for `min_ratio`.
        """
        words = {"min_value": f"min_{word}", "min_ratio": f"min_{word}_ratio"}
        own = {words.get(field.name, field.name): field.name for field in fields(cls)}
        required = [key for key, field in zip(own, fields(cls), strict=True) if field.default is MISSING]
        check_names(who, options, own, required)
        given = {own[key]: value for key, value in options.items()}
        if word == "momentum":
            given = {**cls.momentum_defaults, **given}
        return [Course(cls.build(who, given, words))]

    @classmethod
    def build(cls, who: str, options: Mapping[str, Any], words: Mapping[str, str] | None = None) -> Self:
        """Return the policy with some options; error messages use the words of the config for them."""
        try:
            return cls(**options)
        except ConfigError as error:
            text = str(error)
            for name, word in (words or {}).items():
                text = text.replace(name, word)
            raise ConfigError(f"{who}: {text}") from None


def check_names(who: str, options: Mapping[str, Any], takes: Iterable[str], required: Container[str]) -> None:
    """Check that no option is unknown or missing."""
    names = (*takes, *HOOK_OPTIONS)
    check_arguments([Parameter(name, "keyword", name not in required) for name in names], dict(options), who)


# The options of the hooks themselves, which take those of the policy beside them.
HOOK_OPTIONS = ("policy", "by_epoch", "warmup", "warmup_iters", "warmup_ratio", "warmup_by_epoch")


# The names

# By the name of the class in snake case, in the order of their definition.
POLICIES: dict[str, type[BasePolicy]] = {}
_BY_SPELLING: dict[str, type[BasePolicy]] = {}

Kind = TypeVar("Kind", bound=BasePolicy)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def policy(*aliases: str) -> Callable[[type[Kind]], type[Kind]]:
    """Return a decorator that makes a class a dataclass, and a policy with the name of the class and aliases.

    Case and underscores do not matter: ``"CosineAnnealing"``, as in mmcv, is ``"cosine_annealing"``.
    """

    def register(cls: type[Kind]) -> type[Kind]:
        made = dataclass(frozen=True, slots=True, kw_only=True)(cls)
        POLICIES[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", made.__name__).lower()] = made
        _BY_SPELLING.update(dict.fromkeys(map(_spelling, (made.__name__, *aliases)), made))
        return made

    return register


def _spelling(name: str) -> str:
    return "".join(filter(str.isalpha, name)).lower()


def courses_of(who: str, word: str, given: object, options: Mapping[str, Any]) -> list[Course]:
    """Return the course that a policy, or its name and options, means for all groups, or one for each."""
    if isinstance(given, str):
        cls = _BY_SPELLING.get(_spelling(given))
        if cls is None:
            aliases = sorted(_BY_SPELLING.keys() - set(map(_spelling, POLICIES)))
            near = nearest(given.lower(), [*POLICIES, *aliases])
            raise ConfigError(f"{who}: there is no policy {given!r}; the policies are {listed(POLICIES)}{near}")
        return cls.courses(f"{who}: the policy {given!r}", word, options)
    if not callable(given) or isinstance(given, type):
        raise ConfigError(f"{who}: the policy is {brief(given)}; give the name of one, or a function")
    if options:
        raise ConfigError(f"{who}: {brief(given)} takes no options; leave out {listed(options)}")
    return [Course(cast("Policy", given))]
