"""Agents let jobs wait for better units while others are free, as the setting allows."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from django.test import override_settings
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.common.core.ids import uuid7
from apps.inventory.models import Cluster, ResourceUnit
from apps.scheduling.core.patience import MAX_PATIENCE_S
from apps.scheduling.core.records.replay_verdict import ReplayVerdict
from apps.scheduling.models import Decision, Reservation, StartEstimate
from apps.scheduling.selectors import ClusterFollower
from apps.scheduling.selectors.queue import waiting_queue
from apps.scheduling.services import check_job, check_start, release
from apps.scheduling.services.agent import SchedulingAgent, make_agent
from apps.scheduling.services.counterfactuals import Changes, counterfactual
from apps.scheduling.services.replay import replay
from apps.scheduling.services.start_estimates import update_start_estimates
from apps.testbed.core.replay.model import ReplayOptions
from apps.workloads.models import Application, Job, WaitingShape
from apps.workloads.selectors import spec_of
from apps.workloads.services import EvaluationTime, WaitingJob, keep_waiting
from tests import factories
from tests.scheduling.dry_runs.scene import begin, body, new_scene
from tests.scheduling.shapes import ANY_UNIT
from tests.scheduling.world import build, decide_again, known, state_and_reason, waiting

pytestmark = pytest.mark.django_db

NOW_S = 3000.0
HARSH = {"tolerated": 10.0, "caused": 90.0}


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=NOW_S)


def job(of: Application, gigabytes: int = 100, **values: Any) -> Job:
    """A waiting job of 10 s per gigabyte on one unit."""
    fields: dict[str, Any] = {
        "target": {"kind": "best_effort"},
        "target_kind": "best_effort",
        "units_requested": 1,
        "input_bytes": gigabytes * 10**9,
        "submitted_s": NOW_S,
    }
    return waiting(of, **{**fields, **values})


def crowded(gigabytes: int = 100, **values: Any) -> tuple[SchedulingAgent, Job, Job]:
    """An agent, a job that runs on the only server, and one that slows it down."""
    build("a")
    of, by = known(**HARSH), make_agent("agent-1")
    first = job(of)
    decide_again(by)
    assert state_and_reason(first)[0] == "starting"
    second = job(of, gigabytes, **values)
    decide_again(by)
    return by, first, second


def at(cluster_s: float) -> None:
    Cluster.objects.update(seen_cluster_s=cluster_s)


def test_a_job_waits_at_most_for_the_time_of_the_setting() -> None:
    by, _, second = crowded()
    assert state_and_reason(second) == ("queued", "QualityShort")
    decision = Decision.objects.get(job=second)
    assert decision.dropped == {"busy": 1}
    for waited_s, state in ((299.0, "queued"), (301.0, "starting")):
        at(NOW_S + waited_s)
        decide_again(by)
        assert state_and_reason(second)[0] == state


def test_a_job_waits_no_longer_than_it_is_predicted_to_run() -> None:
    by, _, second = crowded(gigabytes=1)
    assert state_and_reason(second) == ("queued", "QualityShort")
    at(NOW_S + 60.0)
    decide_again(by)
    assert state_and_reason(second)[0] == "starting"


def test_a_job_that_waits_starts_when_its_neighbour_ends() -> None:
    by, first, second = crowded()
    Job.objects.filter(id=first.id).update(state="succeeded", finished_s=NOW_S)
    release([first.id])
    decide_again(by)
    assert state_and_reason(second)[0] == "starting"


@pytest.mark.parametrize(
    ("setting_s", "values"),
    [
        (0.0, {}),
        (300.0, {"units_requested": 2}),
        (300.0, {"priority": 1}),
        (300.0, {"policy": "least_loaded"}),
        (300.0, {"target": {"kind": "completion_time", "seconds": 1000.0}}),
        (300.0, {"submitted_s": NOW_S - 300.0}),
    ],
)
def test_these_jobs_start_at_once(setting_s: float, values: dict[str, Any]) -> None:
    """Without patience; of two units, urgent, by another policy, with a deadline, after it."""
    with override_settings(PATIENCE_S=setting_s):
        _, _, second = crowded(**values)
        assert state_and_reason(second)[0] == "starting"


def test_a_running_job_that_lacks_units_takes_any() -> None:
    build("a")
    of, by = known(**HARSH), make_agent("agent-1")
    jobs = [job(of, units_requested=1) for _ in range(3)]
    with override_settings(PATIENCE_S=0.0):
        decide_again(by)
        wide = job(of, units_requested=2, gang=False)
        decide_again(by)
    wide.refresh_from_db()
    assert (wide.units, wide.units_missing) == (1, 1)
    release([jobs[0].id])
    decide_again(by)
    wide.refresh_from_db()
    assert (wide.units, wide.units_missing) == (2, 0)


def test_a_job_takes_the_units_that_are_reserved_for_it() -> None:
    by, _, second = crowded()
    kept = list(ResourceUnit.objects.order_by("id").values_list("id", flat=True)[1:2])
    Reservation.objects.create(
        job_id=second.id, unit_ids=kept, made_s=NOW_S, promised_s=NOW_S, start_s=NOW_S
    )
    decide_again(by)
    assert state_and_reason(second)[0] == "starting"


def test_a_job_that_waits_keeps_no_units_from_other_projects() -> None:
    """Its project is guaranteed all units; the other one borrows those that it declines."""
    build("a")
    of, by = known(**HARSH), make_agent("agent-1")
    job(of)
    decide_again(by)
    owner = factories.project("vision")
    owner.guaranteed_units = 4
    owner.save()
    waits = [job(of, project=owner) for _ in range(3)]  # as many as units are free
    decide_again(by)
    assert {state_and_reason(each)[1] for each in waits} == {"QualityShort"}
    other = job(known(), policy="least_loaded", project=factories.project("web"))
    decide_again(by)
    assert state_and_reason(other)[0] == "starting"


WITH_DEADLINE = {"kind": "completion_time", "seconds": 1e6}


def with_target(of: Job, target: dict[str, Any]) -> tuple[str, str]:
    """Outcome and reason of the only decision on a job, with another target."""
    decision = Decision.objects.get(job=of)
    after = counterfactual(decision.pk, Changes(target=target))["after"]
    return after["outcome"], after["reason"]


@pytest.mark.parametrize(
    ("target", "outcome"),
    [
        ({"kind": "best_effort"}, ("refused", "QualityShort")),
        ({"kind": "ips", "ips": 1.0}, ("refused", "QualityShort")),
        (WITH_DEADLINE, ("placed", "")),
        ({"kind": "throughput_latency", "qps": 1.0, "latency_seconds": 10.0}, ("placed", "")),
    ],
)
def test_a_changed_target_decides_whether_the_job_may_wait(
    target: dict[str, Any], outcome: tuple[str, str]
) -> None:
    _, _, second = crowded()
    assert state_and_reason(second) == ("queued", "QualityShort")
    assert with_target(second, target) == outcome


def test_a_job_with_a_deadline_would_wait_without_one() -> None:
    _, _, second = crowded(target=WITH_DEADLINE, target_kind="completion_time")
    assert state_and_reason(second)[0] == "starting"
    assert with_target(second, {"kind": "best_effort"}) == ("refused", "QualityShort")
    assert with_target(second, WITH_DEADLINE) == ("placed", "")


@pytest.mark.parametrize("values", [{"submitted_s": NOW_S - 300.0}, {"priority": 1}])
def test_a_job_that_waits_for_no_better_units_does_not_with_another_target(
    values: dict[str, Any],
) -> None:
    _, _, second = crowded(target=WITH_DEADLINE, target_kind="completion_time", **values)
    assert with_target(second, {"kind": "best_effort"})[0] == "placed"


def test_a_job_that_was_to_take_any_units_takes_them_with_another_target() -> None:
    """A unit is reserved for it, which a job that may wait would refuse."""
    by, _, second = crowded()
    kept = list(ResourceUnit.objects.order_by("id").values_list("id", flat=True)[1:2])
    Reservation.objects.create(
        job_id=second.id, unit_ids=kept, made_s=NOW_S, promised_s=NOW_S, start_s=NOW_S
    )
    Decision.objects.all().delete()
    decide_again(by)
    assert state_and_reason(second)[0] == "starting"
    assert with_target(second, {"kind": "ips", "ips": 1.0})[0] == "placed"


def test_both_decisions_are_repeated_to_the_bit() -> None:
    by, _, second = crowded()
    at(NOW_S + 301.0)
    decide_again(by)
    outcomes = {}
    for decision in Decision.objects.filter(job=second):
        found = replay(decision.pk)
        assert (found.detail, found.differences[:8]) == ("", ())
        outcomes[decision.outcome] = found.verdict
    assert outcomes == dict.fromkeys(("refused", "placed"), ReplayVerdict.IDENTICAL)


def test_a_dry_run_says_that_the_job_would_wait(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    Cluster.objects.all().delete()
    begin(monkeypatch, settings)
    build("a")
    scene = new_scene()._replace(application=known(**HARSH))
    scene.submit(body(scene))
    answer = scene.check(body(scene))
    stored = scene.submit(body(scene))
    assert (answer["outcome"], answer["reason"]) == ("waits", "QualityShort")
    assert stored.reason_code == "QualityShort"
    assert stored.reason_message in answer["summary"]
    settings.PATIENCE_S = 45.0
    summary = scene.check(body(scene))["summary"]
    assert summary.endswith(" After 45 s of cluster time it takes any unit that is free.")
    settings.PATIENCE_S = 0.0
    assert scene.check(body(scene))["outcome"] == "placed"


def test_the_start_is_predicted_for_the_end_of_the_patience() -> None:
    """The job that runs needs longer than that."""
    _, _, second = crowded(submitted_s=NOW_S - 100.0)
    update_start_estimates(ClusterFollower(), np.random.default_rng(1))
    found = StartEstimate.objects.get(job_id=second.id)
    assert (found.p50_s, found.p95_s) == (
        NOW_S + MAX_PATIENCE_S - 100.0,
        NOW_S + MAX_PATIENCE_S - 100.0,
    )


def test_patience_begins_after_profiling() -> None:
    crowded(submitted_s=NOW_S - 200.0, profiled_s=NOW_S - 50.0)
    (shape,) = waiting_queue(NOW_S)
    assert shape.patience_s == [MAX_PATIENCE_S - 50.0]


def test_what_an_admission_control_holds_has_no_patience() -> None:
    """It refuses jobs for better units too, but they take no other units later."""
    _, _, second = crowded()
    assert WaitingShape.objects.get().waits_for_better
    Job.objects.filter(id=second.id).update(claimed_by="agent-1")
    held = WaitingJob(second.id, "QualityShort", "no unit suits its class", uuid7(), ANY_UNIT)
    keep_waiting([held], agent="agent-1", at=EvaluationTime(NOW_S, 10**6, 3600.0))
    (shape,) = waiting_queue(NOW_S)
    assert shape.patience_s == []


@override_settings(BACKFILL="conservative")
def test_no_unit_is_reserved_for_a_job_while_it_waits_for_better_ones() -> None:
    _, _, second = crowded()
    assert not Reservation.objects.filter(job_id=second.id).exists()
    (shape,) = waiting_queue(NOW_S)
    assert shape.reserve_s == MAX_PATIENCE_S


def test_a_dry_run_predicts_the_end_of_the_patience() -> None:
    _, _, second = crowded()
    spec = replace(spec_of(second), name="another")
    result = check_job(spec)
    start = check_start(spec, result)
    assert (result.reason, result.longest_wait_s) == ("QualityShort", MAX_PATIENCE_S)
    assert start == (MAX_PATIENCE_S, MAX_PATIENCE_S)


def test_the_page_of_a_job_says_what_it_waits_for() -> None:
    _, _, second = crowded()
    client = APIClient()
    client.force_login(factories.user(role=Role.ADMIN))
    shown = client.get(f"/jobs/{second.id}/").content.decode()
    assert "the free units are too contended for the job, and it may still wait" in shown
    assert "<b>3</b> were eligible" in shown


def test_replays_let_jobs_wait_as_long_as_production(settings: Any) -> None:
    assert settings.PATIENCE_S == MAX_PATIENCE_S == ReplayOptions().patience_s
