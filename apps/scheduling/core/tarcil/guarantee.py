"""Quality of the best of R candidates, and candidates needed for a guarantee (T3, T4).

D in [0, 1] is the rank of a unit among the eligible ones, x a rank, p a probability.
"""

import math
from functools import lru_cache

from apps.scheduling.core.types import DEFAULT_SAMPLE, MAX_SAMPLE


def sample_size(x: float, p: float, *, top_free_share: float = 1.0, cap: int = MAX_SAMPLE) -> int:
    """Return the candidates per unit for Pr[D < x] <= p, at most ``cap``: R = ceil(ln p / ln x').

    Under load, only ``top_free_share`` of the best 1 - x are free, so x becomes x' = 1 - (1 - x) ·
    top_free_share.

    Source: Tarcil Eq. 6 and §3.3 (T4). The paper prints 32 and 82; the formula gives 31 and 83.
    """
    if not (0.0 < x < 1.0 and 0.0 < p < 1.0):
        raise ValueError(f"x and p must lie strictly between 0 and 1, got {x} and {p}")
    if not 0.0 <= top_free_share <= 1.0:
        raise ValueError(f"top_free_share must lie in [0, 1], got {top_free_share}")
    shifted = 1.0 - (1.0 - x) * top_free_share
    if shifted >= 1.0:
        return cap
    # minus rounding error, so that an exact power (p = x^R) does not round up to R + 1
    return min(cap, max(1, math.ceil(math.log(p) / math.log(shifted) - 1e-9)))


@lru_cache(maxsize=4096)
def miss_probability(x: float, examined: int, units: int = 1, draws: int | None = None) -> float:
    """Return the probability that the worst of the ``units`` best candidates has D < x.

    x^R for one unit of R candidates (Tarcil Eq. 6). For m units of n = R·m candidates, the
    probability that fewer than m are in the best 1 - x: Σ_{i<m} C(n, i) (1-x)^i x^(n-i). Assumes
    independent draws; drawing without replacement is slightly better.

    With a locality, R units are ``draws``, and ``examined`` are all units of their places. Those
    of one place are alike, so that only the draws count: x^R.
    """
    if draws is not None:
        examined, units = draws, 1
    units = min(units, examined)
    return math.fsum(
        math.comb(examined, i) * (1.0 - x) ** i * x ** (examined - i) for i in range(units)
    )


def default_sample(units: int, sample_size: int | None = None) -> int:
    """Return R·m, the number of candidates for m units (T5)."""
    return units * (DEFAULT_SAMPLE if sample_size is None else sample_size)
