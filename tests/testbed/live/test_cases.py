"""Workloads prepared for live nodes."""

from dataclasses import replace

import numpy as np
import pytest

from apps.testbed.core.batch.jobs import ParallelJobs
from apps.testbed.core.live.cases import (
    arrivals,
    at_most_full,
    at_speed,
    fixed,
    from_parallel,
    until,
)
from apps.testbed.core.reservation.model import SCALE, WorkloadError
from tests.testbed.live.worlds import ints, jobs, machines


def test_a_speed_divides_all_times() -> None:
    fast = at_speed(jobs((10.0, [(1, 30.0)])), 100.0)
    assert (fast.submit_s.tolist(), fast.seconds.tolist()) == ([0.1], [0.3])
    with pytest.raises(WorkloadError, match="speed is 0"):
        at_speed(fast, 0.0)


def test_tasks_of_the_start_that_do_not_fit_are_left_out() -> None:
    workload = jobs((0.0, [(6, 1.0), (6, 1.0), (4, 1.0), (1, 1.0)]), (5.0, [(9, 1.0)]))
    workload = replace(workload, machine=ints(0, 0, 0, -1, -1))
    kept = at_most_full(workload, machines(10))
    assert kept.cpu.tolist() == [6, 4, 9]
    assert kept.first_task.tolist() == [0, 2, 3]


def test_tasks_of_the_start_need_no_attributes_of_the_machine_that_ran_them() -> None:
    workload = jobs((0.0, [(6, 1.0)]), (5.0, [(9, 1.0)]))
    kept = at_most_full(replace(workload, machine=ints(0, -1), needs=ints(1, 1)), machines(10))
    assert kept.needs.tolist() == [0, 1]


def test_arrivals_leave_the_start_out() -> None:
    workload = replace(
        jobs((0.0, [(1, 1.0)]), (5.0, [(2, 1.0), (3, 1.0)])), machine=ints(0, -1, -1)
    )
    kept = arrivals(workload)
    assert (kept.submit_s.tolist(), kept.cpu.tolist()) == ([5.0], [2, 3])


def test_a_workload_is_cut_at_a_time() -> None:
    kept = until(jobs((0.0, [(1, 1.0)]), (5.0, [(2, 1.0)])), 5.0)
    assert (kept.jobs, kept.tasks) == (1, 1)


def test_machines_are_fixed_without_their_changes() -> None:
    changing = replace(
        machines(10),
        change_s=np.array([1.0]),
        change_machine=ints(0),
        change_cpu=ints(0),
        change_memory=ints(0),
    )
    assert fixed(changing).change_s.size == 0


def test_a_parallel_job_is_a_task_for_each_processor() -> None:
    log = ParallelJobs(
        submit_s=np.array([0.0, 4.0]),
        processors=ints(2, 1),
        seconds=np.array([7.0, 8.0]),
        estimate_s=np.array([7.0, 8.0]),
    )
    workload, cluster = from_parallel(log, 3)
    assert workload.first_task.tolist() == [0, 2, 3]
    assert workload.seconds.tolist() == [7.0, 7.0, 8.0]
    assert cluster.cpu.tolist() == [SCALE] * 3
