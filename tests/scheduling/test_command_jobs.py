"""Jobs with a command: accepted if a backend runs commands, and placed on its servers only."""

from dataclasses import replace
from typing import Any

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks

from apps.common.core.errors import ConflictError, InvalidInputError
from apps.common.infrastructure import notifications
from apps.execution.models import Launch
from apps.execution.services.launches import request_launches
from apps.inventory.core.backends import AGENT, EMULATED, MACHINES, SLURM, Capability
from apps.inventory.models import ChangeKind, Server
from apps.inventory.selectors import cluster_time, topology
from apps.inventory.services import NewChange, append_changes, import_cluster
from apps.profiling.models import ProfilingRun
from apps.scheduling.models import Allocation, Decision
from apps.scheduling.services.agent import make_agent
from apps.scheduling.services.dry_run import check_job
from apps.workloads.core.reasons import Reason
from apps.workloads.core.spec import parse_job
from apps.workloads.models import Application, Job
from apps.workloads.selectors import spec_of, submission_of
from apps.workloads.services import cancel_jobs, submit_jobs, update_job
from tests import factories
from tests.scheduling.world import cluster_of, state_and_reason, work

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def cluster(db: None) -> None:
    """Four emulated servers, and a library that covers their platform."""
    factories.cluster(seen_cluster_s=3000.0)
    import_cluster(cluster_of(*"abcd"))
    factories.library(("J",))


def machine(name: str = "box-1", **values: Any) -> Server:
    box = factories.platform("box", cores=2)
    server = factories.server(name, of=box, backend=AGENT, **values)
    now = cluster_time()
    append_changes([NewChange(ChangeKind.TOPOLOGY, server.id)], at=now.at, cluster_s=now.cluster_s)
    return server


def submit(*specs: dict[str, Any]) -> list[Job]:
    return submit_jobs(
        [parse_job(spec) for spec in specs],
        project=factories.project(),
        user=factories.user(),
        correlation_id="request-1",
    )


def test_a_command_is_stored_and_submitted_again_as_it_was() -> None:
    machine()
    (job,) = submit({"command": ["env"], "environment": {"A": "1"}, "working_directory": "/srv"})
    job.refresh_from_db()
    assert job.program == {
        "command": ["env"],
        "environment": {"A": "1"},
        "working_directory": "/srv",
    }
    assert Application.objects.get(name="env").runs_commands
    assert parse_job(submission_of(job)) == parse_job(
        {
            "command": ["env"], "environment": {"A": "1"}, "working_directory": "/srv",
            "name": job.name, "project": "default",
        }
    )  # fmt: skip
    assert spec_of(job).command == ("env",)


def test_a_command_is_refused_if_every_server_is_emulated() -> None:
    with pytest.raises(InvalidInputError) as raised:
        submit({"command": ["env"]})
    assert [(p.pointer, p.code) for p in raised.value.problems] == [
        ("/spec/command", "no_backend")
    ]
    assert not Job.objects.exists()


@pytest.mark.parametrize("is_command_first", [True, False])
def test_an_application_runs_commands_always_or_never(is_command_first: bool) -> None:
    machine()
    both: list[dict[str, Any]] = [
        {"command": ["env"], "application": "mine"},
        {"application": "mine", "target": {"kind": "best_effort"}},
    ]
    first, second = both if is_command_first else reversed(both)
    submit(first)
    with pytest.raises(ConflictError, match="The application mine"):
        submit(second)


def test_a_command_starts_on_a_server_that_runs_commands_without_a_profile() -> None:
    box = machine()
    (job,) = submit({"command": ["env"], "units": 2})
    work(make_agent("agent-1"))
    assert state_and_reason(job) == ("starting", Reason.PLACED_AT_RANDOM)
    allocation = Allocation.objects.get(job=job)
    assert (allocation.server_id, allocation.cores) == (box.id, 2)
    assert Decision.objects.get(job=job).profile_id is None
    assert not ProfilingRun.objects.exists()


def test_a_command_waits_while_the_servers_that_run_commands_are_full() -> None:
    box = machine()
    jobs = submit(*({"command": ["env"]} for _ in range(3)))
    work(make_agent("agent-1"))
    states = [state_and_reason(job) for job in jobs]
    # of jobs submitted at the same moment, any may be first
    assert sorted(state for state, _ in states) == ["queued", "starting", "starting"]
    assert Allocation.objects.exclude(server_id=box.id).count() == 0


def test_a_platform_whose_servers_are_emulated_is_no_place_for_a_command() -> None:
    machine()
    (job,) = submit({"command": ["env"], "constraints": {"platforms": ["J"]}})
    work(make_agent("agent-1"))
    assert state_and_reason(job)[0] == "queued"
    assert not Allocation.objects.exists()


def test_an_emulated_job_never_takes_a_unit_of_a_machine() -> None:
    box = machine()
    Server.objects.filter(backend=EMULATED).update(state="down")
    submit({"application": "a", "target": {"kind": "best_effort"}, "duration_seconds": 5})
    submit(
        {
            "application": "b", "target": {"kind": "best_effort"}, "duration_seconds": 5,
            "units": 1, "constraints": {"platforms": ["box"]},
        }
    )  # fmt: skip
    work(make_agent("agent-1"))
    assert not Allocation.objects.filter(server_id=box.id).exists()


def test_a_job_without_a_command_fails_by_name_if_all_servers_run_commands() -> None:
    Server.objects.all().delete()
    machine()
    (job,) = submit({"application": "a", "target": {"kind": "best_effort"}})
    work(make_agent("agent-1"))
    job.refresh_from_db()
    assert (job.state, job.reason_code) == ("failed", Reason.INVALID)
    assert "submit the job with a command" in job.reason_message


def test_each_backend_launches_the_jobs_on_its_own_servers() -> None:
    box = machine()
    (command,) = submit({"command": ["env"]})
    submit({"application": "a", "target": {"kind": "best_effort"}, "duration_seconds": 5})
    work(make_agent("agent-1"))
    assert (request_launches(AGENT, limit=10), request_launches(EMULATED, limit=10)) == (1, 1)
    launch = Launch.objects.get(backend=AGENT)
    assert (launch.job_id, launch.order["parts"]) == (command.id, [[box.id, 1]])


def test_a_placed_command_wakes_the_agent_of_its_server_and_a_cancelled_one_wakes_all(
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    box = machine()
    woken: list[tuple[str, str]] = []
    monkeypatch.setattr(notifications, "_publish", lambda *wake: woken.append(wake))
    (job,) = submit({"command": ["env"]})
    with django_capture_on_commit_callbacks(execute=True):
        work(make_agent("agent-1"))
    assert woken == [(MACHINES, str(box.id))]
    with django_capture_on_commit_callbacks(execute=True):
        assert cancel_jobs([job.id]) == 1
    assert woken[1:] == [(MACHINES, "")]


def test_the_emulator_sees_only_its_own_servers_and_platforms() -> None:
    machine()
    emulated, whole = topology(backend=EMULATED), topology()
    assert (emulated.platform_name, whole.platform_name) == (("J",), ("J", "box"))
    assert (len(emulated.server_name), len(whole.server_name)) == (4, 5)
    assert emulated.unit_id.size + 2 == whole.unit_id.size
    assert whole.platforms_with(Capability.COMMANDS) == ("box",)
    assert whole.platforms_with(Capability.PROBE) == ("J",)


def test_a_dry_run_places_a_command_without_a_prediction() -> None:
    spec = parse_job({"command": ["env"]})
    assert check_job(spec).outcome == "infeasible"
    machine()
    found = check_job(spec)
    assert (found.outcome, found.servers, found.feasibility) == ("placed", ["box-1"], None)
    assert (found.predicted, found.run) == (None, None)


def test_the_target_of_a_command_cannot_become_a_rate() -> None:
    machine()
    (job,) = submit({"command": ["env"]})
    rate = parse_job({"application": "a", "target": {"kind": "ips", "ips": 1e9}}).target
    with pytest.raises(InvalidInputError):
        update_job(job.id, {"target": rate})


def test_a_job_of_a_backend_runs_on_its_servers_only() -> None:
    machine()
    node = factories.server("n1", of=factories.platform("slurm-box", cores=2), backend=SLURM)
    now = cluster_time()
    append_changes([NewChange(ChangeKind.TOPOLOGY, node.id)], at=now.at, cluster_s=now.cluster_s)
    spec = replace(parse_job({"command": ["job.sh"]}), backend=SLURM)
    jobs = submit_jobs(
        [spec] * 3, project=factories.project(), user=factories.user(), correlation_id="r"
    )
    commands = submit(*({"command": ["env"]} for _ in range(3)))
    work(make_agent("agent-1"))
    backends = dict(Server.objects.values_list("id", "backend"))
    placed = {a.job_id: backends[a.server_id] for a in Allocation.objects.all()}
    assert {placed.get(job.pk) for job in jobs} == {SLURM, None}
    assert {placed.get(job.pk) for job in commands} == {AGENT, None}
    assert sorted(placed.values()) == [AGENT, AGENT, SLURM, SLURM]


def test_a_backend_may_submit_jobs_before_it_has_servers_and_they_wait() -> None:
    spec = replace(parse_job({"command": ["job.sh"]}), backend=SLURM)
    (job,) = submit_jobs(
        [spec], project=factories.project(), user=factories.user(), correlation_id="r"
    )
    work(make_agent("agent-1"))
    assert state_and_reason(job) == ("queued", Reason.NO_MATCHING_SERVER)
