"""Weights of the objectives, by which a replay migrates running jobs."""

import math
from collections.abc import Mapping
from typing import Any, Final

from apps.placement.core.problem.objectives import OBJECTIVES

REBALANCE_S: Final = 600.0  # between two plans
MIN_REBALANCE_S: Final = 60.0


def weights_problem(weights: Mapping[str, Any]) -> str | None:
    """Say what is wrong with weights of the objectives; None if they are accepted."""
    for name, value in weights.items():
        if name not in OBJECTIVES:
            return f"must be of {', '.join(OBJECTIVES)}, which a replay has, not of {name!r}"
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0.0 <= value < math.inf:
            return f"of {name} must be a number of at least 0, not {value!r}"
    return None if any(weights.values()) else "must have one above 0"
