"""Profiles of commands whose agent is missing, lost or refuses: the jobs run without them."""

from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest
from pytest_django import Settings

from apps.accounts.core.roles import Role
from apps.accounts.models import Project
from apps.common.core.errors import ConflictError
from apps.execution.models import Launch, LaunchState, ServerAgent
from apps.execution.services.agents import orders_of
from apps.execution.services.launches import release_jobs
from apps.execution.services.probes import APPLICATION, advance_probes
from apps.inventory.core.backends import AGENT
from apps.inventory.models import ChangeKind, Server, ServerState
from apps.inventory.selectors import cluster_time
from apps.inventory.services import NewChange, append_changes, set_server_state
from apps.operations.core.states import OperationStatus
from apps.operations.services import cancel_operation
from apps.profiling.models import ProfilingRun, RunState
from apps.profiling.services import claim_runs, end_cancelled_runs, request_run
from apps.scheduling.services.agent import make_agent
from apps.workloads.core.spec import parse_job
from apps.workloads.models import Job
from apps.workloads.selectors import spec_of, submission_of
from apps.workloads.services import cancel_jobs, resubmit, submit_jobs
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def server(db: None) -> Server:
    """One machine of two cores, whose agent can profile."""
    factories.cluster(seen_cluster_s=3000.0)
    return add_server("box-1", 2)


def submit(**values: Any) -> Job:
    """Submit a command, and let agents of the scheduler decide on it."""
    return submit_as(Role.OPERATOR, "default", **values)


def submit_as(role: Role, project: str, **values: Any) -> Job:
    (job,) = submit_jobs(
        [parse_job({"command": ["xz", "-k", "in"], **values})],
        project=Project.objects.get_or_create(name=project)[0],
        user=factories.user(role=role),
        correlation_id="request-1",
    )
    schedule()
    return fresh(job)


def schedule() -> None:
    make_agent("scheduler-1").work(for_s=1.0)


def fresh(job: Job) -> Job:
    return Job.objects.get(pk=job.pk)


def the_run() -> ProfilingRun:
    return ProfilingRun.objects.select_related("operation").get()


def probe_of(run: ProfilingRun) -> Job:
    return Job.objects.get(pk=run.pk)


def test_a_job_that_permits_no_copies_is_placed_at_once() -> None:
    assert submit().state == "starting"
    assert not ProfilingRun.objects.exists()


def test_a_profile_by_copies_of_a_submitter_counts_only_in_the_project() -> None:
    names = {"xz": "a:xz", "a:xz": "a:xz", "b:xz": "a:b:xz", "x" * 127: "a:" + "x" * 125}
    for given, name in names.items():
        job = submit_as(Role.SUBMITTER, "a", copyable=True, application=given)
        assert (job.application.name, job.state) == (name, "profiling")
    # the jobs of others, and those of an operator, keep the name that they give
    assert submit_as(Role.SUBMITTER, "b").application.name == "xz"
    assert submit_as(Role.SUBMITTER, "b", copyable=True).application.name == "b:xz"
    assert submit_as(Role.OPERATOR, "b", copyable=True).application.name == "xz"


def test_a_job_that_measures_is_submitted_again_as_the_command_itself() -> None:
    submit(copyable=True)
    advance_probes()
    again = parse_job(submission_of(probe_of(the_run())))
    assert (again.command, again.probe) == (("xz", "-k", "in"), None)


def test_a_job_that_measures_is_run_again_as_the_command_itself() -> None:
    submit(copyable=True)
    advance_probes()
    probe = probe_of(the_run())
    again = resubmit(probe, spec_of(probe), user=factories.user(), correlation_id="r")
    assert again.program == {
        "command": ["xz", "-k", "in"],
        "environment": {},
        "working_directory": None,
    }


def test_jobs_of_one_application_wait_for_one_copy() -> None:
    jobs = [submit(copyable=True, priority=7), submit(copyable=True)]
    assert [job.state for job in jobs] == ["profiling", "profiling"]
    advance_probes()
    run = the_run()
    assert (run.state, run.attempts) == (RunState.RUNNING, 1)
    probe = probe_of(run)
    assert (probe.application.name, probe.units_requested, probe.priority) == (APPLICATION, 2, 7)
    assert probe.program is not None
    assert probe.program["command"] == ["xz", "-k", "in"]
    schedule()
    assert len(fresh(probe).allocations.get().unit_ids) == 2


def test_the_emulator_claims_no_profile_of_a_command() -> None:
    submit(copyable=True)
    assert claim_runs("emulator", limit=10, lease_s=60.0, at_s=0.0) == []


def test_an_order_says_how_a_copy_is_measured(server: Server) -> None:
    submit(copyable=True)
    advance_probes()
    schedule()
    (order,) = orders_of(server.pk)
    assert order.probe == {"stressors": the_run().plan["stressors"], "window_s": 0.4}
    assert not order.stop


def test_an_agent_that_cannot_profile_starts_no_copy(server: Server) -> None:
    submit(copyable=True)
    advance_probes()
    schedule()
    ServerAgent.objects.update(facts={})
    (order,) = orders_of(server.pk)
    assert order.stop
    assert order.probe is None


def test_without_an_able_agent_the_job_runs_without_a_profile() -> None:
    ServerAgent.objects.update(facts={"probe": False})
    job = submit(copyable=True)
    advance_probes()
    run = the_run()
    assert run.state == RunState.FAILED
    assert run.message == "no agent can profile: it needs 2 cores and numpy"
    assert run.operation is not None
    assert run.operation.status == OperationStatus.FAILED
    schedule()
    assert fresh(job).state == "starting"
    # it is not tried again for each job
    assert submit(copyable=True, command=["xz", "other"]).state != "profiling"


def add_server(name: str, cores: int) -> Server:
    """Add a machine whose agent can profile."""
    server = factories.server(name, of=factories.platform(name, cores=cores), backend=AGENT)
    digest = sha256(name.encode()).digest()
    ServerAgent.objects.create(name=name, server=server, digest=digest, facts={"probe": True})
    now = cluster_time()
    append_changes([NewChange(ChangeKind.TOPOLOGY, server.id)], at=now.at, cluster_s=now.cluster_s)
    return server


def free(job: Job) -> None:
    cancel_jobs([job.pk])
    release_jobs([job.pk])


def test_a_profile_waits_until_nothing_else_runs_on_its_server() -> None:
    larger = add_server("box-4", 4)
    small = submit(command=["sleep"], constraints={"platforms": ["box-1"]})
    neighbour = submit(command=["sleep"], constraints={"platforms": ["box-4"]})
    assert (small.state, neighbour.state) == ("starting", "starting")
    submit(copyable=True)
    advance_probes()
    schedule()
    # one of two cores is free on one server, three of four on the other
    probe = probe_of(the_run())
    assert (probe.state, probe.units_requested) == ("queued", 2)
    free(small)
    schedule()
    assert len(fresh(probe).allocations.get().unit_ids) == 2
    # nothing else starts next to it
    free(neighbour)
    assert submit(command=["sleep"], units=4).allocations.get().server_id == larger.pk
    assert submit(command=["sleep"]).state == "queued"


def test_a_profile_takes_all_units_of_an_idle_server_of_another_size(server: Server) -> None:
    submit(command=["sleep"])
    larger = add_server("box-4", 4)
    submit(copyable=True)
    advance_probes()
    schedule()
    held = probe_of(the_run()).allocations.get()
    assert (held.server_id, len(held.unit_ids)) == (larger.pk, 4)


def test_a_profile_takes_an_open_server_although_a_closed_one_is_smaller(server: Server) -> None:
    add_server("box-4", 4)
    set_server_state(server_id=server.pk, state=ServerState.CORDONED)
    submit(copyable=True)
    advance_probes()
    schedule()
    probe = probe_of(the_run())
    assert (probe.state, probe.units) == ("starting", 4)


def test_jobs_go_on_while_a_profile_waits_for_an_idle_server(settings: Settings) -> None:
    blocking = submit(command=["sleep"])
    job = submit(copyable=True)
    advance_probes()
    schedule()
    advance_probes()
    assert fresh(job).state == "profiling"
    Job.objects.filter(pk=the_run().pk).update(
        created_at=probe_of(the_run()).created_at - timedelta(seconds=settings.PROBE_WAIT_S + 1)
    )
    advance_probes()
    schedule()
    assert fresh(job).state == "starting"
    # the profile waits on, and no other job waits for it
    advance_probes()
    assert (the_run().state, the_run().is_awaited) == (RunState.RUNNING, False)
    later = submit(copyable=True)
    assert later.state == "queued"
    for each in (blocking, job, later):
        free(each)
    schedule()
    advance_probes()
    assert the_run().state == RunState.RUNNING
    assert len(probe_of(the_run()).allocations.get().unit_ids) == 2


def test_a_profile_that_is_lost_again_and_again_is_given_up(settings: Settings) -> None:
    job = submit(copyable=True)
    advance_probes()
    probe = probe_of(the_run())
    for attempt in range(1, settings.PROBE_ATTEMPTS + 2):
        advance_probes()
        assert the_run().state == RunState.RUNNING
        Launch.objects.create(
            job=probe, attempt=attempt, backend=AGENT, state=LaunchState.ENDED, order={}
        )
    advance_probes()
    assert the_run().state == RunState.FAILED
    assert the_run().message == "no agent finished it in 3 attempts"
    assert fresh(job).state == "queued"


def test_a_failed_copy_names_the_reason() -> None:
    job = submit(copyable=True)
    advance_probes()
    Job.objects.filter(pk=the_run().pk).update(
        state="failed", reason_message="exit code 1", finished_s=3001.0
    )
    advance_probes()
    assert (the_run().state, the_run().message) == (RunState.FAILED, "exit code 1")
    assert fresh(job).state == "queued"


def test_a_report_that_is_none_is_refused() -> None:
    job = submit(copyable=True)
    advance_probes()
    Job.objects.filter(pk=the_run().pk).update(state="succeeded", finished_s=3001.0)
    advance_probes()
    assert the_run().state == RunState.FAILED
    assert "the report is not valid" in the_run().message
    assert fresh(job).state == "queued"


def test_a_copy_that_nobody_waits_for_is_cancelled() -> None:
    job = submit(copyable=True)
    advance_probes()
    cancel_jobs([job.pk])
    advance_probes()
    assert the_run().state == RunState.CANCELLED
    assert probe_of(the_run()).state == "cancelled"


@pytest.mark.parametrize("is_started", [False, True])
def test_a_cancelled_profile_fails_no_job(*, is_started: bool) -> None:
    job = submit(copyable=True)
    if is_started:
        advance_probes()
    operation = the_run().operation
    assert operation is not None
    cancel_operation(operation.pk)
    end_cancelled_runs()
    advance_probes()
    assert the_run().state == RunState.CANCELLED
    assert fresh(job).state == "queued"


def cancel(run: ProfilingRun) -> None:
    """Cancel a run as a user does."""
    assert run.operation is not None
    cancel_operation(run.operation.pk)
    advance_probes()


def states() -> list[str]:
    return list(ProfilingRun.objects.order_by("created_at").values_list("state", flat=True))


@pytest.mark.parametrize("is_started", [False, True])
def test_jobs_are_placed_without_a_profile_that_a_user_cancelled(*, is_started: bool) -> None:
    job = submit(copyable=True)
    if is_started:
        advance_probes()
    cancel(the_run())
    schedule()
    assert fresh(job).state == "starting"
    assert submit(copyable=True).state == "starting"
    assert states() == ["cancelled"]
    assert the_run().message.startswith("cancelled by a user: the jobs are placed without")
    assert "3,600 s later requests another run" in the_run().message


@pytest.mark.parametrize("is_started", [False, True])
def test_a_job_requests_another_profile_a_while_after_a_user_cancelled_one(
    settings: Settings, *, is_started: bool
) -> None:
    settings.PROBE_PAUSE_S = 60.0
    submit(copyable=True)
    if is_started:
        advance_probes()
    cancel(the_run())
    until = the_run().paused_until
    assert until is not None
    ProfilingRun.objects.update(paused_until=until - timedelta(seconds=61.0))
    assert submit(copyable=True).state == "profiling"
    assert states() == ["cancelled", "queued"]


@pytest.mark.parametrize("is_started", [False, True])
def test_a_job_requests_another_profile_if_no_job_waited_for_the_last(*, is_started: bool) -> None:
    job = submit(copyable=True)
    if is_started:
        advance_probes()
    cancel_jobs([job.pk])
    advance_probes()
    assert (the_run().state, the_run().message) == ("cancelled", "no job waits for it")
    assert submit(copyable=True).state == "profiling"
    assert states() == ["cancelled", "queued"]


def test_a_job_requests_no_other_profile_after_a_failed_one() -> None:
    submit(copyable=True)
    advance_probes()
    Job.objects.filter(pk=the_run().pk).update(state="failed", finished_s=3001.0)
    advance_probes()
    assert submit(copyable=True).state != "profiling"
    assert states() == ["failed"]


def test_a_command_is_not_profiled_as_an_emulated_application() -> None:
    job = submit()
    with pytest.raises(ConflictError, match="xz runs commands"):
        request_run(job.application_id)
