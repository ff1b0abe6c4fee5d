"""The plan of a replay: the jobs of the trace and the services, in order."""

from typing import Final

import numpy as np

from apps.testbed.core.jobs import ReplayJob, jobs_of, nominal_load
from apps.testbed.core.services import plan_services
from apps.testbed.core.traces import Trace

NOMINAL_LOAD: Final = 0.6  # share of the units, trace and services together


def plan_replay(trace: Trace, *, units: int, services: float | None, seed: int) -> list[ReplayJob]:
    """Return the jobs of the trace and the services in order of submission.

    Parameters
    ----------
    units : of the cluster
    services : share of the units that services nominally use, 0-1; None fills up to a nominal
        load of 60 %
    seed : the plan depends only on trace, units, services and seed
    """
    job_rng, service_rng = np.random.default_rng(seed).spawn(2)
    jobs = jobs_of(trace, job_rng)
    if services is None:
        services = max(0.0, NOMINAL_LOAD - nominal_load(jobs, units))
    horizon_s = jobs[-1].submit_s if jobs else 0.0
    service_jobs = plan_services(units, services, horizon_s, service_rng)
    return sorted(jobs + service_jobs, key=lambda job: (job.submit_s, job.key))
