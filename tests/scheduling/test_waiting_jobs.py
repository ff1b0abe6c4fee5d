"""Waiting jobs as they are listed: gangs, predicted starts, and how right the estimates were."""

from typing import Any

import pytest

from apps.inventory.models import ResourceUnit
from apps.scheduling.models import Reservation, StartEstimate
from apps.scheduling.selectors.waits import current_estimate, start_scores, waiting_jobs
from apps.workloads.models import Job
from tests import factories
from tests.scheduling.start_world import (
    NOW_S,
    busy_server,
    decide,
    estimate,
    estimates,
    job,
    runs_for,
)
from tests.scheduling.world import build

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=NOW_S)


def test_a_start_that_was_not_predicted_is_no_part_of_the_coverage() -> None:
    """One of four estimates has an interval, which holds the start."""
    for p50_s in (NOW_S, None, None, None):
        one = factories.job(state="running", name=f"j{StartEstimate.objects.count()}")
        p5_s = p50_s and p50_s - 100.0
        StartEstimate.objects.create(
            job_id=one.id, kind="k", made_s=NOW_S - 100.0, ahead=0, p5_s=p5_s, p50_s=p50_s,
            p90_s=p50_s, p95_s=p50_s, placed_s=NOW_S - 50.0, is_open=False,
        )  # fmt: skip
    (score,) = start_scores(None, now_s=NOW_S)
    assert (score.count, score.unknown, score.covered, score.by_p90) == (1, 3, 1.0, 1.0)


def test_the_queue_tells_gangs_whether_or_not_they_were_evaluated() -> None:
    wide: dict[str, Any] = {"units_requested": 4, "state": "queued"}
    factories.job(name="gang", gang=True, **wide)
    factories.job(name="near", gang=False, constraints={"locality": "rack"}, **wide)
    factories.job(name="apart", gang=False, constraints={"spread": "rack"}, **wide)
    found = {each.name: each.is_gang for each in waiting_jobs(None).jobs}
    assert found == {"gang": True, "near": True, "apart": False}


def test_a_batch_job_that_needs_one_server_for_its_units_is_a_gang() -> None:
    build("a", cores=4)
    application = factories.application(kind="batch")
    factories.profile(application)
    job(application, 100, units_requested=3)
    decide()
    late = job(application, 10, units_requested=2, gang=False)
    decide()
    (shown,) = waiting_jobs(None).jobs
    assert (shown.id, shown.units, shown.is_gang) == (late.id, 2, True)


def test_a_job_that_its_quota_refuses_has_no_predicted_start() -> None:
    _, second, _ = busy_server()
    estimate()
    assert [each.start_s is None for each in waiting_jobs(None).jobs] == [False, False]
    Job.objects.filter(id=second.id).update(reason_code="QuotaExceeded")
    second.refresh_from_db()
    shown = {each.id: each for each in waiting_jobs(None).jobs}
    of_second = shown.pop(second.id)
    assert (of_second.start_s, of_second.latest_s, of_second.ahead) == (None, None, None)
    assert current_estimate(second) is None
    assert [each.start_s is None for each in shown.values()] == [False]


def scored(error_s: float) -> None:
    """Store the scores of jobs that waited longer than simulated by some seconds."""
    for number in range(40):
        one = factories.job(state="running", name=f"scored-{number}", placed_s=NOW_S - 1.0)
        simulated, made_s = [10.0 * number] * 4, NOW_S - 6000.0
        StartEstimate.objects.create(
            job_id=one.id, kind="k", made_s=made_s, ahead=0, simulated_s=simulated,
            placed_s=made_s + simulated[0] + error_s, is_open=False,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("start_s", "latest_s"), [(NOW_S + 700.0, 700.0), (NOW_S - 1.0, 7000.0)], ids=["due", "late"]
)
def test_a_job_is_predicted_to_start_by_its_reserved_start_unless_that_is_late(
    start_s: float, latest_s: float
) -> None:
    first, second, third = busy_server()
    runs_for(first, 1000.0, 500.0)
    scored(5000.0)
    unit = ResourceUnit.objects.get()
    Reservation.objects.create(
        job_id=second.id, unit_ids=[unit.id], made_s=NOW_S, start_s=start_s, promised_s=start_s
    )
    estimate()
    (found,), (other,) = estimates(second), estimates(third)
    assert found.p50_s is not None
    assert found.p90_s is not None
    assert other.p50_s is not None
    assert found.p50_s <= found.p90_s <= NOW_S + latest_s
    assert (found.p90_s > NOW_S + 4000.0) is (start_s < NOW_S)
    assert other.p50_s > NOW_S + 4000.0
