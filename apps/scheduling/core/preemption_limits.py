"""Who may be preempted without an operator, and how often.

A victim always has a strictly lower priority than the job that takes its units, so no two jobs can
preempt each other. The limits bound how often one job, and how many jobs, are stopped.
"""

from dataclasses import dataclass
from enum import StrEnum

from apps.inventory.core.snapshot import Bools, Floats, Ints


class PreemptionMode(StrEnum):
    """What Berth does for waiting jobs of high priority (`BERTH_PREEMPTION`)."""

    OFF = "off"  # operators preempt jobs by hand
    PREVIEWED = "previewed"  # Berth proposes preemptions, and operators approve them
    AUTOMATIC = "automatic"  # Berth records a proposal and applies it


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
