"""What the verdict on a candidate means, in words."""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, Protocol

from apps.common.core.interference import SOURCE_NAMES, SOURCES
from apps.inventory.core.snapshot import Floats
from apps.scheduling.core.types import Verdict

VERDICTS: Final = {
    Verdict.CHOSEN: "chosen",
    Verdict.OUTRANKED: "better than needed",
    Verdict.TOO_NOISY: "too contended",
    Verdict.NO_ROOM: "does not fit with the other units of the job",
}


class Fit(StrEnum):
    """How well a unit fits a job, by quality U, needed quality T and headroom."""

    GOOD = "good"
    TIGHT = "tight"  # U >= T, but some source has too little headroom
    NOISY = "noisy"  # U < T
    UNKNOWN = "unknown"  # the policy computes no quality


class Judged(Protocol):
    """The numbers of a candidate that its verdict follows from; NaN = not computed."""

    @property
    def verdict(self) -> str:
        """Code of the verdict."""

    @property
    def quality(self) -> float:
        """U_H in [0, 1]; NaN = the policy does not compute it."""

    @property
    def target(self) -> float:
        """T_W in [0, 1]; NaN as for the quality."""

    @property
    def closeness(self) -> float:
        """Order key of the candidates, as shown; NaN = not computed."""

    @property
    def headroom(self) -> Sequence[float] | Floats:
        """Tolerated pressure minus pressure on the unit, per source; empty = not stored."""


def fit_of(candidate: Judged) -> Fit:
    """Return how well the unit fits the job, whether or not it was chosen."""
    quality, target = candidate.quality, candidate.target
    if candidate.verdict == Verdict.TOO_NOISY or quality < target:
        return Fit.NOISY
    if math.isnan(quality):
        return Fit.UNKNOWN
    return Fit.GOOD if is_enough(quality, target, candidate.closeness) else Fit.TIGHT


def verdict_text(candidate: Judged, deciding: int | None = None) -> str:
    """Return the verdict as text, with the deciding source if there is one.

    Parameters
    ----------
    deciding : index of the source by which U falls below T; None = unknown, or U >= T
    """
    verdict, fit = candidate.verdict, fit_of(candidate)
    if verdict == Verdict.OUTRANKED and fit is Fit.UNKNOWN:
        return "ranked lower"
    if verdict == Verdict.OUTRANKED and fit is Fit.TIGHT and len(candidate.headroom):
        return f"too little headroom in {source_name(tightest(candidate.headroom))}"
    if verdict == Verdict.TOO_NOISY and deciding is not None:
        return f"{source_name(deciding)} too contended"
    return VERDICTS[Verdict(verdict)] if verdict in set(Verdict) else verdict


def is_enough(quality: float, target: float, closeness: float) -> bool:
    """Return whether a unit is good enough: its match is 1 - (U - T), and not U."""
    return abs(1.0 - quality + target - closeness) < 5e-6


def tightest(headroom: Sequence[float] | Floats) -> int:
    """Return the index of the source with the least headroom; 0 without headroom."""
    return min(range(len(headroom)), key=headroom.__getitem__, default=0)


def source_name(index: int) -> str:
    """Return the name of a source of interference."""
    return SOURCE_NAMES[SOURCES[index]]
