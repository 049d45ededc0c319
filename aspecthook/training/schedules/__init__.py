"""Learning rates and momenta that follow a policy."""

from __future__ import annotations

from ._policies import (
    CosineAnnealing,
    CosineRestart,
    Cyclic,
    Exp,
    Fixed,
    FlatCosine,
    Inv,
    LinearAnnealing,
    OneCycle,
    Policy,
    Poly,
    Step,
    warmup,
)

__all__ = [
    "CosineAnnealing",
    "CosineRestart",
    "Cyclic",
    "Exp",
    "Fixed",
    "FlatCosine",
    "Inv",
    "LinearAnnealing",
    "OneCycle",
    "Policy",
    "Poly",
    "Step",
    "warmup",
]
