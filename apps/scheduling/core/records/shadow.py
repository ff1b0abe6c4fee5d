"""Comparison of the choice of a shadow policy with a live decision.

Both choices are made on the same cluster, after the same earlier jobs and with the same seed. The
value of a choice is predicted by one formula for every policy (`redecide.Moment.prediction`):

    value  = performance of the job + performance that its neighbours keep
    regret = value of the live choice - value of the shadow's choice

A job alone on the highest-end platform has the performance 1, and so have undisturbed neighbours.
Positive: the shadow's choice is predicted to be worse.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from apps.scheduling.core import chance
from apps.scheduling.core.types import Request

REFUSAL: Final = 2.0  # difference if only one policy places the job: as large as a regret can be


class JobKind(StrEnum):
    """Kind of a job by its units."""

    ONE_UNIT = "one unit"
    GANG = "gang"  # several units, all of them or none
    INCREMENTAL = "incremental"  # several units, as many as are free


def kind_of(request: Request) -> JobKind:
    """Return the kind of the job that a request is for."""
    if request.units == 1:
        return JobKind.ONE_UNIT
    return JobKind.GANG if request.is_whole else JobKind.INCREMENTAL


def is_sampled(decision: UUID, share: float) -> bool:
    """Whether a decision is in the sample of a shadow that decides on this share of them.

    It follows from the id alone, so that it is the same again, and a smaller share is a part of a
    larger one: shadows that run together see the same decisions.
    """
    return chance.word(decision.int & ((1 << 63) - 1), 0) < share * 2.0**64


@dataclass(frozen=True, slots=True)
class Choice:
    """The choice of one policy.

    Attributes
    ----------
    units : ids; empty = the job was refused
    servers, platforms : names
    performance, neighbours : of `redecide.Prediction`
    reason : of the refusal
    """

    units: frozenset[int] = frozenset()
    servers: frozenset[str] = frozenset()
    platforms: frozenset[str] = frozenset()
    performance: float = 0.0
    neighbours: float = 0.0
    reason: str = ""

    @property
    def is_placed(self) -> bool:
        """Whether the job was placed."""
        return bool(self.units)

    def as_json(self) -> dict[str, Any]:
        """JSON form, without the units."""
        return {
            "servers": sorted(self.servers),
            "platforms": sorted(self.platforms),
            "units": len(self.units),
            "performance": self.performance if self.is_placed else None,
            "neighbours": self.neighbours if self.is_placed else None,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """A live decision and the shadow's, of which at least one placed the job.

    Attributes
    ----------
    job, neighbours : parts of the regret; None unless both placed the job
    """

    same_units: bool
    same_servers: bool
    same_platforms: bool
    job: float | None
    neighbours: float | None

    @property
    def difference(self) -> float:
        """Size of the regret; `REFUSAL` if only one of them placed the job."""
        if self.job is None or self.neighbours is None:
            return REFUSAL
        return abs(self.job + self.neighbours)


def comparison(live: Choice, shadow: Choice) -> Comparison | None:
    """Compare two choices; None if both refused the job."""
    if not live.is_placed and not shadow.is_placed:
        return None
    is_both = live.is_placed and shadow.is_placed
    return Comparison(
        same_units=live.units == shadow.units,
        same_servers=live.servers == shadow.servers,
        same_platforms=live.platforms == shadow.platforms,
        job=live.performance - shadow.performance if is_both else None,
        neighbours=live.neighbours - shadow.neighbours if is_both else None,
    )
