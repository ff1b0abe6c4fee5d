"""Who may be preempted without an operator, and how often.

A victim always has a strictly lower priority than the job that takes its units, so no two jobs can
preempt each other. The limits bound how often one job, and how many jobs, are stopped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from apps.inventory.core.snapshot import Bools, Floats, Ints


class PreemptionMode(StrEnum):
    """What Berth does for waiting jobs of high priority (`BERTH_PREEMPTION`)."""

    OFF = "off"  # operators preempt jobs by hand
    PREVIEWED = "previewed"  # Berth proposes preemptions, and operators approve them
    AUTOMATIC = "automatic"  # Berth records a proposal and applies it


class Limit(StrEnum):
    """A limit of preemptions."""

    PER_VICTIM = "per_victim"
    COOLDOWN = "cooldown"
    PER_JOB = "per_job"
    PER_HOUR = "per_hour"


class ExceededLimit(NamedTuple):
    """A limit that a preemption would exceed.

    Attributes
    ----------
    setting : its environment variable
    message : the limit and the value, as a sentence
    """

    limit: Limit
    setting: str
    message: str

    def as_json(self) -> dict[str, str]:
        """Plain JSON."""
        return {"limit": self.limit.value, "setting": self.setting, "message": self.message}


class PastPreemptions(NamedTuple):
    """How often a running job was preempted; cluster seconds of the last time, -inf = never."""

    name: str
    times: int
    last_s: float


@dataclass(frozen=True, slots=True)
class PreemptionLimits:
    """Limits of preemptions that Berth proposes or applies.

    Attributes
    ----------
    per_job : preemptions of one job at most
    per_hour : victims per cluster hour at most
    cooldown_s : cluster seconds after a preemption during which a job is not preempted again
    """

    per_job: int
    per_hour: int
    cooldown_s: float

    def allows(self, preemptions: Ints, preempted_s: Floats, now_s: float) -> Bools:
        """(C,) True for the jobs that may be stopped.

        Parameters
        ----------
        preemptions : (C,) of each job so far
        preempted_s : (C,) cluster seconds of its last one; -inf = none
        """
        allowed: Bools = (preemptions < self.per_job) & (now_s - preempted_s >= self.cooldown_s)
        return allowed

    def left(self, stopped: int) -> int:
        """Return how many more jobs may be stopped if some were in the last hour."""
        return max(0, self.per_hour - stopped)

    def exceeded(
        self, victims: Sequence[PastPreemptions], *, by_job: int, in_hour: int, now_s: float
    ) -> tuple[ExceededLimit, ...]:
        """Return the limits that stopping some jobs for another one would exceed.

        Parameters
        ----------
        by_job : preemptions for that job so far
        in_hour : jobs that were stopped within the last hour
        """
        found = [each for victim in victims for each in self._of_victim(victim, now_s)]
        if by_job >= self.per_job:
            text = f"The job has already preempted others {by_job} times."
            found.append(ExceededLimit(Limit.PER_JOB, "BERTH_PREEMPTIONS_PER_JOB", text))
        left = self.left(in_hour)
        if len(victims) > left:
            text = f"Only {left} more jobs may be preempted within this hour."
            found.append(ExceededLimit(Limit.PER_HOUR, "BERTH_PREEMPTIONS_PER_HOUR", text))
        return tuple(found)

    def _of_victim(self, victim: PastPreemptions, now_s: float) -> list[ExceededLimit]:
        found, ago_s = [], now_s - victim.last_s
        if victim.times >= self.per_job:
            text = f"{victim.name} was already preempted {victim.times} times."
            found.append(ExceededLimit(Limit.PER_VICTIM, "BERTH_PREEMPTIONS_PER_JOB", text))
        if ago_s < self.cooldown_s:
            ago = f"{victim.name} was preempted {ago_s:,.0f} s ago."
            text = f"{ago} The cool-down is {self.cooldown_s:,.0f} s."
            found.append(ExceededLimit(Limit.COOLDOWN, "BERTH_PREEMPTION_COOLDOWN_S", text))
        return found
