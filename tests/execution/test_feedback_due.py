"""Which jobs the feedback loop observes, and when."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.classification.models import PredictionError
from apps.common.infrastructure.database import fetch_rows
from apps.execution.core.telemetry import EVERY_S
from apps.execution.services import feedback
from apps.execution.services.feedback import update_from_feedback
from apps.workloads.models import Job
from tests import factories
from tests.execution.feedback_world import (
    BYTES,
    World,
    later,
    make_world,
    now,
    wall,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    return make_world()


def test_long_jobs_are_observed_repeatedly_and_at_their_end(world: World) -> None:
    job = world.running(since_s=now() - 700.0)
    factories.sample(job, now() - 10.0, progress=0.1)
    update_from_feedback()
    assert update_from_feedback() == 0
    later(EVERY_S)
    factories.sample(job, now(), progress=0.4)
    update_from_feedback()
    Job.objects.filter(id=job.id).update(
        state="succeeded", finished_s=now() + 500.0, finished_at=wall()
    )
    later(501.0)
    update_from_feedback()
    errors = PredictionError.objects.order_by("number")
    assert list(errors.values_list("number", flat=True)) == [1, 2, 3]
    spans = np.diff([9300.0, *errors.values_list("cluster_s", flat=True)])
    shares = np.array(errors.values_list("measured", flat=True)) * spans / BYTES
    assert shares == pytest.approx([0.1, 0.3, 0.6])


def test_running_jobs_are_not_observed_too_early(world: World) -> None:
    job = world.running(since_s=now() - 60.0)
    factories.sample(job, now(), progress=0.1)
    assert update_from_feedback() == 0


@pytest.mark.parametrize(
    "values",
    [
        {"state": "failed"},
        {"input_bytes": 0},
        {"target": {"kind": "ips", "ips": 1e9}},
        {"target": {"kind": "throughput_latency", "qps": 9.0, "latency_seconds": 1.0}},
    ],
)
def test_jobs_whose_reports_give_no_rate_are_ignored(world: World, values: dict[str, Any]) -> None:
    job = world.ran()
    kind = values.get("target", job.target)["kind"]
    Job.objects.filter(id=job.id).update(target_kind=kind, **values)
    assert update_from_feedback() == 0


def test_of_many_jobs_of_an_application_a_sample_is_observed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feedback, "MAX_OBSERVED", 2)
    jobs = [world.running(since_s=now() - 700.0) for _ in range(3)]
    for job in jobs:
        factories.sample(job, now() - 10.0, progress=0.1)
    running = {job.id for job in jobs}
    ended = {world.ran().id for _ in range(3)}
    observed: list[set[Any]] = []
    for _ in range(2):
        before = set(PredictionError.objects.values_list("job_id", flat=True))
        update_from_feedback()
        observed.append(set(PredictionError.objects.values_list("job_id", flat=True)) - before)
    assert [len(jobs & ended) for jobs in observed] == [2, 1]
    assert [len(jobs & running) for jobs in observed] == [2, 1]


def test_jobs_that_began_too_late_take_no_place_in_the_sample(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feedback, "MAX_OBSERVED", 1)
    monkeypatch.setattr(feedback, "SHARE_DUE", 1.0)
    for _ in range(7):
        world.running(since_s=now() - 60.0)
    job = world.running(since_s=now() - 700.0)
    factories.sample(job, now() - 10.0, progress=0.1)
    update_from_feedback()
    assert set(PredictionError.objects.values_list("job_id", flat=True)) == {job.id}


def test_only_the_newest_ended_jobs_are_considered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feedback, "NEWEST_ENDED", 1)
    world.ran(finished_at=wall() - timedelta(seconds=20))
    newest = world.ran()
    update_from_feedback()
    assert set(PredictionError.objects.values_list("job_id", flat=True)) == {newest.id}


def test_observations_are_looked_up_for_a_sample_of_the_jobs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feedback, "MAX_OBSERVED", 1)
    for _ in range(6):
        world.running(since_s=now() - 700.0)
        world.ran()
    with CaptureQueriesContext(connection) as queries:
        update_from_feedback()
    (due,) = [query["sql"] for query in queries if "random()" in query["sql"]]
    ((plan,),) = fetch_rows(f"EXPLAIN (ANALYZE, FORMAT JSON) {due}")
    lookups = [
        node["Actual Loops"]
        for node in plan_nodes(plan[0]["Plan"])
        if node.get("Relation Name") == PredictionError._meta.db_table
    ]
    assert lookups == [2 * feedback.MAX_OBSERVED / feedback.SHARE_DUE]


def plan_nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", []):
        yield from plan_nodes(child)
