"""Sizing allowances: how much slower than predicted jobs may run, learned from those that ran.

Sizing multiplies the pessimistic end of predicted speeds by the allowance of the kind of target;
the rest of the prediction by at least the constant, so that slow jobs do not make the targets of
others infeasible. The pessimistic end is meant to be exceeded by 95 % of the jobs. So the
allowance is the 5 % quantile of

    measured speed / pessimistic end of the speed predicted on the same platforms,
                     without an allowance

over the newest jobs: neighbours, slow servers, stragglers and errors of profiles lower it. Few
jobs tell little, so the quantile, within `LIMITS`, is shrunk to the constant that was fitted to
the emulator, which counts as `PRIOR_JOBS` jobs.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

# expected slowdown by neighbours: at 70 to 80 % load, jobs run at 0.90 to 0.93 of their speed in
# isolation on average (docs/policies.md)
INTERFERENCE_ALLOWANCE: Final = 0.9
QUANTILE: Final = 0.05
PRIOR_JOBS: Final = 30.0
NEWEST: Final = 400  # jobs of a kind that count
LIMITS: Final = (0.5, 1.0)  # of an allowance
EVERY: Final = 10  # jobs of a kind between two estimates of a simulation


@dataclass(frozen=True, slots=True)
class Allowances:
    """Share of the predicted speed that sizing counts on, by kind of target."""

    completion_time: float = INTERFERENCE_ALLOWANCE
    throughput_latency: float = INTERFERENCE_ALLOWANCE
    ips: float = INTERFERENCE_ALLOWANCE

    def of(self, kind: str) -> float:
        """Return the allowance of a kind of target; best effort has that of completion times."""
        return float(getattr(self, kind if kind in KINDS else "completion_time"))

    @classmethod
    def all(cls, value: float) -> "Allowances":
        """Return the same allowance for all kinds."""
        return cls(value, value, value)


KINDS: Final = tuple(field.name for field in fields(Allowances))
DEFAULT: Final = Allowances()


@dataclass(frozen=True, slots=True)
class Estimated:
    """An allowance, the number of jobs that it follows from, and their quantile; NaN of none."""

    value: float
    jobs: int
    quantile: float


def estimated(ratios: Sequence[float], prior: float = INTERFERENCE_ALLOWANCE) -> Estimated:
    """Estimate one allowance.

    Parameters
    ----------
    ratios : measured over pessimistic speed of the newest jobs, each > 0
    prior : allowance without any job
    """
    if not len(ratios):
        return Estimated(prior, 0, math.nan)
    quantile, jobs = float(np.quantile(ratios, QUANTILE)), len(ratios)
    limited = min(max(quantile, LIMITS[0]), LIMITS[1])
    value = (jobs * limited + PRIOR_JOBS * prior) / (jobs + PRIOR_JOBS)
    return Estimated(value, jobs, quantile)


def allowances_of(
    ratios: Mapping[str, Sequence[float]], prior: Allowances = DEFAULT
) -> Allowances:
    """Estimate the allowances of all kinds; those without jobs are as before."""
    return Allowances(
        **{kind: estimated(ratios.get(kind, ()), prior.of(kind)).value for kind in KINDS}
    )


class AllowanceLearner:
    """Allowances of a simulation, updated as its jobs end."""

    def __init__(self, prior: Allowances = DEFAULT) -> None:
        self.now = prior
        self._prior = prior
        self._ratios: dict[str, deque[float]] = {kind: deque(maxlen=NEWEST) for kind in KINDS}
        self._new = 0

    def add(self, kind: str, ratio: float) -> None:
        """Count one more job; ratios that are not known are ignored."""
        if kind not in KINDS or not ratio > 0.0 or math.isinf(ratio):
            return
        self._ratios[kind].append(ratio)
        self._new += 1
        if self._new >= EVERY:
            self._new = 0
            self.now = allowances_of(self._ratios, self._prior)
