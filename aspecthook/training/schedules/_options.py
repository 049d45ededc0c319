"""Which policies a config means: their names, and what their options must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from inspect import Parameter as Declared
from inspect import signature
from math import inf
from typing import Any, TypeAlias, cast

from aspecthook._core.law.callables import Parameter
from aspecthook._errors import ConfigError, HookTypeError, brief, nearest
from aspecthook.training._options import finite_number, flag, one_of, share, whole_number
from aspecthook.training.backends._state import is_any
from aspecthook.training.registry._configs import listed
from aspecthook.training.registry._registry import check_arguments

from . import _policies

# A function of the value to start from, the progress and the maximum.
Policy: TypeAlias = Callable[[float, float, float], float]

_NAMES = """
    fixed step exp inv poly cosine_annealing linear_annealing flat_cosine_annealing cosine_restart cyclic one_cycle
"""
# Any: the policies have options of their own.
POLICIES: dict[str, Callable[..., float]] = {name: getattr(_policies, name) for name in _NAMES.split()}
_SHORT = {"cosine": "cosine_annealing", "linear": "linear_annealing", "flat_cosine": "flat_cosine_annealing"}
BY_STEP = ("cyclic", "one_cycle")  # these cannot count epochs

# The options of the hooks themselves, which take those of the policy beside them.
_OF_HOOKS = [
    Parameter(name, "keyword", True)
    for name in ("policy", "by_epoch", "warmup", "warmup_iters", "warmup_ratio", "warmup_by_epoch")
]
# What is another function for momenta, or has other defaults.
_OF_MOMENTA: dict[str, Callable[..., float]] = {
    "step": partial(_policies.step, gamma=0.5),
    "cyclic": partial(_policies.cyclic, target_ratio=(0.85 / 0.95, 1.0)),
    "one_cycle": _policies.one_cycle_of_momentum,
}

# What checks a value of each option; of a list, each item.
_positive, _count = partial(finite_number, above=0), partial(whole_number, least=1)
_not_negative = partial(finite_number, least=0)
_CHECKS: dict[str, Callable[[str, str, Any], Any]] = {
    **dict.fromkeys(("step", "periods", "cyclic_times", "total_steps", "warmup_iters"), _count),
    **dict.fromkeys(("start_percent", "step_ratio_up", "pct_start"), share),
    **dict.fromkeys(("div_factor", "final_div_factor", "max_lr", "max_momentum", "base_momentum"), _positive),
    **dict.fromkeys(("gamma", "power", "min_value", "min_ratio", "target_ratio", "restart_weights"), _not_negative),
    **dict.fromkeys(("three_phase", "by_epoch", "warmup_by_epoch"), flag),
    "anneal_strategy": partial(one_of, choices=("cos", "linear")),
    "warmup": partial(one_of, choices=("constant", "linear", "exp")),
    "warmup_ratio": lambda who, name, value: _positive(who, name, share(who, name, value)),
}
_LISTS = ("periods", "restart_weights")
_FOR_GROUPS = ("max_lr", "max_momentum", "base_momentum")  # one for all parameter groups, or a list of one for each
_ONE_OR_MANY = ("step", "target_ratio", *_FOR_GROUPS)


# Any: the value comes from a config.
def check(who: str, option: str, value: Any, word: str | None = None) -> None:
    """Raise if a value of an option is impossible; a config may use another word for the option."""
    several = is_any(value, list, tuple)
    if (option in _LISTS and not several) or value in ([], ()):
        raise HookTypeError(f"{who}: {word or option}={brief(value)}; give a list of numbers")
    for one in value if several and option in (*_LISTS, *_ONE_OR_MANY) else [value]:
        _CHECKS[option](who, word or option, one)


def policies_of(who: str, word: str, given: Any, options: Mapping[str, Any]) -> tuple[str, list[Policy]]:
    """Return the name of a policy, and it with its options: for all parameter groups, or one for each.

    For the word ``"lr"``, a config says ``min_lr`` for `min_value` and ``min_lr_ratio`` for `min_ratio`.
    """
    if not isinstance(given, str):
        if not callable(given) or isinstance(given, type):
            raise ConfigError(f"{who}: the policy is {brief(given)}; give the name of one, or a function")
        if options:
            raise ConfigError(f"{who}: {brief(given)} takes no options; leave out {listed(options)}")
        return brief(given), [cast("Policy", given)]
    name, who = _name_of(who, given), f"{who}: the policy {given!r}"
    function = (_OF_MOMENTA if word == "momentum" else POLICIES).get(name, POLICIES[name])
    words = {"min_value": f"min_{word}", "min_ratio": f"min_{word}_ratio"}
    parameters = [one for one in signature(function).parameters.values() if one.kind is Declared.KEYWORD_ONLY]
    takes = {words.get(one.name, one.name): one for one in parameters}
    known = [Parameter(key, "keyword", one.default is not one.empty) for key, one in takes.items()]
    check_arguments([*known, *_OF_HOOKS], dict(options), who)
    for key, value in options.items():
        if value is not None or takes[key].default is not None:
            check(who, takes[key].name, value, key)
    ends = [key for key in words.values() if options.get(key) is not None]
    if words["min_ratio"] in takes and len(ends) != 1:
        raise ConfigError(
            f"{who} is given {'both' if ends else 'neither'} of {' and '.join(words.values())}; give exactly one: the "
            "value at the end, or its ratio to the value at the start"
        )
    policies = _for_each_group(who, function, {takes[key].name: value for key, value in options.items()})
    for policy in policies:
        try:  # the beginning of an endless run, which finds options that are impossible together
            policy(1.0, 0, inf)
        except _policies.UnknownEndError:
            pass
        except ConfigError as error:
            raise ConfigError(f"{who}: {error}") from None
    return name, policies


def _name_of(who: str, given: str) -> str:
    """Return the name of a policy, which may be spelt as in mmcv, ``"CosineAnnealing"``, or be a short name."""
    spelt = "".join(filter(str.isalpha, given)).lower()
    for name in (*POLICIES, *_SHORT):
        if name.replace("_", "") == spelt:
            return _SHORT.get(name, name)
    near = nearest(given.lower(), [*POLICIES, *_SHORT])
    raise ConfigError(f"{who}: there is no policy {given!r}; the policies are {listed(POLICIES)}{near}")


def _for_each_group(who: str, function: Callable[..., float], options: dict[str, Any]) -> list[Policy]:
    """Return a function with its options, or one for each parameter group where an option lists values for them."""
    lists = {key: value for key, value in options.items() if key in _FOR_GROUPS and is_any(value, list, tuple)}
    if len({*map(len, lists.values())}) > 1:
        said = " and ".join(f"{key} has {len(value)} values" for key, value in lists.items())
        raise ConfigError(f"{who}: {said}; give equally many")
    rows = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)] or [{}]
    return [partial(function, **options | row) for row in rows]
