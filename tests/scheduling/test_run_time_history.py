"""Run times of the last jobs, by which predictions of run times are corrected."""

from typing import Any

import numpy as np
import pytest
from django.utils import timezone

from apps.scheduling.selectors.queue import run_time_history
from apps.workloads.models import Job
from tests import factories
from tests.scheduling.start_world import NOW_S

pytestmark = pytest.mark.django_db
BEST_EFFORT: dict[str, Any] = {"target": {"kind": "best_effort"}, "target_kind": "best_effort"}


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=NOW_S)


def ended(count: int, *, predicted_s: float, took_s: float) -> None:
    """Jobs that ended just now."""
    for _ in range(count):
        factories.job(
            state="succeeded", started_s=NOW_S - took_s, finished_s=NOW_S - 1e-3,
            finished_at=timezone.now(), run_s=predicted_s, **BEST_EFFORT,
        )  # fmt: skip


def predicted_by_history(seconds: float) -> float:
    fit = run_time_history(NOW_S).fits["best_effort"]
    return float(np.exp(fit.offset + fit.slope * np.log(seconds)))


def test_the_history_counts_jobs_that_still_run() -> None:
    ended(15, predicted_s=100.0, took_s=80.0)
    ended(15, predicted_s=100.0, took_s=125.0)
    assert predicted_by_history(100.0) == pytest.approx(100.0, rel=1e-3)
    for _ in range(30):
        factories.job(state="running", started_s=NOW_S - 400.0, run_s=100.0, **BEST_EFFORT)
    assert run_time_history(NOW_S).seconds["best_effort"].size == 30
    # at least the mean of the logarithms of 30 runs of 100 s and 30 of 400 s
    assert predicted_by_history(100.0) > (100.0 * 400.0) ** 0.5
    Job.objects.filter(state="running").update(progress=0.5)  # ends after 800 s
    # the mean of the logarithms of 30 runs of 100 s and 30 of 800 s
    assert predicted_by_history(100.0) == pytest.approx((100.0 * 800.0) ** 0.5, rel=1e-3)


def test_the_history_leaves_the_time_out_in_which_an_ended_job_was_suspended() -> None:
    ended(30, predicted_s=100.0, took_s=500.0)
    Job.objects.update(suspended_for_s=400.0)
    assert predicted_by_history(100.0) == pytest.approx(100.0, rel=1e-3)
    assert run_time_history(NOW_S).seconds["best_effort"] == pytest.approx(100.0, rel=1e-3)


def test_the_history_leaves_suspended_jobs_and_those_before_the_window_out() -> None:
    ended(30, predicted_s=100.0, took_s=100.0)
    fields: dict[str, Any] = {"state": "running", "run_s": 100.0, "progress": 0.5, **BEST_EFFORT}
    factories.job(started_s=NOW_S - 400.0, suspended_s=NOW_S - 10.0, **fields)
    factories.job(started_s=NOW_S - 7201.0, **fields)
    assert predicted_by_history(100.0) == pytest.approx(100.0, rel=1e-3)
