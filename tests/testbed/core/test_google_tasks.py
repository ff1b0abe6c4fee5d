"""Google 2011 at task level: submissions, run times, machines, constraints."""

from math import inf

import numpy as np
import pytest

from apps.testbed.core.google import read_task_events
from apps.testbed.core.google_tasks import (
    CONSTRAINED,
    GoogleTasks,
    draw_constraints,
    google_tasks,
    read_machine_events,
    subset_of_machines,
)
from apps.testbed.core.reservation.model import NOWHERE, SCHEDULERS, TaskState
from apps.testbed.core.reservation.run import run_reservation
from apps.testbed.core.traces import TraceError
from tests.testbed.samples import GOOGLE_HEADER, GOOGLE_ROWS

MACHINE_HEADER = "time_us,machine_id,event_type,platform,cpus,memory\n"
MACHINE_ROWS = (
    "0,100,0,p0,0.5,0.25\n"
    "0,101,0,p0,1,1\n"
    "0,102,0,p1,0.5,0.5\n"
    "601000000,102,2,p1,0.5,0.25\n"
    "602000000,101,1,p0,,\n"
    "603000000,103,0,p0,1,1\n"
)
# the task of job 7 ends at 650 s; task 0 of job 8 is evicted after 50 s and submitted again
MORE_ROWS = (
    "650000000,,7,0,100,4,u0,3,9,0.5,0.25,0,0\n"
    "656000000,,8,0,101,2,u1,1,4,0.0625,0.01,0,0\n"
    "656000000,,8,0,,0,u1,1,4,0.0625,0.01,0,0\n"
    "657000000,,8,0,102,1,u1,1,4,0.0625,0.01,0,0\n"
)


def rows(text: str) -> list[tuple[int, str]]:
    return list(enumerate(text.splitlines(), start=1))


def trace(tasks: str = GOOGLE_ROWS + MORE_ROWS, machines: str = MACHINE_ROWS) -> GoogleTasks:
    task_lines, machine_lines = rows(GOOGLE_HEADER + tasks), rows(MACHINE_HEADER + machines)
    return google_tasks(
        read_task_events(task_lines[0], iter(task_lines[1:]), "tasks.csv"),
        read_machine_events(machine_lines[0], iter(machine_lines[1:]), "machines.csv"),
        "tasks.csv",
    )


def without_finish() -> str:
    """The sample, whose task 0 of job 8 does not finish."""
    return GOOGLE_ROWS.replace("656000000,,8,0,101,4,u1,1,4,0.0625,0.01,0,0\n", "")


def test_a_submission_is_a_task_and_those_of_one_time_are_a_job() -> None:
    found = trace(without_finish() + MORE_ROWS).workload
    assert found.submit_s.tolist() == [0.0, 5.0, 56.0, 60.0]
    assert np.diff(found.first_task).tolist() == [1, 2, 1, 1]
    assert found.cpu.tolist() == [500_000, 62_500, 187_500, 62_500, 125_000]
    assert found.memory.tolist() == [250_000, 10_000, 30_000, 10_000, 20_000]


def test_run_times_are_those_of_the_trace() -> None:
    found = trace(without_finish() + MORE_ROWS)
    # job 7 from the start of the trace; job 9 was never scheduled: the median of 50 and 50 s
    assert found.workload.seconds.tolist() == [50.0, 50.0, inf, inf, 50.0]
    assert found.notes == (
        "1 submissions have no request; they request the median.",
        "1 submissions were never scheduled; they run for the median time, 50 s.",
        "2 tasks do not end within the trace.",
    )


def test_what_runs_at_the_start_has_its_machine() -> None:
    found = trace()
    assert found.jobs_at_start == 1
    assert found.workload.machine.tolist() == [0] + [NOWHERE] * (found.workload.tasks - 1)


def test_machines_are_added_resized_and_removed() -> None:
    machines = trace().machines
    assert machines.cpu.tolist() == [500_000, 1_000_000, 500_000, 0]
    assert machines.memory.tolist() == [250_000, 1_000_000, 500_000, 0]
    assert machines.change_s.tolist() == [1.0, 2.0, 3.0]
    assert machines.change_machine.tolist() == [2, 1, 3]
    assert machines.change_cpu.tolist() == [500_000, 0, 1_000_000]
    assert machines.change_memory.tolist() == [250_000, 0, 1_000_000]


def test_a_trace_runs() -> None:
    found = trace()
    result = run_reservation(
        found.workload, found.machines, SCHEDULERS["check_all"], seed=1, until_s=200.0
    )
    assert result.tasks_in(TaskState.ENDED, TaskState.RUNNING) == found.workload.tasks


def test_some_tasks_have_constraints_which_some_machines_meet() -> None:
    many = "".join(f"{700 + job}000000,,{job},0,,0,u,0,0,0.1,0.1,0,0\n" for job in range(4000))
    found = draw_constraints(trace(many), np.random.default_rng(1))
    share = float((found.workload.needs > 0).mean())
    assert share == pytest.approx(CONSTRAINED, abs=0.01)
    kinds = np.unique(found.workload.needs[found.workload.needs > 0])
    assert set(np.log2(kinds).tolist()) <= set(range(17))
    assert kinds.size > 5
    assert found.machines.attributes.max() < 2**17


def test_a_part_of_the_machines_takes_the_tasks_of_the_others() -> None:
    for seed in range(5):
        part = subset_of_machines(trace(), 1, np.random.default_rng(seed))
        kept = part.machines.cpu[0] == 500_000 and part.machines.memory[0] == 250_000
        assert part.workload.machine[0] == (0 if kept else NOWHERE)
        assert set(part.machines.change_machine.tolist()) <= {0}
    with pytest.raises(ValueError, match="count is 4; expected 1 to 3 machines"):
        subset_of_machines(trace(), 4, np.random.default_rng(1))


@pytest.mark.parametrize(
    ("machines", "message"),
    [
        ("0,1,0,p0,1\n", "machines.csv, line 2: 5 columns; expected 6"),
        ("0,1,5,p0,1,1\n", "machines.csv, line 2: event_type is '5'; expected 0 (ADD)"),
        ("0,1,0,p0,-1,1\n", "machines.csv, line 2: cpus is '-1'"),
        ("0,1,1,p0,,\n", "tasks.csv: no machine is added"),
    ],
)
def test_bad_machine_events_name_the_line(machines: str, message: str) -> None:
    with pytest.raises(TraceError) as caught:
        trace(machines=machines)
    assert message in str(caught.value)


def test_a_trace_without_submissions_is_refused() -> None:
    with pytest.raises(TraceError, match="no task is submitted"):
        trace("0,,7,0,100,1,u0,3,9,0.5,0.25,0,0\n")
