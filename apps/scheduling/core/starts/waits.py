"""Waiting jobs as the queue shows them, and scores of start estimates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

MAX_JOBS: Final = 10_000  # waiting jobs that the queue shows, soonest start first


@dataclass(frozen=True, slots=True)
class WaitingArray:
    """The array that holds a member back; ``limit`` is how many may wait or run at once."""

    id: UUID
    name: str
    limit: int | None


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A waiting job; times are cluster seconds.

    Attributes
    ----------
    shape : jobs with the same number have equal requests; None = not evaluated
    units : None = not known yet
    is_gang : whether it needs all its units to start
    tier : rank of the reason
    since_s : when it was submitted, or requeued after its last run
    start_s, latest_s : p50 and p90 of its start; None = unknown
    ahead : jobs that are predicted to start before it; None = no estimate
    reserved_s : when its reservation starts; None = it has none
    is_held : whether agents leave it out, as a user or its array holds it
    array : that holds it; None = none does
    """

    id: UUID
    name: str
    project: str
    application: str
    shape: int | None
    units: int | None
    is_gang: bool
    reason: str
    message: str
    tier: int
    priority: int
    since_s: float
    start_s: float | None
    latest_s: float | None
    ahead: int | None
    reserved_s: float | None
    is_held: bool
    array: WaitingArray | None


@dataclass(frozen=True, slots=True)
class WaitingJobs:
    """The waiting jobs that match; ``is_cut`` if more match than were read."""

    jobs: Sequence[WaitingJob]
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class WaitingCount:
    """Number of waiting jobs of one project with one reason."""

    project: str
    reason: str
    jobs: int


@dataclass(frozen=True, slots=True)
class StartScore:
    """How the first estimates of the jobs of one class compare with their starts.

    Attributes
    ----------
    count : starts whose estimate had an interval; the shares and the bias are of these
    unknown : further starts, whose estimate was unknown
    covered : share of starts between p5 and p95; None = no estimate had an interval
    by_p90 : share of starts by the p90; None likewise
    bias_s : median of start minus p50; None = the p50 of half of them is unknown
    waited_s : mean wait from the estimate on, of all starts
    """

    kind: str
    count: int
    unknown: int
    covered: float | None
    by_p90: float | None
    bias_s: float | None
    waited_s: float
