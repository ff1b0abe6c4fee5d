"""The reservation engine against the same model in plain Python, by hand, and its errors."""

from dataclasses import replace
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.testbed.core.reservation.model import (
    NOWHERE,
    SCHEDULERS,
    Algorithm,
    Machines,
    RunResult,
    Scheduler,
    TaskState,
    Workload,
    WorkloadError,
)
from apps.testbed.core.reservation.run import run_reservation
from tests.testbed.core.reservation.plain import PlainRun, outcome

STATES = list(TaskState)


def ints(*values: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def jobs(*rows: tuple[float, list[tuple[int, float]]]) -> Workload:
    """Jobs of (submit time, [(cores, seconds) of each task])."""
    tasks = [task for _, group in rows for task in group]
    return Workload(
        submit_s=np.array([at for at, _ in rows], dtype=np.float64),
        first_task=np.cumsum([0, *(len(group) for _, group in rows)]),
        cpu=ints(*(cpu for cpu, _ in tasks)),
        memory=np.zeros(len(tasks), dtype=np.int64),
        seconds=np.array([seconds for _, seconds in tasks], dtype=np.float64),
        needs=np.zeros(len(tasks), dtype=np.int64),
        machine=np.full(len(tasks), NOWHERE),
    )


def machines(*cores: int) -> Machines:
    count = len(cores)
    return Machines(ints(*cores), ints(*cores), np.zeros(count, dtype=np.int64))


def states(result: RunResult) -> list[str]:
    return [STATES[code].value for code in result.state]


def random_case(seed: int) -> tuple[Workload, Machines]:
    """A crowded cluster with constraints, tasks that run at the start, and changing machines."""
    rng = np.random.default_rng(seed)
    count, m = int(rng.integers(1, 60)), int(rng.integers(1, 150))
    sizes = rng.integers(1, 5, count)
    tasks = int(sizes.sum())
    submit = np.sort(rng.uniform(0.0, 40.0, count))
    first = np.cumsum([0, *sizes])
    endless = rng.random(tasks) < 0.1
    workload = Workload(
        submit_s=submit,
        first_task=first,
        cpu=rng.integers(0, 60, tasks),
        memory=rng.integers(0, 60, tasks),
        seconds=np.where(endless, inf, rng.exponential(20.0, tasks)),
        needs=np.where(rng.random(tasks) < 0.3, 1 << rng.integers(0, 3, tasks), 0),
        machine=np.where(rng.random(tasks) < 0.1, rng.integers(0, m, tasks), NOWHERE),
    )
    changes = int(rng.integers(0, 12))
    gone = rng.random(changes) < 0.5
    return workload, Machines(
        cpu=np.where(rng.random(m) < 0.1, 0, 100),
        memory=np.where(rng.random(m) < 0.1, 0, 100),
        attributes=rng.integers(0, 8, m),
        change_s=np.sort(rng.uniform(0.0, 60.0, changes)),
        change_machine=rng.integers(0, m, changes),
        change_cpu=np.where(gone, 0, rng.integers(0, 150, changes)),
        change_memory=np.where(gone, 0, rng.integers(0, 150, changes)),
    )


schedulers = st.builds(
    Scheduler,
    algorithm=st.sampled_from(Algorithm),
    tries=st.integers(1, 12),
    attempts=st.integers(1, 4),
    heartbeat_s=st.sampled_from([0.3, 5.0, 50.0]),
    path_limit=st.sampled_from([0, 1, 3]),
    probe_s=st.sampled_from([0.0, 1e-3]),
    network_s=st.sampled_from([0.0, 0.01, 0.5]),
    network_spread=st.sampled_from([0.0, 0.0, 0.3, 1.0]),
)


@given(st.integers(0, 10_000), schedulers)
def test_every_event_is_that_of_the_plain_model(seed: int, scheduler: Scheduler) -> None:
    workload, cluster = random_case(seed)
    result = run_reservation(workload, cluster, scheduler, seed=seed)
    plain = PlainRun(workload, cluster, scheduler, seed).run()
    expected = outcome(plain)
    assert states(result) == expected["state"]
    assert result.attempts.tolist() == expected["attempts"]
    assert (result.probes, result.evictions) == (expected["probes"], expected["evictions"])
    np.testing.assert_array_equal(result.ran_on, expected["ran_on"])
    np.testing.assert_array_equal(result.started_s, expected["started_s"])
    np.testing.assert_array_equal(result.ended_s, expected["ended_s"])
    delays = [plain.decided.get(job, nan) for job in range(workload.jobs)] - workload.submit_s
    np.testing.assert_array_equal(result.delay_s, delays)


@given(st.integers(0, 10_000), schedulers, st.floats(0.0, 80.0))
def test_a_run_may_stop_at_any_time(seed: int, scheduler: Scheduler, until_s: float) -> None:
    workload, cluster = random_case(seed)
    result = run_reservation(workload, cluster, scheduler, seed=seed, until_s=until_s)
    plain = PlainRun(workload, cluster, scheduler, seed, until_s).run()
    assert states(result) == plain.state
    assert result.ended_at_s <= until_s
    assert not (result.ended_s > until_s).any()


@given(st.integers(0, 10_000), schedulers)
def test_work_is_conserved(seed: int, scheduler: Scheduler) -> None:
    """The integral of the cores in use is the work done, without machines that change."""
    workload, cluster = random_case(seed)
    fixed = Machines(np.full(len(cluster), 100), cluster.memory, cluster.attributes)
    result = run_reservation(workload, fixed, scheduler, seed=seed, until_s=50.0, bin_s=0.3)
    until = np.where(np.isnan(result.ended_s), 50.0, result.ended_s)
    done = float((workload.cpu * np.nan_to_num(until - result.started_s)).sum())
    recorded = float(result.busy_cpu.sum() * fixed.cpu.sum() * result.bin_s)
    assert recorded == pytest.approx(done, rel=1e-9, abs=1e-9)


def test_a_machine_rejects_what_the_scheduler_could_not_know() -> None:
    """Two decisions under way, and a report between them that knows of neither."""
    workload = jobs((0.0, [(6, 100.0)]), (1.0, [(6, 100.0)]))
    scheduler = Scheduler(
        Algorithm.CHECK_ALL, attempts=1, heartbeat_s=0.5, network_s=5.0, probe_s=0.0
    )
    result = run_reservation(workload, machines(10), scheduler, seed=1)
    assert states(result) == ["ended", "rejected too often"]
    assert result.started_s[0] == 5.0
    assert result.delay_s.tolist() == [10.0, 10.0]


def test_a_long_heartbeat_hides_what_has_ended() -> None:
    workload = jobs((0.0, [(10, 1.0)]), (5.0, [(10, 1.0)]))
    found = {
        heartbeat_s: states(
            run_reservation(
                workload, machines(10), Scheduler(heartbeat_s=heartbeat_s), seed=1, until_s=20.0
            )
        )[1]
        for heartbeat_s in (0.1, 1000.0)
    }
    assert found == {0.1: "ended", 1000.0: "no machine seen with room"}


def test_one_path_makes_a_short_job_wait_for_a_long_one() -> None:
    long, short = (0.0, [(0, 1.0)] * 1000), (0.001, [(0, 1.0)])
    scheduler = Scheduler(probe_s=0.01, network_s=0.0)
    delays = {
        limit: run_reservation(
            jobs(long, short), machines(1), replace(scheduler, path_limit=limit), seed=1
        ).delay_s[1]
        for limit in (1, 2)
    }
    assert delays[1] == pytest.approx(10.0 + 0.01 - 0.001)
    assert delays[2] == pytest.approx(0.01)


def test_a_removed_machine_gives_its_tasks_back() -> None:
    cluster = replace(
        machines(10, 0),
        change_s=np.array([3.0, 4.0]),
        change_machine=ints(1, 0),
        change_cpu=ints(10, 0),
        change_memory=ints(10, 0),
    )
    scheduler = Scheduler(Algorithm.CHECK_ALL, network_s=0.0, probe_s=0.0)
    result = run_reservation(jobs((0.0, [(10, 5.0)])), cluster, scheduler, seed=1)
    assert (states(result), result.ran_on.tolist(), result.evictions) == (["ended"], [1], 1)
    assert (result.started_s[0], result.ended_s[0]) == (4.0, 9.0)


def test_a_task_without_end_is_still_running() -> None:
    result = run_reservation(
        jobs((0.0, [(1, inf)])), machines(10), SCHEDULERS["ten_tries"], seed=1
    )
    assert states(result) == ["running"]
    assert result.tasks_in(TaskState.RUNNING, TaskState.ENDED) == 1
    assert np.isnan(result.ended_s).all()


def test_a_job_fails_with_one_of_its_tasks() -> None:
    workload = jobs((0.0, [(1, 1.0), (99, 1.0)]), (0.0, [(1, 1.0)]))
    result = run_reservation(workload, machines(10), SCHEDULERS["check_all"], seed=1)
    assert result.failed_jobs(workload) == 1
    assert states(result) == ["ended", "no machine seen with room", "ended"]


def test_the_same_seed_gives_the_same_run() -> None:
    workload, cluster = random_case(3)
    once, again, other = (
        run_reservation(workload, cluster, SCHEDULERS["ten_tries"], seed=seed)
        for seed in (1, 1, 2)
    )
    assert once.ran_on.tolist() == again.ran_on.tolist() != other.ran_on.tolist()


def test_utilisation_is_a_share_of_all_cores() -> None:
    workload = jobs((0.0, [(4, 90.0)]), (120.0, [(0, 1.0)]))
    scheduler = Scheduler(network_s=0.0, probe_s=0.0)
    result = run_reservation(workload, machines(4, 4), scheduler, seed=1)
    assert result.busy_cpu.tolist() == [0.5, 0.25]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"submit_s": np.array([2.0, 1.0])}, "submit_s[1] is 1.0; expected at least 2.0"),
        ({"submit_s": np.array([-1.0, 1.0])}, "submit_s starts at -1.0"),
        ({"cpu": ints(1, -2)}, "cpu[1] is -2; expected 0 to inf"),
        ({"needs": ints(1)}, "needs has 1 entries; expected one for each of 2 tasks"),
        ({"seconds": np.array([1.0, nan])}, "seconds[1] is nan"),
        ({"machine": ints(0, 9)}, "machine[1] is 9; expected -1 to 0"),
        ({"first_task": ints(0, 2)}, "first_task has 2 entries; expected 3"),
    ],
)
def test_bad_workloads_are_refused(change: dict[str, Any], message: str) -> None:
    workload = replace(jobs((0.0, [(1, 1.0)]), (1.0, [(1, 1.0)])), **change)
    with pytest.raises(WorkloadError) as caught:
        run_reservation(workload, machines(10), Scheduler(), seed=1)
    assert message in str(caught.value)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(WorkloadError, match=r"heartbeat_s is 0.0; expected 0.001 to 1000000.0"):
        Scheduler(heartbeat_s=0.0)
    with pytest.raises(WorkloadError, match="machines is empty"):
        run_reservation(jobs((0.0, [(1, 1.0)])), machines(), Scheduler(), seed=1)
    with pytest.raises(WorkloadError, match=r"bin_s is 0\.0"):
        run_reservation(jobs((0.0, [(1, 1.0)])), machines(1), Scheduler(), seed=1, bin_s=0.0)
