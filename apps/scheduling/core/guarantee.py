"""How good the best of R candidates is, and how many candidates a promise needs (T3, T4).

D in [0, 1] is the rank of a unit among the eligible ones, x a rank, p a probability.
"""

import math
from functools import lru_cache

from apps.scheduling.core.types import DEFAULT_SAMPLE, MAX_SAMPLE


def sample_size(x: float, p: float, *, top_free_share: float = 1.0, cap: int = MAX_SAMPLE) -> int:
    """Candidates per unit so that Pr[D < x] <= p, at most ``cap``: R = ceil(ln p / ln x').

    At load only ``top_free_share`` of the best 1 - x are free, so the best free units are fewer
    and x moves to x' = 1 - (1 - x) · top_free_share.

    Source: Tarcil Eq. 6 and §3.3 (T4). The paper prints 32 and 82 where the formula gives 31 and
    83.
    """
    if not (0.0 < x < 1.0 and 0.0 < p < 1.0):
        raise ValueError(f"x and p must lie strictly between 0 and 1, got {x} and {p}")
    if not 0.0 <= top_free_share <= 1.0:
        raise ValueError(f"top_free_share must lie in [0, 1], got {top_free_share}")
    moved = 1.0 - (1.0 - x) * top_free_share
    if moved >= 1.0:
        return cap
    # a hair less, so that an exact power (p = x^R) does not round up to R + 1
    return min(cap, max(1, math.ceil(math.log(p) / math.log(moved) - 1e-9)))


@lru_cache(maxsize=4096)
def miss_probability(x: float, examined: int, units: int = 1) -> float:
    """Chance that the worst of the ``units`` best of ``examined`` candidates has D < x.

    x^R for one unit of R candidates (Tarcil Eq. 6); for m units of R·m candidates, fewer than m
    fall into the best 1 - x: Σ_{i<m} C(n, i) (1-x)^i x^(n-i). Independent draws are assumed;
    drawing without replacement does slightly better.
    """
    units = min(units, examined)
    return math.fsum(
        math.comb(examined, i) * (1.0 - x) ** i * x ** (examined - i) for i in range(units)
    )


def default_sample(units: int, sample_size: int | None = None) -> int:
    """R·m candidates for m units (T5)."""
    return units * (DEFAULT_SAMPLE if sample_size is None else sample_size)
