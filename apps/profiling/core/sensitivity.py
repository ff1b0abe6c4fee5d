"""How sensitive a real program is to one stressor: the search, and the state of its result.

The ramp of the emulated profiler (`ramp`) decides the intensities; its samples are pairs of
windows. Full intensity comes first, because most programs do not react to most sources.

Source: Paragon §2.3 (P3).
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Floats
from apps.profiling.core.paired import Effect, Pair, drift, effect
from apps.profiling.core.ramp import (
    FULL,
    HALF_WIDTH_90,
    QOS,
    NoisePrior,
    Precision,
    ProbeFailedError,
    RampFailure,
    RampResult,
    find_threshold,
)
from apps.profiling.core.windows import Basis

MAX_PAIRS: Final = 16  # valid ones, of one source
MAX_INVALID: Final = 8  # pairs of one source that may be invalid, beyond one for each valid pair
MAX_DRIFT: Final = 0.05
RESOLUTION: Final = 6.0  # target standard error, in points of intensity
NARROW: Final = 0.02  # max half-width of an interval that counts as including 95 %

# Runs one pair: intensity 1-100, and whether the stressor is on in the first window.
RunPair = Callable[[int, bool], Pair]


class State(StrEnum):
    """State of the result for one source."""

    MEASURED = "measured"  # speed falls below 95 % at the score
    NOT_REACHED = "not_reached"  # it stays above 95 % at full intensity
    INCONCLUSIVE = "inconclusive"  # all windows were valid, and their noise hides the answer
    INVALID = "invalid"  # the windows do not count


@dataclass(frozen=True, slots=True)
class Point:
    """The effect of one intensity: on the speed that counts, and on wall speed."""

    intensity: int
    effect: Effect
    wall: Effect


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The result for one source.

    Attributes
    ----------
    score, low, high : intensity at which speed falls below 95 % with its 90 % interval; score and
        high are None unless measured. If the state is not_reached, low is 100
    points : by increasing intensity; valid pairs only
    rejected : reasons of invalid pairs, and how many had each
    """

    state: State
    reason: str
    score: float | None
    low: float | None
    high: float | None
    points: tuple[Point, ...]
    rejected: dict[str, int]


def measure(run_pair: RunPair, basis: Basis, prior: NoisePrior) -> Sensitivity:
    """Measure the sensitivity to one source.

    Parameters
    ----------
    run_pair : runs one pair of windows
    basis : the speed that counts
    prior : noise of a pair, from windows without a stressor (`paired.noise_prior`)
    """
    pairs = _Pairs(run_pair, basis)
    precision = Precision(RESOLUTION, MAX_PAIRS, NARROW, first=FULL)
    found = find_threshold(pairs.sample, precision=precision, prior=prior)
    return _Judge(pairs, prior).result(found)


@dataclass(slots=True)
class _Pairs:
    """Runs pairs in alternating order and keeps them."""

    run_pair: RunPair
    basis: Basis
    valid: dict[int, list[Pair]] = field(default_factory=dict)
    in_order: list[Pair] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)
    is_on_first: bool = False

    @property
    def has_too_many_faults(self) -> bool:
        """Whether the search gives up."""
        return self.rejected.total() > MAX_INVALID + len(self.in_order)

    def sample(self, intensity: int, count: int) -> Floats:
        """Return the relative speed of so many valid pairs (a `ramp.Sampler`)."""
        return np.array([np.exp(self._one(intensity)) for _ in range(count)])

    def _one(self, intensity: int) -> float:
        while not self.has_too_many_faults:
            pair = self.run_pair(intensity, self.is_on_first)
            self.is_on_first = not self.is_on_first
            fault = pair.fault(self.basis)
            if fault is None:
                self.valid.setdefault(intensity, []).append(pair)
                self.in_order.append(pair)
                return pair.difference(self.basis)
            self.rejected[fault.value] += 1
        raise ProbeFailedError(self.rejected.most_common(1)[0][0])


@dataclass(slots=True)
class _Judge:
    """Turns the pairs and the answer of the ramp into a result."""

    pairs: _Pairs
    prior: NoisePrior

    def result(self, found: RampResult | RampFailure) -> Sensitivity:
        points = tuple(self._point(level) for level in sorted(self.pairs.valid))
        state, reason = self._state(found, points)
        score = low = high = None
        if state is State.MEASURED and isinstance(found, RampResult):
            margin = HALF_WIDTH_90 * found.standard_error
            score, low = found.value, max(0.0, found.value - margin)
            high = min(float(FULL), found.value + margin)
        elif state is State.NOT_REACHED:
            low = float(FULL)
        return Sensitivity(state, reason, score, low, high, points, dict(self.pairs.rejected))

    def _state(
        self, found: RampResult | RampFailure, points: tuple[Point, ...]
    ) -> tuple[State, str]:
        if self.pairs.has_too_many_faults:
            return State.INVALID, self.pairs.rejected.most_common(1)[0][0]
        change = drift([pair.off for pair in self.pairs.in_order], self.pairs.basis)
        if abs(change) > max(MAX_DRIFT, self._drift_by_noise()):
            return State.INVALID, f"speed without a stressor changed by {100.0 * change:+.0f} %"
        if isinstance(found, RampFailure):
            return State.INCONCLUSIVE, found.reason
        if found.value >= FULL:
            return State.NOT_REACHED, ""
        if not any(point.effect.high < QOS for point in points):
            return State.INCONCLUSIVE, "no interval lies below 95 %"
        return State.MEASURED, ""

    def _drift_by_noise(self) -> float:
        """Return the drift that noise alone exceeds in 5 % of cases: two standard errors.

        A window has half of the variance of a pair, and a median 1.25 times the error of a mean.
        """
        half = max(1, len(self.pairs.in_order) // 2)
        return 2.0 * 1.25 * self.prior.deviation / math.sqrt(half)

    def _point(self, level: int) -> Point:
        pairs = self.pairs.valid[level]
        effects = [
            effect([pair.difference(basis) for pair in pairs], self.prior)
            for basis in (self.pairs.basis, Basis.WALL)
        ]
        return Point(level, *effects)
