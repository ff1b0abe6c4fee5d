"""How long a job may wait for a better unit: by hand."""

import pytest

from apps.scheduling.core.patience import MAX_PATIENCE_S, patience_s
from apps.scheduling.core.sizing.run_time import RunTime
from apps.workloads.core.targets import (
    BestEffort,
    CompletionTime,
    InstructionRate,
    Target,
    ThroughputLatency,
)

RUN = RunTime(1000.0, 2000.0)


@pytest.mark.parametrize(
    ("run", "longest_s"),
    [(None, MAX_PATIENCE_S), (RUN, MAX_PATIENCE_S), (RunTime(20.0, 40.0), 20.0)],
)
def test_a_job_waits_no_longer_than_it_runs(run: RunTime | None, longest_s: float) -> None:
    assert patience_s(1, "best_effort", run) == longest_s


def test_a_setting_bounds_every_wait() -> None:
    assert patience_s(1, "best_effort", RUN, limit_s=7.0) == 7.0
    assert patience_s(1, "best_effort", None, limit_s=0.0) == 0.0


@pytest.mark.parametrize(
    ("target", "longest_s"),
    [
        (BestEffort(), MAX_PATIENCE_S),
        (InstructionRate(1e9), MAX_PATIENCE_S),
        (CompletionTime(1e6), 0.0),
        (ThroughputLatency(100.0, 0.2), 0.0),
    ],
)
def test_jobs_with_a_deadline_and_services_do_not_wait(target: Target, longest_s: float) -> None:
    assert patience_s(1, target.kind, RUN) == longest_s


def test_jobs_of_several_units_and_urgent_ones_do_not_wait() -> None:
    assert patience_s(2, "best_effort", RUN) == 0.0
    assert patience_s(1, "best_effort", RUN, priority=1) == 0.0
    assert patience_s(1, "best_effort", RUN, priority=-1) == MAX_PATIENCE_S
