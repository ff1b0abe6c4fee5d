"""Pressure on a job by source, and the speed it costs.

The cost is the control plane's own estimate: 5 % at the tolerated score (Paragon §2.3, P3), less
below it, and a fixed share of the speed for each point above it (docs/classification.md,
"Feedback and drift"). The form below the tolerated score is ours.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.estimates import HALF_WIDTH_90, Estimates
from apps.classification.core.feedback import POINT_COST, POINT_DEVIATION
from apps.execution.core.diagnosis.case import Case
from apps.inventory.core.snapshot import Bools, Floats

AT_TOLERATED: Final = -math.log(0.95)
MIN_TOLERATED: Final = 1.0


class SourcePressure(NamedTuple):
    """Pressure on a job, averaged over its units; each (N,), 0-100.

    before, at_dip : mean pressure; ``before`` is NaN if nothing was reported before
    tolerated : with its interval; None = no profile
    """

    before: Floats
    at_dip: Floats
    tolerated: Estimates | None

    @property
    def crossed(self) -> Bools:
        """(N,) whether the pressure at the dip is above what the job tolerates."""
        if self.tolerated is None:
            return np.zeros(self.at_dip.shape, dtype=np.bool_)
        above: Bools = self.at_dip > self.tolerated.value
        return above


def source_pressure(case: Case, before: Bools, at_dip: Bools) -> SourcePressure:
    """Return the mean pressure on the job's units in two sets of reports, (T,) each."""
    return SourcePressure(
        before=_mean_pressure(case, before),
        at_dip=_mean_pressure(case, at_dip),
        tolerated=case.tolerated,
    )


def _mean_pressure(case: Case, chosen: Bools) -> Floats:
    at_s = case.reports.at_s[chosen]
    servers = {holding.server for holding in case.own}
    if not at_s.size:
        return np.full(_sources(case), np.nan)
    total = np.zeros(_sources(case))
    for server in sorted(servers):
        weight = case.share_on(server, at_s)
        total += weight @ server_pressure(case, server, at_s) / at_s.size
    return np.minimum(total, 100.0)


def server_pressure(case: Case, server: int, at_s: Floats) -> Floats:
    """(T, N) pressure of the other jobs on a server: Σ units·c / (M - 1), 0 for M = 1.

    Source: Tarcil Eq. 3. The job's own units are left out: its scale-up curve includes them.
    """
    units = case.server_units.get(server, 0)
    total = np.zeros((at_s.size, _sources(case)))
    if units < 2:
        return total
    for other in case.others:
        if other.server == server:
            total += np.outer(other.present(at_s) * other.units, other.caused)
    return np.minimum(total / (units - 1), 100.0)


def loss(pressure: Floats, tolerated: Floats) -> Floats:
    """(...) loss of the logarithm of the speed at pressures (..., N)."""
    t = np.maximum(tolerated, MIN_TOLERATED)
    below = AT_TOLERATED * np.minimum(pressure / t, 1.0) ** 2
    lost: Floats = (below + POINT_COST * np.maximum(pressure - t, 0.0)).sum(axis=-1)
    return lost


def marginal_loss(alone: Floats, together: Floats, tolerated: Estimates) -> tuple[float, float]:
    """Return the loss that one neighbour causes among others, with its standard deviation.

    The mean of its loss as the first and as the last neighbour: its Shapley value if there are
    two. The deviation comes from the interval of the tolerance and from the cost of a point.

    Parameters
    ----------
    alone : (N,) pressure of the neighbour
    together : (N,) pressure of all, the neighbour included
    """

    def mean(limit: Floats) -> float:
        rest = np.maximum(together - alone, 0.0)
        return float((loss(alone, limit) + loss(together, limit) - loss(rest, limit)) / 2.0)

    value = mean(tolerated.value)
    spread = abs(mean(tolerated.low) - mean(tolerated.high)) / (2.0 * HALF_WIDTH_90)
    return value, math.hypot(spread, value * POINT_DEVIATION / POINT_COST)


def _sources(case: Case) -> int:
    return max((holding.caused.size for holding in (*case.own, *case.others)), default=0)
