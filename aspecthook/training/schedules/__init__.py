"""Learning rates and momenta that follow a policy.

`_policies` has one class for each policy, and `_policy` their base class and names. `_hooks` has the two hooks that set
the values. `_mmcv` has mmcv's names for these hooks, and mmcv's configs of all hooks of a run.
"""

from __future__ import annotations

from ._policies import (
    CosineAnnealing,
    CosineRestart,
    Cyclic,
    Exp,
    Fixed,
    FlatCosineAnnealing,
    Inv,
    LinearAnnealing,
    OneCycle,
    Poly,
    Step,
    warmup,
)
from ._policy import Policy

__all__ = [
    "CosineAnnealing",
    "CosineRestart",
    "Cyclic",
    "Exp",
    "Fixed",
    "FlatCosineAnnealing",
    "Inv",
    "LinearAnnealing",
    "OneCycle",
    "Policy",
    "Poly",
    "Step",
    "warmup",
]
