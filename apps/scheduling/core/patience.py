"""How long a job may wait for a better unit while others are free (ours).

A policy may refuse a job that may still wait (`Request.is_patient`). What the job gains by a
better unit is at most its run time, so it waits no longer than that.
"""

from typing import Final

from apps.scheduling.core.sizing.run_time import RunTime
from apps.workloads.core.targets import TargetKind

MAX_PATIENCE_S: Final = 300.0  # of any job, unless a setting says otherwise
PATIENT: Final = frozenset({TargetKind.BEST_EFFORT, TargetKind.IPS})


def patience_s(
    units: int,
    kind: str,
    run: RunTime | None,
    *,
    limit_s: float = MAX_PATIENCE_S,
    priority: int = 0,
) -> float:
    """Return the cluster seconds after which a job takes any unit; 0 = it takes one at once.

    Jobs of several units do not wait, as enough good ones are rarely free at once; nor do jobs
    with a deadline, which would need more units later, services, which serve nobody while they
    wait, and jobs of a priority above 0.

    Parameters
    ----------
    units : of the request
    kind : of the target
    run : predicted run time; None = unknown
    limit_s : longest wait of any job
    """
    if units > 1 or priority > 0 or kind not in PATIENT:
        return 0.0
    return limit_s if run is None else min(limit_s, run.value)
