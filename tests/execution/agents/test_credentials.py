"""The credential of an agent is good for its own server's orders, and for nothing else."""

import base64
import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import Settings
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.models import AuditEntry
from apps.accounts.services import create_token
from apps.common.core.errors import ConflictError, CredentialError, NotFoundError
from apps.execution.models import EnrolmentToken, JobSample, Launch, OutputChunk, ServerAgent
from apps.execution.services import agent_credentials as credentials
from apps.execution.services.agents import checked_orders, fenced
from apps.inventory.models import Cluster, Server
from apps.workloads.models import Job
from apps.workloads.services import cancel_jobs
from apps.workloads.services.retention import delete_ended_jobs
from tests import factories
from tests.permissions.routes import METHODS, all_routes

pytestmark = pytest.mark.django_db

SHAPE: dict[str, Any] = {
    "cores": 2, "sockets": 1, "memory_bytes": 2**30, "network_bps": 10**9, "storage_bytes": 10**9,
}  # fmt: skip
# anybody may use them, with or without a credential
OPEN = {
    "healthz", "readyz", "api/docs/", "api/v1/stream", "api/v1/version", "api/v1/errors",
    "api/v1/schema", "api/v1/agents/enrol", "login/",
}  # fmt: skip
OWN = {f"api/v1/agents/{name}" for name in ("register", "sync", "output", "files", "credential")}


def enrolled(name: str = "box-1") -> str:
    permit = credentials.create_enrolment(server_name=name, user=factories.user())
    return credentials.enrol(permit.secret).secret


def client(secret: str) -> APIClient:
    caller = APIClient()
    caller.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return caller


def registered(name: str = "box-1") -> APIClient:
    caller = client(enrolled(name))
    assert caller.post("/api/v1/agents/register/", SHAPE).status_code == 200
    return caller


def launched(on: Server, **values: Any) -> Launch:
    """A launch of a command on a server."""
    job = factories.job(
        state="starting", attempts=1,
        program={"command": ["true"], "environment": {}, "working_directory": None}, **values,
    )  # fmt: skip
    factories.allocation(job, on, cores=1, by=factories.decision(job), acquired_seq=0)
    return Launch.objects.create(
        job=job, attempt=1, backend="agent", order={"parts": [[on.pk, 1]]}
    )


def sync(caller: APIClient, **body: Any) -> Any:
    return caller.post("/api/v1/agents/sync/", {"epoch": 1, **body})


def write(caller: APIClient, launch: Launch, data: bytes, *, start: int = 0) -> Any:
    """Send a chunk of output."""
    chunk = {
        "epoch": 1, "launch": launch.pk, "stream": "stdout", "start": start,
        "chunk": base64.b64encode(data).decode(),
    }  # fmt: skip
    return caller.post("/api/v1/agents/output/", chunk)


ROUTES = sorted(all_routes().keys() - OPEN - OWN)


@pytest.mark.parametrize("pattern", ROUTES)
def test_no_other_route_accepts_the_credential_of_an_agent(pattern: str) -> None:
    address = re.sub(r"<uuid:\w+>", "00000000-0000-7000-8000-000000000000", pattern)
    address = re.sub(r"<int:\w+>", "1", re.sub(r"<\w+:\w+>", "box-1", address))
    is_api = address.startswith("api/")
    caller = client(enrolled())
    for method in METHODS:
        path = f"/{address.rstrip('/')}/" if is_api else f"/{address}"
        status = caller.generic(method, path, "{}", "application/json").status_code
        assert status in ({401, 404, 405} if is_api else {302, 401, 403, 404, 405}), method


@pytest.mark.parametrize("name", ["register", "sync", "output", "files", "credential"])
def test_no_token_of_a_user_is_accepted_as_an_agent(name: str) -> None:
    admin = factories.user(role=Role.ADMIN)
    secret = create_token(user=admin, name="t").secret
    assert client(secret).post(f"/api/v1/agents/{name}/", {}).status_code == 401


def test_an_admin_permits_a_machine_and_the_machine_enrols() -> None:
    admin = client(create_token(user=factories.user(role=Role.ADMIN), name="t").secret)
    permit = admin.post("/api/v1/agents/enrolment-tokens/", {"server": "box-1"})
    assert permit.status_code == 201
    found = APIClient().post("/api/v1/agents/enrol/", {"token": permit.json()["secret"]})
    assert found.status_code == 201
    assert found.json()["server"] == "box-1"
    machine = client(found.json()["credential"])
    assert machine.post("/api/v1/agents/register/", SHAPE).json()["epoch"] == 1
    (row,) = admin.get("/api/v1/agents/").json()["results"]
    assert (row["server"], row["revoked_at"]) == ("box-1", None)
    assert admin.delete("/api/v1/agents/box-1/").status_code == 204
    assert machine.post("/api/v1/agents/register/", SHAPE).status_code == 401


def test_an_enrolment_token_is_good_once_and_not_for_long() -> None:
    permit = credentials.create_enrolment(server_name="box-1", user=factories.user())
    credentials.enrol(permit.secret)
    with pytest.raises(NotFoundError):
        credentials.enrol(permit.secret)
    late = credentials.create_enrolment(server_name="box-2", user=factories.user())
    EnrolmentToken.objects.filter(pk=late.token.pk).update(
        expires_at=timezone.now() - timedelta(seconds=1)
    )
    with pytest.raises(NotFoundError):
        credentials.enrol(late.secret)


def test_secrets_are_stored_as_digests_and_acts_are_audited() -> None:
    permit = credentials.create_enrolment(server_name="box-1", user=factories.user())
    secret = credentials.enrol(permit.secret).secret
    stored = bytes(ServerAgent.objects.get().digest) + bytes(EnrolmentToken.objects.get().digest)
    assert secret.encode() not in stored
    assert permit.secret.encode() not in stored
    actions = set(AuditEntry.objects.values_list("action", flat=True))
    assert {"agent.permitted", "agent.enrolled"} <= actions


def test_no_agent_is_enrolled_for_an_emulated_server() -> None:
    factories.server("srv-1")
    with pytest.raises(ConflictError):
        credentials.create_enrolment(server_name="srv-1", user=factories.user())


def test_a_rotated_credential_replaces_the_old_one_at_its_first_use() -> None:
    old = enrolled()
    new = client(old).post("/api/v1/agents/credential/").json()["credential"]
    assert credentials.agent_of(old) is not None
    assert credentials.agent_of(new) is not None
    assert credentials.agent_of(old) is None
    assert client(old).post("/api/v1/agents/credential/").status_code == 401


def test_a_revoked_credential_is_refused() -> None:
    caller = registered()
    credentials.revoke("box-1")
    assert sync(caller).status_code == 401
    with pytest.raises(NotFoundError):
        credentials.revoke("box-1")


def test_a_revocation_ends_the_enrolment_tokens_of_the_server() -> None:
    user = factories.user()
    first, spare, other = (
        credentials.create_enrolment(server_name=name, user=user)
        for name in ("box-1", "box-1", "box-2")
    )
    credentials.enrol(first.secret)
    credentials.revoke("box-1")
    with pytest.raises(NotFoundError):
        credentials.enrol(spare.secret)
    assert credentials.enrol(other.secret).agent.name == "box-2"
    again = credentials.create_enrolment(server_name="box-1", user=user)
    assert credentials.enrol(again.secret).agent.revoked_at is None


def test_a_request_that_a_revocation_overtakes_is_refused_as_one_without_a_credential() -> None:
    caller = registered()
    before = ServerAgent.objects.get(name="box-1")  # authenticated before the revocation
    credentials.revoke("box-1")
    with pytest.raises(CredentialError, match="revoked"):
        checked_orders(before.pk, before.epoch)
    with pytest.raises(CredentialError, match="revoked"), fenced(before, before.epoch):
        pass
    assert sync(caller).status_code == 401


def test_an_agent_sees_and_ends_only_the_launches_of_its_own_server() -> None:
    factories.cluster()
    mine, other = registered("box-1"), registered("box-2")
    launch = launched(Server.objects.get(name="box-2"))
    ended = {"launch": launch.pk, "state": "finished", "age_s": 0.0, "exit_code": 0}
    assert sync(mine, reports=[ended]).json()["orders"] == []
    launch.refresh_from_db()
    assert launch.state == "requested"
    (order,) = sync(other).json()["orders"]
    assert (order["launch"], order["cores"], order["command"]) == (launch.pk, [0], ["true"])
    assert sync(other, reports=[ended]).json()["orders"] == []
    assert Job.objects.get(pk=launch.job_id).state == "succeeded"


@pytest.mark.parametrize(("ran", "run_time_s"), [({"ran_s": 40.0}, 40.0), ({}, 0.0)])
def test_the_end_of_a_launch_says_how_long_it_ran(
    ran: dict[str, float], run_time_s: float
) -> None:
    """Its start was not reported: the control plane was away. Older agents do not say it."""
    factories.cluster(seen_cluster_s=3000.0)
    caller = registered()
    launch = launched(Server.objects.get(name="box-1"), submitted_s=2800.0)
    ended = {"launch": launch.pk, "state": "finished", "age_s": 10.0, "exit_code": 0, **ran}
    Cluster.objects.update(speed=1.0)
    assert sync(caller, reports=[ended]).status_code == 200
    launch.refresh_from_db()
    job = launch.job
    assert (job.finished_s or 0.0) - (job.started_s or 0.0) == pytest.approx(run_time_s)
    assert (launch.ended_s or 0.0) - (launch.started_s or 0.0) == pytest.approx(run_time_s)


def test_a_launch_does_not_start_before_its_job_was_submitted() -> None:
    factories.cluster(seen_cluster_s=3000.0)
    caller = registered()
    launch = launched(Server.objects.get(name="box-1"), submitted_s=2900.0)
    ended = {"launch": launch.pk, "state": "finished", "age_s": 0.0, "exit_code": 0, "ran_s": 1e6}
    Cluster.objects.update(speed=1.0)
    assert sync(caller, reports=[ended]).status_code == 200
    launch.refresh_from_db()
    assert launch.started_s == 2900.0


def test_the_end_of_a_launch_does_not_change_a_start_that_was_reported() -> None:
    factories.cluster(seen_cluster_s=3000.0)
    caller = registered()
    launch = launched(Server.objects.get(name="box-1"))
    started = {"launch": launch.pk, "state": "started", "age_s": 0.0}
    ended = {"launch": launch.pk, "state": "finished", "age_s": 0.0, "exit_code": 0, "ran_s": 9.0}
    Cluster.objects.update(speed=1.0)
    sync(caller, reports=[started])
    launch.refresh_from_db()
    before_s = launch.started_s
    sync(caller, reports=[ended])
    launch.refresh_from_db()
    assert (launch.state, launch.started_s) == ("ended", before_s)


def test_an_agent_writes_output_of_its_own_launches_only() -> None:
    factories.cluster()
    mine, other = registered("box-1"), registered("box-2")
    launch = launched(Server.objects.get(name="box-2"))
    assert write(mine, launch, b"forged").status_code == 204
    assert not OutputChunk.objects.exists()
    for _ in range(2):  # the answer to the first one may have been lost
        assert write(other, launch, b"forged").status_code == 204
    assert bytes(OutputChunk.objects.get().data) == b"forged"


def test_the_agent_of_the_server_that_a_job_will_move_to_reports_nothing_of_its_launch() -> None:
    factories.cluster()
    registered("box-1")
    target = registered("box-2")
    launch = launched(Server.objects.get(name="box-1"))
    Launch.objects.filter(pk=launch.pk).update(state="running")
    Job.objects.filter(pk=launch.job_id).update(state="running")
    held = launch.job.allocations.get()
    factories.allocation(launch.job, Server.objects.get(name="box-2"), moved_from=held.pk)
    ended = {"launch": launch.pk, "state": "finished", "age_s": 0.0, "exit_code": 0}
    sample = {"launch": launch.pk, "cpu_share": 1.0}
    assert sync(target, reports=[ended], samples=[sample]).json()["orders"] == []
    launch.refresh_from_db()
    assert launch.state == "running"
    assert not JobSample.objects.exists()


def test_the_agent_that_a_job_has_left_writes_no_output_of_its_next_launch() -> None:
    factories.cluster()
    old, new = registered("box-1"), registered("box-2")
    first, server = launched(Server.objects.get(name="box-1")), Server.objects.get(name="box-2")
    Launch.objects.filter(pk=first.pk).update(state="ended", outcome="moved")
    first.job.allocations.update(released_seq=1, released_at=timezone.now(), released_s=1.0)
    factories.allocation(first.job, server)
    second = Launch.objects.create(
        job=first.job, attempt=2, backend="agent", order={"parts": [[server.pk, 1]]}
    )
    for caller, launch, text in (
        (old, second, b"forged"), (new, second, b"real"), (old, first, b"late"),
    ):  # fmt: skip
        assert write(caller, launch, text).status_code == 204
    found = OutputChunk.objects.order_by("launch_id").values_list("launch_id", "data")
    assert [(launch, bytes(data)) for launch, data in found] == [
        (first.pk, b"late"), (second.pk, b"real"),
    ]  # fmt: skip


def test_output_that_comes_again_is_not_stored_again_and_what_is_new_of_it_is() -> None:
    factories.cluster()
    caller = registered()
    launch = launched(Server.objects.get(name="box-1"))
    for start, data in ((0, b"abc"), (0, b"XYcdef"), (2, b"XX"), (8, b"ij"), (5, b"Xgh")):
        assert write(caller, launch, data, start=start).status_code == 204
    # the answer to "abc" was lost, and "gh" comes too late
    assert stored(launch) == [(0, b"abcdef"), (8, b"ij")]


def test_many_small_chunks_are_few_rows() -> None:
    factories.cluster()
    caller = registered()
    launch = launched(Server.objects.get(name="box-1"))
    for n in range(12):
        write(caller, launch, b"%d" % (n % 10) * 1000, start=1000 * n)
    chunks = stored(launch)
    assert [start for start, _ in chunks] == [0, 4000, 8000]
    assert b"".join(data for _, data in chunks) == b"".join(b"%d" % (n % 10) * 1000
                                                            for n in range(12))  # fmt: skip


@pytest.mark.usefixtures("one_rate_window")
def test_output_has_a_rate_of_its_own(settings: Settings) -> None:
    factories.cluster()
    caller = registered()
    launch = launched(Server.objects.get(name="box-1"))
    settings.BERTH_RATES = {"output": 1}
    statuses = [write(caller, launch, b"x", start=n).status_code for n in range(2)]
    assert statuses == [204, 429]
    assert sync(caller).status_code == 200


def stored(launch: Launch) -> list[tuple[int, bytes]]:
    """Return the chunks of the standard output of a launch."""
    chunks = OutputChunk.objects.filter(launch=launch, stream="stdout").order_by("start")
    return [(chunk.start, bytes(chunk.data)) for chunk in chunks]


def test_the_output_of_a_job_is_deleted_with_it() -> None:
    factories.cluster()
    caller = registered()
    launch = launched(Server.objects.get(name="box-1"))
    OutputChunk.objects.create(job=launch.job, launch=launch, stream="stdout", start=0, data=b"x")
    ended = {"launch": launch.pk, "state": "finished", "age_s": 0.0, "exit_code": 0}
    assert sync(caller, reports=[ended]).status_code == 200
    assert delete_ended_jobs(timezone.now() + timedelta(seconds=1)) == 1
    connection.check_constraints()
    assert not OutputChunk.objects.exists()


def test_an_agent_of_an_older_registration_is_fenced() -> None:
    factories.cluster()
    caller = registered()
    launch = launched(Server.objects.get(name="box-1"))
    assert caller.post("/api/v1/agents/register/", SHAPE).json()["epoch"] == 2
    report = {"launch": launch.pk, "state": "failed", "age_s": 0.0}
    assert sync(caller, reports=[report]).status_code == 409
    launch.refresh_from_db()
    assert launch.state == "requested"


@pytest.mark.parametrize(
    ("is_cancelled", "state", "reason"),
    [(False, "queued", "BackendLost"), (True, "cancelled", "Cancelled")],
)
def test_a_task_that_its_machine_stopped_is_queued_again(
    is_cancelled: bool, state: str, reason: str
) -> None:
    """As by an orderly shutdown, which sends SIGTERM to every process."""
    factories.cluster()
    caller = registered()
    launch = launched(Server.objects.get(name="box-1"))
    if is_cancelled:
        cancel_jobs([launch.job_id])
    stopped = {"launch": launch.pk, "state": "cancelled", "age_s": 0.0, "message": "SIGTERM"}
    assert sync(caller, reports=[stopped]).status_code == 200
    launch.job.refresh_from_db()
    assert (launch.job.state, launch.job.reason_code) == (state, reason)


def test_a_lost_launch_is_queued_again_and_its_end_comes_too_late() -> None:
    factories.cluster()
    caller = registered()
    launch = launched(Server.objects.get(name="box-1"))
    lost = {"launch": launch.pk, "state": "lost", "age_s": 0.0, "message": "gone"}
    assert sync(caller, reports=[lost]).json()["orders"] == []
    sync(caller, reports=[{**lost, "state": "finished"}])
    job = Job.objects.get(pk=launch.job_id)
    assert (job.state, job.reason_message) == ("queued", "gone")


@pytest.mark.parametrize(
    "report",
    [
        {}, {"launch": 0, "state": "started", "age_s": 0.0},
        {"launch": True, "state": "started", "age_s": 0.0},
        {"launch": 1, "state": "done", "age_s": 0.0},
        {"launch": 1, "state": "started", "age_s": -1.0},
        {"launch": 1, "state": "started", "age_s": None},
        {"launch": 1, "state": "failed", "age_s": 0.0, "exit_code": 2**20},
        {"launch": 1, "state": "failed", "age_s": 0.0, "message": 7},
        {"launch": 1, "state": "failed", "age_s": 0.0, "ran_s": -1.0},
        {"launch": 1, "state": "failed", "age_s": 0.0, "ran_s": "9"},
    ],
)  # fmt: skip
def test_a_wrong_report_is_named(report: dict[str, Any]) -> None:
    response = sync(registered(), reports=[report])
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/reports/0"


def test_a_heartbeat_writes_nothing_to_the_database() -> None:
    caller = registered()
    with connection.execute_wrapper(_no_writes):
        assert sync(caller, usage={"cpu_share": 0.5, "memory_share": 0.25}).status_code == 200


def _no_writes(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
    # the request for launches inserts rows only if there are any
    assert not sql.lstrip().startswith(("UPDATE", "DELETE")), sql
    return execute(sql, params, many, context)


def test_the_l3_groups_of_a_machine_are_registered_and_change_with_it() -> None:
    machine = client(enrolled())
    shape = {**SHAPE, "cores": 4, "l3_groups": [0, 1, 0, 1]}
    assert machine.post("/api/v1/agents/register/", shape).status_code == 200
    assert Server.objects.get(name="box-1").l3_groups == [0, 1, 0, 1]
    assert machine.post("/api/v1/agents/register/", {**SHAPE, "cores": 4}).status_code == 200
    assert Server.objects.get(name="box-1").l3_groups == []


@pytest.mark.parametrize("groups", [[0], [0, 2], [1, 1], [0, 1, 2]])
def test_l3_groups_that_are_not_one_number_for_each_core_are_refused(groups: list[int]) -> None:
    machine = client(enrolled())
    response = machine.post("/api/v1/agents/register/", {**SHAPE, "l3_groups": groups})
    assert response.status_code == 422
    assert "one number for each core" in response.content.decode()
