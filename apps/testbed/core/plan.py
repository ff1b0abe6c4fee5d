"""Everything a replay submits, in order: the trace's jobs and the services beside them."""

from typing import Final

import numpy as np

from apps.testbed.core.jobs import ReplayJob, jobs_of, nominal_load
from apps.testbed.core.services import plan_services
from apps.testbed.core.traces import Trace

NOMINAL_LOAD: Final = 0.6  # share of the units, trace and services together


def plan_replay(trace: Trace, *, units: int, services: float | None, seed: int) -> list[ReplayJob]:
    """Put the trace's jobs and the services in order of submission.

    Parameters
    ----------
    units : of the cluster
    services : share of the units the services nominally hold, 0-1; None = what is missing to a
        nominal load of 60 %
    seed : same trace, units, share and seed give the same plan
    """
    classes, others = np.random.default_rng(seed).spawn(2)
    jobs = jobs_of(trace, classes)
    if services is None:
        services = max(0.0, NOMINAL_LOAD - nominal_load(jobs, units))
    horizon_s = jobs[-1].submit_s if jobs else 0.0
    beside = plan_services(units, services, horizon_s, others)
    return sorted(jobs + beside, key=lambda job: (job.submit_s, job.key))
