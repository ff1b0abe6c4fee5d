"""What is known about one job around a dip."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from apps.classification.core.estimates import Estimates
from apps.inventory.core.snapshot import Bools, Floats


@dataclass(frozen=True, slots=True, eq=False)
class Holding:
    """Units of one server that one job works on for a time.

    Attributes
    ----------
    job : key that is equal for the holdings of one job
    server : id
    units : >= 1
    from_s, to_s : cluster seconds; ``to_s`` is infinite if it still holds them
    caused : (N,) interference that each unit causes, 0-100, as assumed at its placement
    """

    job: str
    server: int
    units: int
    from_s: float
    to_s: float
    caused: Floats

    def present(self, at_s: Floats) -> Bools:
        """(T,) whether it holds its units at these times."""
        here: Bools = (at_s >= self.from_s) & (at_s < self.to_s)
        return here


@dataclass(frozen=True, slots=True)
class Stall:
    """Units of the job that pause for a migration; ``end_s`` is infinite while it runs."""

    begin_s: float
    end_s: float
    units: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Cluster seconds from submission to the start of a job, and its target from submission."""

    waited_s: float
    target_s: float

    @property
    def log_needed(self) -> float:
        """Logarithm of the speed that meets the target after the wait; infinite if none does."""
        left_s = self.target_s - self.waited_s
        return -math.log(left_s) if left_s > 0.0 else math.inf

    @property
    def log_needed_at_once(self) -> float:
        """Logarithm of the speed that meets the target without the wait."""
        return -math.log(self.target_s)


@dataclass(frozen=True, slots=True, eq=False)
class Reports:
    """T reports of a job, oldest first.

    Attributes
    ----------
    at_s, log_speed, attainment : (T,); NaN = unknown
    readings : (T,) reports that each is the mean of
    counters : (T, C) what its units use while they work; NaN = not reported
    """

    at_s: Floats
    log_speed: Floats
    attainment: Floats
    readings: Floats
    counters: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A job with everything that may explain its speed.

    Attributes
    ----------
    own : its holdings
    others : holdings of other jobs on the same servers
    server_units : M of each server, by id
    server_speed : relative speed of a unit of the job there, by server id
    tolerated : (N,) of its profile; None = no profile
    predicted : mean and standard deviation of the logarithm of its speed without neighbours, as
        predicted at placement; None = not predicted
    wanted_units : size that its target needs, held or not; None = unknown
    noise : standard deviation of the logarithm of one reading of its speed
    wait : before its first start; None = it has no completion time, or was started again
    """

    reports: Reports
    own: Sequence[Holding]
    others: Sequence[Holding]
    server_units: Mapping[int, int]
    server_speed: Mapping[int, float]
    tolerated: Estimates | None
    stalls: Sequence[Stall]
    predicted: tuple[float, float] | None
    wanted_units: int | None
    noise: float
    wait: Wait | None = None

    def own_units(self, at_s: Floats) -> Floats:
        """(T,) units that the job works on."""
        total = np.zeros(at_s.shape)
        for holding in self.own:
            total += holding.units * holding.present(at_s)
        return total

    def share_on(self, server: int, at_s: Floats) -> Floats:
        """(T,) share of the job's units that are on a server; 0 while it has none."""
        here = np.zeros(at_s.shape)
        for holding in self.own:
            if holding.server == server:
                here += holding.units * holding.present(at_s)
        return here / np.maximum(self.own_units(at_s), 1.0)
