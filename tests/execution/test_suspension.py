"""Suspension of running jobs: requests of users, reports of backends, and who can do it."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse

from apps.accounts.selectors import token_digest
from apps.common.core.errors import ConflictError
from apps.execution.core.agent.wire import PROTOCOL, KnownOrders
from apps.execution.core.port import SuspensionReport
from apps.execution.models import Launch, ServerAgent
from apps.execution.services.agents import have_changed, orders_of
from apps.execution.services.recovery import requeue_launch
from apps.execution.services.suspension import (
    GIVEN_UP,
    OBSERVED,
    record_suspensions,
    resume_job,
    suspend_job,
)
from apps.inventory.core.backends import CAPABILITIES, Capability
from apps.inventory.models import Server
from apps.operations.models import Event
from apps.workloads.core.lifecycle import JobState, Suspension
from apps.workloads.core.reasons import Reason
from apps.workloads.models import Job
from apps.workloads.services import cancel_jobs, end_jobs
from apps.workloads.services.progress import JobEnd
from tests import factories

pytestmark = pytest.mark.django_db
JSON = "application/json"
PROGRAM: dict[str, Any] = {"command": ["true"], "environment": {}, "working_directory": None}


@pytest.fixture
def operator(client: Client) -> Client:
    """A client that is signed in as an operator."""
    client.force_login(factories.user())
    return client


def running(backend: str = "agent", *, protocol: int = PROTOCOL) -> tuple[Job, int]:
    """A job that runs on a server of a backend, and its launch."""
    factories.cluster()
    server = factories.server(backend=backend)
    if backend == "agent":
        ServerAgent.objects.create(
            name=server.name, digest=token_digest(server.name), server=server, epoch=1,
            facts={"protocol": protocol},
        )  # fmt: skip
    job = factories.job(state="running", attempts=1, started_s=3020.0, program=PROGRAM)
    factories.allocation(job, server, by=factories.decision(job), acquired_seq=0)
    return job, factories.launch(job, backend=backend).pk


def report(launch: int, at_s: float, *, is_suspended: bool, **more: Any) -> None:
    with transaction.atomic():
        record_suspensions([SuspensionReport(launch, at_s, is_suspended)], **more)


def facts(job: Job) -> tuple[str, float | None, float]:
    job.refresh_from_db()
    return job.suspension, job.suspended_s, job.suspended_for_s


@pytest.mark.parametrize("backend", sorted(CAPABILITIES))
def test_a_backend_suspends_jobs_if_it_says_so(backend: str) -> None:
    job, _ = running(backend)
    if Capability.SUSPEND in CAPABILITIES[backend]:
        suspend_job(job.pk)
        assert facts(job)[0] == "requested"
    else:
        with pytest.raises(ConflictError, match=f"the backend {backend} cannot suspend jobs"):
            suspend_job(job.pk)
        assert facts(job)[0] == ""


def test_a_job_is_suspended_and_resumed_and_the_time_is_counted() -> None:
    job, launch = running()
    suspend_job(job.pk)
    report(launch, 7000.0, is_suspended=True)
    assert facts(job) == ("suspended", 7000.0, 0.0)
    report(launch, 7001.0, is_suspended=True)  # the same report again
    assert facts(job) == ("suspended", 7000.0, 0.0)
    resume_job(job.pk)
    report(launch, 7000.0, is_suspended=True)  # late: it must not undo the request
    assert facts(job)[0] == "resuming"
    report(launch, 7060.0, is_suspended=False)
    report(launch, 7090.0, is_suspended=False)
    assert facts(job) == ("", None, 60.0)
    kinds = list(Event.objects.order_by("seq").values_list("kind", flat=True))
    assert kinds == [
        "job.suspend_requested", "job.suspended", "job.resume_requested", "job.resumed",
    ]  # fmt: skip
    assert Server.objects.get().used_cores == 1


def test_repeated_requests_change_nothing() -> None:
    job, _ = running()
    suspend_job(job.pk)
    job.refresh_from_db()
    generation = job.generation
    suspend_job(job.pk)
    resume_job(job.pk)
    resume_job(job.pk)
    job.refresh_from_db()
    assert (job.suspension, job.generation) == ("resuming", generation + 1)


@pytest.mark.parametrize("state", ["queued", "starting", "succeeded"])
def test_only_running_jobs_are_suspended(state: str) -> None:
    factories.cluster()
    job = factories.job(state=state)
    for change, verb in ((suspend_job, "suspended"), (resume_job, "resumed")):
        with pytest.raises(ConflictError, match=f"a {state} job cannot be {verb}"):
            change(job.pk)


def test_a_job_that_is_being_stopped_is_not_suspended() -> None:
    (cancelled, _), (preempted, launch) = running(), running()
    cancel_jobs([cancelled.pk])
    Launch.objects.filter(pk=launch).update(cancel_requested=True)
    for job in (cancelled, preempted):
        with pytest.raises(ConflictError, match="is being stopped"):
            suspend_job(job.pk)


def test_an_agent_that_is_too_old_is_named() -> None:
    job, _ = running(protocol=1)
    name = ServerAgent.objects.get().name
    with pytest.raises(ConflictError, match=f"the agent of {name} is too old"):
        suspend_job(job.pk)


def test_a_suspension_ends_with_the_launch() -> None:
    lost, launch = running()
    ended, other = running("slurm")
    for job, number in ((lost, launch), (ended, other)):
        suspend_job(job.pk)
        report(number, 7000.0, is_suspended=True)
    with transaction.atomic():
        requeue_launch(launch, "gone")
    with transaction.atomic():
        end_jobs([JobEnd(ended.pk, JobState.FAILED, 7100.0, Reason.JOB_FAILED)])
    assert facts(lost)[:2] == facts(ended)[:2] == ("", None)
    report(launch, 7200.0, is_suspended=True, accepted=OBSERVED)  # of a launch that has ended
    assert facts(lost)[:2] == ("", None)


def test_a_suspension_that_is_open_at_the_end_of_a_job_is_no_run_time() -> None:
    (ended, first), (cancelled, second) = running(), running()
    for job, launch in ((ended, first), (cancelled, second)):
        suspend_job(job.pk)
        report(launch, 7000.0, is_suspended=True)
        resume_job(job.pk)  # whose report is lost
    cancel_jobs([cancelled.pk])
    with transaction.atomic():
        end_jobs([JobEnd(ended.pk, JobState.SUCCEEDED, 7100.0, Reason.SUCCEEDED)])
    with transaction.atomic():
        requeue_launch(second, "gone")
    cancelled.refresh_from_db()
    assert (cancelled.state, cancelled.finished_s) == ("cancelled", 7200.0)
    assert facts(ended) == ("", None, 100.0)
    assert facts(cancelled) == ("", None, 200.0)


def test_only_a_running_job_can_be_stored_as_suspended() -> None:
    job = factories.job(state="queued")
    with pytest.raises(IntegrityError, match="job_suspended_runs"), transaction.atomic():
        Job.objects.filter(pk=job.pk).update(suspension=Suspension.SUSPENDED)


def test_what_others_do_in_a_backend_is_followed() -> None:
    job, launch = running("slurm")
    report(launch, 7000.0, is_suspended=True)
    assert facts(job)[0] == ""  # a backend without other users reports what was requested
    report(launch, 7000.0, is_suspended=True, accepted=OBSERVED)
    assert facts(job) == ("suspended", 7000.0, 0.0)
    report(launch, 7030.0, is_suspended=False, accepted=OBSERVED)
    assert facts(job) == ("", None, 30.0)


def test_reports_of_several_launches_are_recorded_together() -> None:
    (one, first), (other, second) = running("slurm"), running("slurm")
    report(second, 7000.0, is_suspended=True, accepted=OBSERVED)
    with transaction.atomic():
        record_suspensions(
            [SuspensionReport(first, 7010.0, True), SuspensionReport(second, 7020.0, False)],
            accepted=OBSERVED,
        )
    assert facts(one) == ("suspended", 7010.0, 0.0)
    assert facts(other) == ("", None, 20.0)


def test_a_refused_suspension_ends_the_request() -> None:
    job, launch = running("slurm")
    suspend_job(job.pk)
    report(launch, 7000.0, is_suspended=False, accepted=GIVEN_UP)
    assert facts(job) == ("", None, 0.0)


def test_an_order_says_what_is_requested_and_what_is_recorded() -> None:
    job, launch = running()
    server = Server.objects.get().pk
    seen = []
    for step in ("none", "requested", "suspended", "resuming"):
        if step == "requested":
            suspend_job(job.pk)
        elif step == "suspended":
            report(launch, 7000.0, is_suspended=True)
        elif step == "resuming":
            resume_job(job.pk)
        (order,) = orders_of(server)
        seen.append((order.suspend, order.is_suspended))
    assert seen == [(False, False), (True, False), (True, True), (False, True)]


def test_a_request_wakes_the_agent_that_waits_for_orders() -> None:
    job, launch = running()
    server = Server.objects.get().pk
    known = KnownOrders(frozenset({launch}))
    assert not have_changed(orders_of(server), known)
    suspend_job(job.pk)
    assert have_changed(orders_of(server), known)
    assert not have_changed(orders_of(server), known._replace(suspended=frozenset({launch})))


def test_the_api_accepts_a_request_and_refuses_others_with_the_reason(
    operator: Client,
) -> None:
    job, launch = running()
    url = f"/api/v1/jobs/{job.pk}/"
    found = operator.post(f"{url}suspend/", content_type=JSON)
    assert (found.status_code, found.json()["status"]["suspension"]) == (202, "requested")
    report(launch, 7000.0, is_suspended=True)
    assert operator.post(f"{url}suspend/", content_type=JSON).status_code == 200
    found = operator.post(f"{url}resume/", content_type=JSON)
    assert (found.status_code, found.json()["status"]["suspension"]) == (202, "resuming")
    report(launch, 7010.0, is_suspended=False)
    found = operator.post(f"{url}resume/", content_type=JSON)
    assert (found.status_code, found.json()["status"]["suspension"]) == (200, None)
    stale = operator.post(f"{url}suspend/", content_type=JSON, headers={"If-Match": '"g0"'})
    assert stale.status_code == 412
    waits = factories.job(state="queued")
    refused = operator.post(f"/api/v1/jobs/{waits.pk}/suspend/", content_type=JSON)
    assert refused.status_code == 409
    assert "a queued job cannot be suspended" in refused.json()["detail"]


def test_the_pages_show_a_suspension_and_offer_what_can_be_done(operator: Client) -> None:
    job, launch = running()
    page = reverse("job", args=[job.pk])
    text = operator.get(page).content.decode()
    assert 'data-job-action="suspend"' in text
    suspend_job(job.pk)
    text = operator.get(page).content.decode()
    assert 'data-s="suspending"' in text
    assert 'data-job-action="resume"' in text
    report(launch, 7000.0, is_suspended=True)
    text = operator.get(page).content.decode()
    assert 'data-s="suspended"' in text
    assert "its units stay allocated" in text
    rows = operator.get(reverse("jobs")).content.decode()
    assert 'data-s="suspended"' in rows
    assert "suspended 3 min" in rows


def test_the_page_offers_no_suspension_where_the_backend_has_none(operator: Client) -> None:
    job, _ = running("emulated")
    text = operator.get(reverse("job", args=[job.pk])).content.decode()
    assert "data-job-action" in text
    assert 'data-job-action="suspend"' not in text
