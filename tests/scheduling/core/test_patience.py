"""How long a job may wait for better units: by hand."""

import pytest

from apps.scheduling.core.patience import MOST_S, patience_s
from apps.scheduling.core.sizing.run_time import RunTime
from apps.workloads.core.targets import BestEffort, CompletionTime
from tests.scheduling.core.clusters import request


@pytest.mark.parametrize(
    ("run", "expected_s"),
    [(None, MOST_S), (RunTime(1000.0, 2000.0), MOST_S), (RunTime(20.0, 40.0), 20.0)],
)
def test_a_job_waits_no_longer_than_it_runs(run: RunTime | None, expected_s: float) -> None:
    assert patience_s(request(), BestEffort(), run) == expected_s


def test_a_setting_bounds_every_wait() -> None:
    run = RunTime(1000.0, 2000.0)
    assert patience_s(request(), BestEffort(), run, limit_s=7.0) == 7.0
    assert patience_s(request(), BestEffort(), None, limit_s=0.0) == 0.0


def test_a_job_with_a_deadline_waits_for_its_slack_only() -> None:
    run, target = RunTime(60.0, 80.0), CompletionTime(100.0)
    assert patience_s(request(), target, run) == 20.0
    assert patience_s(request(), target, run, profiling_s=15.0) == 5.0
    assert patience_s(request(), target, run, profiling_s=30.0) == 0.0
    assert patience_s(request(), target, None) == 0.0


def test_jobs_that_need_several_units_at_once_do_not_wait() -> None:
    assert patience_s(request(2, gang=True), BestEffort(), None) == 0.0
    assert patience_s(request(2, gang=False), BestEffort(), None) == MOST_S
    assert patience_s(request(1, gang=True), BestEffort(), None) == MOST_S
