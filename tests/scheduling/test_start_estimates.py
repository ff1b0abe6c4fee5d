"""Start estimates of waiting jobs: made, kept and scored."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.accounts.core.roles import Role
from apps.accounts.models import Project
from apps.accounts.services import create_user
from apps.common.core.ids import uuid7
from apps.common.infrastructure.advisory_locks import AdvisoryLock, held_if_free
from apps.dashboard.core.formats import performance_text
from apps.inventory.models import Server, ServerState
from apps.inventory.services import set_server_state
from apps.scheduling.core.starts.estimates import Queue, Starts, estimate_starts
from apps.scheduling.models import StartEstimate
from apps.scheduling.selectors import ClusterFollower
from apps.scheduling.selectors.queue import WINDOW_S
from apps.scheduling.selectors.waits import current_estimate, start_scores
from apps.scheduling.services import check_job, check_start, release, start_estimates
from apps.scheduling.services.start_estimates import update_start_estimates
from apps.workloads.core.reasons import Reason
from apps.workloads.models import Application, Job, WaitingShape
from apps.workloads.selectors import spec_of
from apps.workloads.services import cancel_jobs, requeue_lost, set_held
from tests import factories
from tests.scheduling.shapes import shaped
from tests.scheduling.start_world import (
    NOW_S,
    at,
    busy_server,
    decide,
    end,
    estimate,
    estimates,
    job,
    runs_for,
)
from tests.scheduling.world import at_once, build, known

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=NOW_S)


def test_a_waiting_job_starts_when_the_jobs_before_it_are_predicted_to_end() -> None:
    first, second, third = busy_server()
    assert estimate() == 2
    (of_second,), (of_third,) = estimates(second), estimates(third)
    assert first.run_s is not None
    assert of_second.p50_s == pytest.approx(NOW_S + first.run_s, rel=0.05)
    assert of_third.p50_s is not None
    assert of_third.p50_s == pytest.approx(NOW_S + first.run_s * 1.1, rel=0.05)
    assert (of_second.ahead, of_third.ahead) == (0, 1)
    assert of_second.kind == "best_effort, 1 unit"
    found = [of_second.p5_s, of_second.p50_s, of_second.p90_s, of_second.p95_s]
    quantiles = [value for value in found if value is not None]
    assert len(quantiles) == 4
    assert quantiles == sorted(quantiles)


def test_an_estimate_that_changed_is_added_and_the_earlier_one_is_kept() -> None:
    first, second, _ = busy_server()
    Job.objects.update(submitted_s=NOW_S - 2.0 * WINDOW_S)  # no later submission is expected
    estimate()
    assert estimate(seed=2) == 0
    Job.objects.filter(id=first.id).update(state="running", started_s=NOW_S - 500.0, progress=0.9)
    estimate()
    before, after = estimates(second)
    assert before.p50_s is not None
    assert after.p50_s == pytest.approx(NOW_S + 500.0 / 9.0, rel=0.1)
    assert before.p50_s > NOW_S + 500.0


def test_a_start_that_is_near_is_estimated_again_when_it_is_postponed_a_little() -> None:
    """By less than a fifth of the first wait, but by more than the wait that is left."""
    first, second, _ = busy_server()
    runs_for(first, 1000.0, 1000.0)
    estimate()
    at(NOW_S + 950.0)
    runs_for(first, 1950.0, 200.0)
    estimate()
    before, after = estimates(second)
    assert before.p50_s == pytest.approx(NOW_S + 1000.0, rel=0.01)
    assert after.p50_s == pytest.approx(NOW_S + 1150.0, rel=0.01)


def test_a_start_that_is_postponed_for_ever_adds_ever_fewer_rows() -> None:
    """The first estimate is 100,000 s old: of 14 delays of 300 s, each seventh adds a row."""
    first, second, _ = busy_server()
    runs_for(first, 1000.0, 20.0)
    estimate()
    StartEstimate.objects.update(made_s=NOW_S - 100_000.0)
    for turn in range(1, 15):
        at(NOW_S + 300.0 * turn)
        runs_for(first, 1000.0, 20.0)
        estimate()
    assert len(estimates(second)) == 3


def test_the_jobs_ahead_of_an_estimate_that_stays_are_counted_again() -> None:
    first, second, third = busy_server()
    runs_for(first, 1000.0, 9000.0)
    estimate()
    cancel_jobs([second.id])
    assert estimate() == 0
    assert [(each.ahead, each.made_s) for each in estimates(third)] == [(0, NOW_S)]
    assert [each.ahead for each in estimates(second)] == [0]


def test_the_jobs_ahead_are_those_with_an_earlier_corrected_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, second, third = busy_server()
    monkeypatch.setattr(start_estimates, "calibrate", lambda waits, scored: waits[::-1])
    estimate()
    found = [estimates(each)[0] for each in (second, third)]
    assert [each.ahead for each in found] == [1, 0]


def test_estimates_are_corrected_by_those_of_jobs_that_were_placed_lately() -> None:
    first, second, third = busy_server()
    for late_s in range(60):
        StartEstimate.objects.create(
            job_id=uuid7(),
            kind="best_effort, 1 unit",
            made_s=NOW_S - 1000.0,
            ahead=0,
            simulated_s=[100.0, 100.0, 100.0, 100.0],
            placed_s=NOW_S - 900.0 + 300.0 + late_s,
            is_open=False,
        )
    assert estimate() == 2
    (found,), (later,) = estimates(second), estimates(third)
    assert first.run_s is not None
    assert found.simulated_s is not None
    assert found.simulated_s[1] == pytest.approx(first.run_s, rel=0.05)
    assert found.p50_s == pytest.approx(NOW_S + found.simulated_s[1] + 330.0)
    assert found.p95_s == pytest.approx(NOW_S + found.simulated_s[3] + 357.0)
    start = check_start(spec := replace(spec_of(first), units=1), check_job(spec))
    assert start is not None
    assert start.p50_s is not None
    assert later.p50_s is not None
    assert start.p50_s == pytest.approx(later.p50_s - NOW_S + first.run_s / 10.0, rel=0.1)


def checked(of: Job, **values: Any) -> float:
    """Return the median start of a check of an equal job, in cluster seconds from now."""
    spec = replace(spec_of(of), **values)
    start = check_start(spec, check_job(spec, project=of.project_id), project=of.project_id)
    assert start is not None
    assert start.p50_s is not None
    return start.p50_s


def submitted(of: Job, **values: Any) -> float:
    """Submit an equal job, and return the median of its estimate."""
    equal = {"created_by": of.created_by, "project": of.project, **values}
    new = job(of.application, of.input_bytes // 10**9, **equal)
    decide()
    decide()
    estimate()
    found = estimates(new)[-1].p50_s
    assert found is not None
    return found - NOW_S


@pytest.mark.parametrize(
    "values", [{"priority": 50}, {}], ids=["of a higher priority", "of the same request"]
)
def test_a_check_agrees_with_the_estimate_of_the_submitted_job(values: dict[str, Any]) -> None:
    """One unit is busy, and ten equal jobs wait for it."""
    build("a", cores=1)
    user = factories.user()
    first = job(known(), 100, created_by=user)
    decide()
    rest = [job(first.application, 50, created_by=user) for _ in range(10)]
    decide()
    before = checked(rest[0], **values)
    assert before == pytest.approx(submitted(rest[0], **values), rel=0.25)


def test_a_check_tells_when_a_job_that_waits_would_start() -> None:
    first, _, _ = busy_server()
    spec = replace(spec_of(first), units=1)
    result = check_job(spec)
    start = check_start(spec, result)
    assert result.outcome == "waits"
    assert start is not None
    assert first.run_s is not None
    assert start.p50_s is not None
    # behind two jobs of 111 s each
    assert start.p50_s == pytest.approx(first.run_s + 222.0, rel=0.1)
    end(first, NOW_S)
    assert check_start(spec, check_job(spec)) is None


def predicted(client: Client, **values: Any) -> tuple[dict[str, Any], str]:
    """Return the check of a job of 10 s on one unit, and the title of its chart.

    The only unit is busy for 1,000 s with the first of three jobs.
    """
    first, second, third = busy_server()
    runs_for(first, 1000.0, 1000.0)
    cancel_jobs([second.id, third.id])
    user = create_user(username="sue", password=None, role=Role.SUBMITTER, projects=["default"])
    client.force_login(user)
    body = {"application": first.application.name, "input_bytes": 10**9, **values}
    answer = client.post("/api/v1/checks/", body, content_type="application/json").json()
    start = answer["start"]["p50_seconds"]
    query = {"spec": json.dumps(body), "start": start}
    return answer, client.get("/figures/feasibility/", query).json()["title"]


def test_the_completion_time_of_a_job_that_waits_counts_the_wait(client: Client) -> None:
    answer, title = predicted(client, target=due(5000.0))
    start_s, found = answer["start"]["p50_seconds"], answer["predicted"]
    assert start_s == pytest.approx(1000.0, rel=0.1)
    assert start_s < found["value"] < start_s + 100.0
    assert found["low"] <= found["value"] <= found["high"]
    assert answer["probability_met"] == 1.0
    assert answer["feasible"] is True
    shown = performance_text("completion_time", found["value"])
    assert title == f"1 unit is enough: {shown}, target 1 h 23 min"


def test_a_job_that_starts_after_its_target_gets_a_later_one(client: Client) -> None:
    answer, title = predicted(client, target=due(500.0))
    assert (answer["outcome"], answer["feasible"], answer["probability_met"]) == (
        *("waits", False, 0.0),
    )
    assert answer["summary"].endswith(" It would start too late to meet its target.")
    assert answer["predicted"]["value"] > answer["start"]["p50_seconds"]
    (suggestion,) = answer["suggestions"]
    assert suggestion["target"]["seconds"] > answer["predicted"]["high"]
    shown = performance_text("completion_time", answer["predicted"]["value"])
    assert title == f"No number of units is enough: {shown} at best, target 8 min 20 s"


def due(seconds: float) -> dict[str, Any]:
    return {"kind": "completion_time", "seconds": seconds}


def test_estimates_are_scored_when_the_job_is_placed() -> None:
    first, second, third = busy_server()
    estimate()
    at(NOW_S + 900.0)
    end(first, NOW_S + 900.0)
    decide()
    estimate()
    (scored,) = estimates(second)
    assert (scored.is_open, scored.placed_s) == (False, NOW_S + 900.0)
    assert all(each.is_open for each in estimates(third))


def test_an_estimate_is_scored_with_the_first_start_although_the_job_waits_again() -> None:
    """It was lost and refused between two turns of the task."""
    first, second, _ = busy_server()
    estimate()
    at(NOW_S + 900.0)
    end(first, NOW_S + 900.0)
    decide()
    second.refresh_from_db()
    assert second.placed_s == NOW_S + 900.0
    at(NOW_S + 901.0)
    requeue_lost([second.id], reason=Reason.BACKEND_LOST, message="silent")
    release([second.id])
    set_server_state(server_id=Server.objects.get().id, state=ServerState.CORDONED)
    decide()
    second.refresh_from_db()
    assert second.shape_id is not None
    estimate()
    scored, waits_again = estimates(second)
    assert (scored.is_open, scored.placed_s) == (False, NOW_S + 900.0)
    assert (waits_again.is_open, waits_again.made_s) == (True, NOW_S + 901.0)
    assert estimate() == 0


def test_estimates_of_jobs_that_no_longer_wait_are_not_scored() -> None:
    _, second, third = busy_server()
    estimate()
    set_held(second.id, held=True)
    cancel_jobs([third.id])
    estimate()
    for each in [*estimates(second), *estimates(third)]:
        assert (each.is_open, each.placed_s) == (False, None)


def test_a_job_that_was_held_is_estimated_again_and_scored_by_this_estimate() -> None:
    first, second, third = busy_server()
    estimate()
    set_held(second.id, held=True)
    estimate()
    set_held(second.id, held=False)
    decide()
    second.refresh_from_db()
    assert current_estimate(second) is None
    estimate()
    before, after = estimates(second)
    assert current_estimate(second) == after
    assert after.p50_s == pytest.approx(before.p50_s, rel=0.05)
    assert estimate() == 0
    at(NOW_S + 900.0)
    end(first, NOW_S + 900.0)
    cancel_jobs([third.id])
    decide()
    estimate()
    scored = [(each.is_open, each.placed_s) for each in estimates(second)]
    assert scored == [(False, None), (False, NOW_S + 900.0)]
    (score,) = start_scores(None, now_s=NOW_S + 900.0)
    assert score.count == 1


def test_a_shape_stores_the_size_and_the_run_time_of_its_jobs() -> None:
    busy_server()
    shape = WaitingShape.objects.get()
    assert shape.units == 1
    assert shape.run_s == pytest.approx(100.0, rel=0.2)
    assert (shape.run_high_s or 0.0) >= (shape.run_s or 0.0) > 0.0


def test_a_job_that_needs_other_servers_has_no_start() -> None:
    build("a", cores=1)
    nowhere = shaped(units_requested=1)
    WaitingShape.objects.update(waits_for="servers")
    estimate()
    (found,) = estimates(nowhere)
    assert (found.p50_s, found.p95_s) == (None, None)


def test_a_job_that_its_quota_refuses_has_no_start_and_delays_no_other() -> None:
    """The project of the second job may use no unit, however many are freed."""
    build("a", cores=1)
    application, none = known(), factories.project("none")
    first = job(application, 100)
    decide()
    Project.objects.filter(pk=none.pk).update(max_units=0)
    refused, last = job(application, 10, project=none), job(application, 10)
    decide()
    refused.refresh_from_db()
    assert refused.reason_code == "QuotaExceeded"
    estimate()
    (unknown,), (known_start,) = estimates(refused), estimates(last)
    assert (unknown.p50_s, unknown.p90_s) == (None, None)
    first.refresh_from_db()
    assert first.run_s is not None
    assert known_start.p50_s == pytest.approx(NOW_S + first.run_s, rel=0.05)


@pytest.mark.parametrize(("limit", "counts"), [(2, (1, 1)), (5, (4, 1)), (9, (6, 1))])
def test_a_flood_of_equal_jobs_leaves_an_estimate_to_other_requests(
    limit: int, counts: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six equal jobs, and a later one of another request."""
    build("a", cores=1)
    application = known()
    flood = [job(application, 10) for _ in range(7)]
    decide()
    other = job(application, 20)
    decide()
    decide()
    assert Job.objects.filter(shape__isnull=False).count() == 7
    monkeypatch.setattr("apps.scheduling.selectors.queue.MAX_JOBS", limit)
    estimate()
    assert (sum(len(estimates(each)) for each in flood), len(estimates(other))) == counts


def test_the_number_of_statements_does_not_depend_on_the_number_of_jobs() -> None:
    busy_server()
    with CaptureQueriesContext(
        connection,
    ) as few:
        estimate()
    application = Application.objects.get()
    for _ in range(20):
        job(application, 10)
    decide()
    with CaptureQueriesContext(connection) as many:
        assert estimate() > 10
    assert len(many) == len(few)


@pytest.mark.django_db(transaction=True)
def test_two_processes_do_not_estimate_at_the_same_time() -> None:
    busy_server()
    found: list[int] = []
    with held_if_free(AdvisoryLock.START_ESTIMATES) as is_ours:
        assert is_ours
        assert at_once(lambda: found.append(estimate())) == []
    assert found == [0]
    assert estimate() == 2


@pytest.mark.django_db(transaction=True)
def test_starts_are_simulated_outside_a_transaction_and_those_of_placed_jobs_are_not_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second, third = busy_server()
    is_in_transaction: list[bool] = []

    def simulate(queue: Queue, rng: np.random.Generator) -> Starts:
        is_in_transaction.append(connection.in_atomic_block)
        end(first, NOW_S)
        decide()
        return estimate_starts(queue, rng)

    monkeypatch.setattr("apps.scheduling.services.start_estimates.estimate_starts", simulate)
    assert estimate() == 1
    second.refresh_from_db()
    assert (is_in_transaction, second.state) == ([False], "starting")
    assert (estimates(second), len(estimates(third))) == ([], 1)


def test_the_cluster_is_not_read_while_nothing_waits() -> None:
    build("a")
    follower = ClusterFollower()
    assert update_start_estimates(follower, np.random.default_rng(1)) == 0
    with pytest.raises(RuntimeError, match="call follow"):
        _ = follower.copy
