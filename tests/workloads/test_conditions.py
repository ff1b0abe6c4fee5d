"""Conditions and task counts of a job."""

from dataclasses import replace

import pytest

from apps.workloads.core.conditions import JobStatus, conditions
from apps.workloads.core.waves import TaskCounts, count_tasks

SUBMITTED = JobStatus(
    state="submitted", held=False, reason="WaitingForAgent", message="", attainment=None,
    submitted_s=1.0, queued_s=None, placed_s=None, started_s=None, finished_s=None,
)  # fmt: skip
RUNNING = replace(
    SUBMITTED, state="running", queued_s=2.0, placed_s=3.0, started_s=4.0, attainment=0.9
)


def statuses(facts: JobStatus) -> dict[str, str]:
    return {condition.type: condition.status for condition in conditions(facts)}


def test_a_new_job_is_accepted_and_nothing_else() -> None:
    assert statuses(SUBMITTED) == {
        "Accepted": "True", "Classified": "False", "Placed": "False", "Running": "False",
        "OnTarget": "Unknown", "Finished": "False",
    }  # fmt: skip


def test_a_running_job_below_its_target_says_so() -> None:
    assert statuses(RUNNING)["OnTarget"] == "False"


def test_a_job_that_lost_its_units_is_not_placed_any_more() -> None:
    assert statuses(replace(RUNNING, state="queued"))["Placed"] == "False"


def test_conditions_not_reached_carry_the_reason_of_the_job() -> None:
    reasons = {c.type: c.reason for c in conditions(SUBMITTED)}
    assert reasons["Placed"] == "WaitingForAgent"


@pytest.mark.parametrize(
    ("progress", "units", "is_running", "expected"),
    [
        (0.0, None, False, TaskCounts(10, 0, 0, 10, None)),
        (0.0, 4, True, TaskCounts(10, 0, 4, 6, 3)),
        (0.55, 4, True, TaskCounts(10, 5, 4, 1, 2)),
        (0.95, 4, True, TaskCounts(10, 9, 1, 0, 1)),
        (1.0, 4, False, TaskCounts(10, 10, 0, 0, 0)),
    ],
)
def test_tasks_run_in_waves(
    progress: float, units: int | None, is_running: bool, expected: TaskCounts
) -> None:
    assert count_tasks(total=10, progress=progress, units=units, is_running=is_running) == expected
