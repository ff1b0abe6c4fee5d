"""What the verdict on a candidate means, in words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from apps.common.core.interference import SOURCE_NAMES, SOURCES
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


@dataclass(frozen=True, slots=True)
class Judged:
    """The numbers of a candidate that its verdict follows from.

    Attributes
    ----------
    quality, target : U_H and T_W in [0, 1], NaN = the policy does not compute them
    closeness : order key of the candidates, as shown; NaN = not computed
    headroom : tolerated pressure minus pressure on the unit, per source; empty = not stored
    deciding : index of the source by which U falls below T; None = unknown, or U >= T
    """

    verdict: str
    quality: float
    target: float
    closeness: float
    headroom: Sequence[float] = ()
    deciding: int | None = None

    @property
    def fit(self) -> Fit:
        """How well the unit fits the job, whether or not it was chosen."""
        if self.verdict == Verdict.TOO_NOISY or self.quality < self.target:
            return Fit.NOISY
        if math.isnan(self.quality):
            return Fit.UNKNOWN
        return Fit.GOOD if is_enough(self.quality, self.target, self.closeness) else Fit.TIGHT

    @property
    def text(self) -> str:
        """The verdict as text, with the deciding source if there is one."""
        if self.verdict == Verdict.OUTRANKED and self.fit is Fit.UNKNOWN:
            return "ranked lower"
        if self.verdict == Verdict.OUTRANKED and self.fit is Fit.TIGHT and len(self.headroom):
            return f"too little headroom in {source_name(tightest(self.headroom))}"
        if self.verdict == Verdict.TOO_NOISY and self.deciding is not None:
            return f"{source_name(self.deciding)} too contended"
        return VERDICTS[Verdict(self.verdict)] if self.verdict in set(Verdict) else self.verdict


def is_enough(quality: float, target: float, closeness: float) -> bool:
    """Return whether a unit is good enough: its match is 1 - (U - T), and not U."""
    return abs(1.0 - quality + target - closeness) < 5e-6


def tightest(headroom: Sequence[float]) -> int:
    """Return the index of the source with the least headroom; 0 without headroom."""
    return min(range(len(headroom)), key=headroom.__getitem__, default=0)


def source_name(index: int) -> str:
    """Return the name of a source of interference."""
    return SOURCE_NAMES[SOURCES[index]]
