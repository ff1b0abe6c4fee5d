"""Explanations of decisions whose jobs have changed since."""

import html
from typing import Any

import pytest
from django.test import Client

from apps.dashboard.selectors.explanation import explanation
from apps.scheduling.models import Decision
from apps.workloads.core.spec import parse_changes
from apps.workloads.models import Job
from apps.workloads.services import update_job
from tests import factories

pytestmark = pytest.mark.django_db
TEN_MINUTES = {"kind": "completion_time", "seconds": 600.0}
RATE = {"kind": "ips", "ips": 1e9}


def placed(*, units: int = 3, **values: Any) -> Decision:
    """A job of 162 GB on units of 100 MB/s, 90 of which are counted on: 600 s on three."""
    job = factories.job(
        state="running", application=factories.application("sort"), units=units,
        input_bytes=162 * 10**9, target=TEN_MINUTES, submitted_s=3010.0, **values,
    )  # fmt: skip
    predicted = {"value": 600.0, "low": 600.0, "high": 600.0, "target": TEN_MINUTES}
    return factories.decision(
        job, units=units, predicted=predicted, profile_id=factories.profile(job.application).pk
    )


def relaxed(decision: Decision, target: dict[str, Any]) -> Decision:
    update_job(decision.job_id, parse_changes({"target": target}))
    return Decision.objects.get(pk=decision.pk)


def text_of(decision: Decision) -> str:
    return " ".join(explanation(decision).paragraph)


def test_a_decision_keeps_the_target_that_it_was_made_for() -> None:
    decision = relaxed(placed(), {"kind": "completion_time", "seconds": 900.0})
    assert "Predicted performance: **10 min** [10 min, 10 min]." in text_of(decision)
    assert "Target: done within 10 min." in text_of(decision)
    other_kind = relaxed(decision, RATE)
    assert text_of(other_kind) == text_of(decision)
    first, *_ = explanation(other_kind).counterfactuals
    assert first.change == "Target at least 15 min"


def test_a_decision_without_a_stored_target_has_that_of_its_job() -> None:
    decision = placed()
    del decision.predicted["target"]
    decision.save()
    later = relaxed(decision, {"kind": "completion_time", "seconds": 900.0})
    assert "Target: done within 15 min." in text_of(later)


def test_a_size_beyond_the_tasks_of_the_job_predicts_no_other_size() -> None:
    decision = placed(units=8, tasks_total=4)
    assert explanation(decision).counterfactuals == ()


def test_the_page_starts_a_changed_target_from_the_decided_one(as_operator: Client) -> None:
    decision = relaxed(placed(), RATE)
    Decision.objects.filter(pk=decision.pk).update(batch_id=decision.pk)
    page = html.unescape(as_operator.get(f"/decisions/{decision.pk}/").content.decode())
    assert '{"kind": "completion_time", "seconds": 600.0}' in page


def test_other_reasons_are_those_of_the_current_decision(as_operator: Client) -> None:
    job = factories.job(reason_code="NoFreeUnit", reason_also=["WaitingForBetterUnits"])
    refused = factories.decision(job, outcome="refused", reason_code="NoFreeUnit")
    page = f"/jobs/{job.pk}/?tab=why"
    assert "Other reasons that applied:" in as_operator.get(page).content.decode()
    Job.objects.filter(pk=job.pk).update(reason_code="PlacedBestOfSample", reason_also=[])
    chosen = factories.decision(Job.objects.get(pk=job.pk))
    assert "No other reason applied." in as_operator.get(page).content.decode()
    for address in (f"{page}&decision={refused.pk}", f"/decisions/{refused.pk}/"):
        old = as_operator.get(address).content.decode()
        assert "<code>NoFreeUnit</code>" in old
        assert "other reason" not in old.lower(), address
    assert explanation(chosen).also == ()


def test_a_held_job_does_not_tell_the_other_reasons_of_its_refusal() -> None:
    job = factories.job(held=True, reason_code="Held")
    refused = factories.decision(job, outcome="refused", reason_code="NoFreeUnit")
    assert explanation(refused).also is None
