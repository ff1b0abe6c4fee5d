"""Jobs that a quota or a reservation kept waiting are evaluated soon after its end."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from apps.accounts.services import update_project
from apps.scheduling.models import Reservation
from apps.scheduling.services.reservations import end_reservations, end_reservations_of_ended_jobs
from apps.workloads.models import Job, WaitingShape
from apps.workloads.services import cancel_jobs, set_held
from tests import factories
from tests.scheduling.world import known

pytestmark = pytest.mark.django_db

LATER = datetime(2100, 1, 1, tzinfo=UTC)
Commit = Callable[..., Any]


def refused(reason: str, **values: Any) -> WaitingShape:
    job = factories.job(application=known(), project=factories.project("vision"), **values)
    return factories.waiting_shape(job, reason_code=reason, due_at=LATER)


def is_due(shape: WaitingShape) -> bool:
    shape.refresh_from_db()
    return shape.due_at < LATER


def waiting_job(guaranteed: int | None) -> Job:
    web = factories.project("web")
    web.guaranteed_units = guaranteed
    web.save()
    return factories.job(application=known(), project=web, state="queued")


@pytest.mark.parametrize(
    "changes",
    [{"max_units": 9}, {"guaranteed_units": 4}, {"guaranteed_units": None}],
)
def test_a_changed_quota_lets_jobs_that_a_quota_refused_be_evaluated(
    changes: dict[str, Any], django_capture_on_commit_callbacks: Commit
) -> None:
    web = waiting_job(2).project
    beyond, other = refused("QuotaExceeded"), refused("NoFreeUnit", priority=3)
    with django_capture_on_commit_callbacks(execute=True):
        update_project(web.id, {"description": "graphs"})
    assert not is_due(beyond)
    with django_capture_on_commit_callbacks(execute=True):
        update_project(web.id, changes)
    assert (is_due(beyond), is_due(other)) == (True, False)


@pytest.mark.parametrize(
    "end", [lambda job: cancel_jobs([job]), lambda job: set_held(job, held=True)]
)
@pytest.mark.parametrize("guaranteed", [4, None])
def test_the_end_of_a_claim_lets_borrowers_be_evaluated(
    end: Callable[[Any], object],
    guaranteed: int | None,
    django_capture_on_commit_callbacks: Commit,
) -> None:
    job, beyond = waiting_job(guaranteed), refused("QuotaExceeded")
    with django_capture_on_commit_callbacks(execute=True):
        end(job.id)
    assert is_due(beyond) is (guaranteed is not None)


@pytest.mark.parametrize("is_ended", [True, False])
def test_the_end_of_a_reservation_lets_jobs_that_it_kept_waiting_be_evaluated(
    *, is_ended: bool, django_capture_on_commit_callbacks: Commit
) -> None:
    job, kept = waiting_job(None), refused("UnitsReserved")
    Reservation.objects.create(job_id=job.id, unit_ids=[], made_s=0, start_s=0, promised_s=0)
    with django_capture_on_commit_callbacks(execute=True):
        end_reservations_of_ended_jobs()
    assert not is_due(kept)
    if is_ended:
        cancel_jobs([job.id])
    with django_capture_on_commit_callbacks(execute=True):
        end_reservations_of_ended_jobs()
        end_reservations([job.id])
    assert is_due(kept)
