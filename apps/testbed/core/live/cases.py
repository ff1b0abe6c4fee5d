"""Workloads for live nodes: at a speed, without what live nodes do not do."""

from dataclasses import replace

import numpy as np

from apps.testbed.core.batch.jobs import ParallelJobs
from apps.testbed.core.reservation.model import (
    NOWHERE,
    SCALE,
    Machines,
    Workload,
    WorkloadError,
)
from apps.testbed.core.traces import Bools, Ints


def at_speed(workload: Workload, speed: float) -> Workload:
    """Return the workload with all times divided by a speed, for a replay in wall time.

    Raises
    ------
    WorkloadError : a speed that is not above 0.
    """
    if not speed > 0.0:
        raise WorkloadError(f"speed is {speed}; expected more than 0")
    return replace(workload, submit_s=workload.submit_s / speed, seconds=workload.seconds / speed)


def fixed(machines: Machines) -> Machines:
    """Return the machines without their later changes; a live node keeps its size."""
    return Machines(machines.cpu, machines.memory, machines.attributes)


def at_most_full(workload: Workload, machines: Machines) -> Workload:
    """Leave out tasks at the start that do not fit their machine with those before them.

    Traces list requests, of which a machine may run more than it has; a node rejects them. Tasks
    of time 0 that have no machine are left out too, as the load of the start is the trace's own.
    Kept ones need no attributes: drawn constraints do not know where a task ran.
    """
    free_cpu, free_memory = machines.cpu.copy(), machines.memory.copy()
    kept = workload.submit_s[_job_of(workload)] > 0.0
    for task in np.flatnonzero(workload.machine != NOWHERE):
        machine = workload.machine[task]
        cpu, memory = workload.cpu[task], workload.memory[task]
        if cpu <= free_cpu[machine] and memory <= free_memory[machine]:
            free_cpu[machine] -= cpu
            free_memory[machine] -= memory
            kept[task] = True
    needs = np.where(workload.machine == NOWHERE, workload.needs, 0)
    return only(replace(workload, needs=needs), kept)


def arrivals(workload: Workload) -> Workload:
    """Leave out everything that exists at the start."""
    is_new = workload.submit_s[_job_of(workload)] > 0.0
    return only(workload, is_new & (workload.machine == NOWHERE))


def only(workload: Workload, kept: Bools) -> Workload:
    """Keep some of the tasks, and the jobs that have any."""
    sizes = np.bincount(_job_of(workload)[kept], minlength=workload.jobs)
    has_tasks = sizes > 0
    return Workload(
        submit_s=workload.submit_s[has_tasks],
        first_task=np.concatenate([[0], np.cumsum(sizes[has_tasks])]).astype(np.int64),
        cpu=workload.cpu[kept],
        memory=workload.memory[kept],
        seconds=workload.seconds[kept],
        needs=workload.needs[kept],
        machine=workload.machine[kept],
    )


def until(workload: Workload, seconds: float) -> Workload:
    """Keep the jobs that arrive before a time."""
    return only(workload, workload.submit_s[_job_of(workload)] < seconds)


def _job_of(workload: Workload) -> Ints:
    return np.repeat(np.arange(workload.jobs), np.diff(workload.first_task))


def from_parallel(jobs: ParallelJobs, processors: int) -> tuple[Workload, Machines]:
    """Turn jobs of a batch log into tasks of one processor each, on as many machines."""
    sizes = jobs.processors.astype(np.int64)
    tasks = int(sizes.sum())
    nothing = np.zeros(processors, dtype=np.int64)
    workload = Workload(
        submit_s=jobs.submit_s,
        first_task=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        cpu=np.full(tasks, SCALE),
        memory=np.zeros(tasks, dtype=np.int64),
        seconds=np.repeat(jobs.seconds, sizes),
        needs=np.zeros(tasks, dtype=np.int64),
        machine=np.full(tasks, NOWHERE),
    )
    return workload, Machines(np.full(processors, SCALE), nothing, nothing)
