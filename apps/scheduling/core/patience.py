"""How long a job may wait for better units (ours).

A policy may refuse a job that may still wait (`Request.is_patient`) although units are free. What
the job gains by better units is at most its run time, so it waits no longer than that.
"""

from apps.scheduling.core.sizing.run_time import RunTime
from apps.scheduling.core.types import Request
from apps.workloads.core.targets import CompletionTime, Target

MOST_S = 300.0  # of any job, unless a setting says otherwise


def patience_s(
    request: Request,
    target: Target,
    run: RunTime | None,
    *,
    limit_s: float = MOST_S,
    profiling_s: float = 0.0,
) -> float:
    """Return the cluster seconds after which a job takes any units; 0 = it takes them at once.

    Jobs that need several units at once do not wait: so many are rarely free.

    Parameters
    ----------
    run : predicted run time; None = unknown, as of services
    limit_s : longest wait of any job
    profiling_s : that the job waited for its profile before
    """
    if request.min_units > 1:
        return 0.0
    if run is not None:
        limit_s = min(limit_s, run.value)
    if isinstance(target, CompletionTime):
        run_s = target.seconds if run is None else run.high
        limit_s = min(limit_s, target.seconds - run_s - profiling_s)
    return max(0.0, limit_s)
