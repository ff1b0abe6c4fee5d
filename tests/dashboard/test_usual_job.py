"""The usual job of an application, and targets suggested from what is known."""

from typing import Any

import numpy as np
import pytest
from django.test import Client

from apps.accounts.core.roles import Role
from apps.accounts.models import Membership
from apps.dashboard.core.usual_job import PastJob, suggested_targets, usual_job
from apps.scheduling.core.sizing.feasibility import Feasibility
from tests import factories

TEN_MINUTES = {"kind": "completion_time", "seconds": 600.0}
AN_HOUR = {"kind": "completion_time", "seconds": 3600.0}


def past(
    target: dict[str, Any] = TEN_MINUTES,
    *,
    achieved: float | None = None,
    attainment: float | None = None,
    tasks: int = 8,
    units: int | None = None,
) -> PastJob:
    return PastJob(target, 10**10, tasks, None, units, achieved, attainment)


def grid(value: list[list[float]], *, is_rate: bool = False) -> Feasibility:
    values = np.array(value)
    return Feasibility(
        kind="ips" if is_rate else "completion_time",
        target=600.0,
        is_rate=is_rate,
        sizes=np.array([1, 2]),
        platforms=("A", "B"),
        value=values,
        low=0.9 * values,
        high=1.1 * values,
        units=1,
        basis="A",
    )


def test_the_most_common_request_is_usual_and_says_how_often_it_was_met() -> None:
    jobs = [
        past(AN_HOUR),
        past(attainment=1.1, units=4),
        past(attainment=0.9, units=4),
        past(units=None),
    ]
    usual = usual_job(jobs, "analytics")
    assert (usual.target, usual.input_bytes, usual.tasks, usual.units) == (
        TEN_MINUTES,
        10**10,
        8,
        4,
    )
    assert usual.reason == "the target of 3 of its last 4 jobs; 1 of 2 measured jobs met it"


def test_of_equally_common_requests_the_newest_is_usual() -> None:
    assert usual_job([past(AN_HOUR), past()], "analytics").target == AN_HOUR


@pytest.mark.parametrize(
    ("kind", "target_kind"),
    [
        ("latency_critical", "throughput_latency"),
        ("single_node", "ips"),
        ("batch", "completion_time"),
    ],
)
def test_without_jobs_the_kind_of_the_application_decides(kind: str, target_kind: str) -> None:
    usual = usual_job([], kind)
    assert usual.target["kind"] == target_kind
    assert usual.reason == ""


def test_what_nine_of_ten_jobs_achieved_is_suggested() -> None:
    jobs = [past(achieved=float(100 + i)) for i in range(10)] + [past(achieved=9e3, tasks=1)]
    (suggestion,) = suggested_targets(jobs, usual_job(jobs, "analytics"), None)
    assert suggestion.target == {"kind": "completion_time", "seconds": 110.0}
    assert suggestion.text == "done within 1 min 50 s"
    assert suggestion.reason == "10 of its last 10 comparable jobs achieved this"


def test_few_measured_jobs_suggest_nothing() -> None:
    jobs = [past(achieved=100.0)] * 4
    assert suggested_targets(jobs, usual_job(jobs, "analytics"), None) == []


def test_the_best_prediction_is_suggested_with_its_platform() -> None:
    usual = usual_job([past()], "analytics")
    (suggestion,) = suggested_targets([], usual, grid([[500.0, np.nan], [300.0, np.inf]]))
    assert suggestion.target == {"kind": "completion_time", "seconds": 330.0}
    assert suggestion.reason == (
        "its profile predicts this for 10 GB and 8 tasks with 90 % confidence"
        " on 2 units of A, its best platform"
    )


def test_units_that_help_little_are_not_suggested() -> None:
    usual = usual_job([past()], "analytics")
    (suggestion,) = suggested_targets([], usual, grid([[400.0, 900.0], [300.0, 800.0]]))
    assert suggestion.target == {"kind": "completion_time", "seconds": 440.0}
    assert "1 unit of A" in suggestion.reason


def test_a_rate_is_rounded_down() -> None:
    target = {"kind": "ips", "ips": 1e9}
    usual = usual_job([past(target)], "single_node")
    (suggestion,) = suggested_targets([], usual, grid([[1e9, 2.35e9], [1e9, 1e9]], is_rate=True))
    assert suggestion.target == {"kind": "ips", "ips": 2.1e9}
    assert suggestion.reason.startswith("its profile predicts this with 90 % confidence")


def test_an_impossible_job_and_best_effort_suggest_nothing() -> None:
    usual = usual_job([past()], "analytics")
    assert suggested_targets([], usual, grid([[np.nan, np.inf], [np.nan, np.inf]])) == []
    free = usual_job([past({"kind": "best_effort"}, achieved=1.0)] * 6, "batch")
    assert suggested_targets([past({"kind": "best_effort"}, achieved=1.0)] * 6, free, None) == []


@pytest.mark.django_db
def test_the_usual_job_is_that_of_the_jobs_one_may_see(client: Client) -> None:
    factories.cluster()
    application = factories.application("wordcount")
    mine, other = factories.project("mine"), factories.project("other")
    vic = factories.user("vic", role=Role.VIEWER)
    Membership.objects.create(user=vic, project=mine, role="viewer")
    factories.job(application=application, project=mine, target=AN_HOUR, tasks_total=3)
    for _ in range(3):
        factories.job(application=application, project=other)
    client.force_login(vic)
    usual = client.get("/submit/usual.json?application=wordcount").json()
    assert (usual["target"], usual["tasks"]) == (AN_HOUR, 3)
    assert usual["reason"] == "the target of its last job"


@pytest.mark.django_db
def test_nothing_is_known_of_a_new_application(as_operator: Client) -> None:
    assert as_operator.get("/submit/usual.json?application=new").json() == {}
