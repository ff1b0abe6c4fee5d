"""A real Slurm of six nodes on this machine: `./dev test -m slurm`."""

import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from apps.accounts.models import User
from apps.execution.backends.real_time import ClockError, require_real_time
from apps.execution.backends.slurm.commands import Slurm
from apps.execution.backends.slurm.holder import AWAY_S, SlurmBackend
from apps.execution.core.slurm.edits import Change, Edit
from apps.execution.core.slurm.usage import Usage
from apps.execution.core.slurm.values import Phase, SlurmJob
from apps.execution.models import SlurmJob as SlurmRow
from apps.execution.services.backend_holders import BackendHeldError
from apps.execution.services.suspension import resume_job, suspend_job
from apps.inventory.models import Cluster, Platform, Server
from apps.workloads.models import Job
from apps.workloads.services import cancel_jobs
from tests.execution.slurm.cluster import NODES
from tests.execution.slurm.conftest import World

pytestmark = pytest.mark.slurm
NOTHING = Usage(0.0, 0)
# what docs/backends.md tells an operator to type while Berth is down
RELEASE_ALL = """squeue -h -t PD -O 'JobID:20,admin_comment:20' \\
  | awk '$2 == "berth" {print $1}' | xargs -r scontrol release"""


def test_nodes_become_servers_and_features_platforms(world: World) -> None:
    world.turn()
    servers = {row.name: row for row in Server.objects.select_related("platform")}
    assert sorted(servers) == sorted(NODES)
    assert {row.backend for row in servers.values()} == {"slurm"}
    assert (servers["n3"].cores, servers["n3"].memory_bytes) == (4, 8000 * 2**20)
    assert servers["n3"].platform.name == "slurm-avx2-xeon_x5650-4c-8g"
    assert servers["n3"].platform == servers["n4"].platform
    assert servers["n1"].labels == {
        "slurm-node": "n1", "slurm-partition-main": "yes", "slurm-partition-urgent": "yes",
        "slurm-feature-xeon_l5609": "yes", "slurm-feature-avx": "yes",
    }  # fmt: skip
    assert Platform.objects.count() == 4
    assert {row.reading.backend for row in servers.values()} == {"slurm"}


def test_the_hook_holds_a_batch_job_and_berth_places_and_releases_it(world: World) -> None:
    slurm_id = world.submit("sleep 300", "-n", "3", "--constraint=avx2", "--job-name=my job")
    held = world.jobs()[slurm_id]
    assert (held.state, held.is_held, held.nodes) == ("PENDING", True, ())
    job = world.until_state(slurm_id, "running")
    assert (job.created_by.username, job.units, job.backend) == ("root", 3, "slurm")
    assert job.name == f"my-job-{slurm_id}"
    runs = world.jobs()[slurm_id]
    assert (runs.state, runs.cpus, runs.nodes) == ("RUNNING", 3, (world.node_of(job),))
    assert runs.nodes[0] in ("n3", "n4")
    assert runs.restarts == 0
    assert User.objects.get(username="root").has_usable_password() is False
    assert Server.objects.get(name=runs.nodes[0]).used_cores == 3


@pytest.mark.parametrize(
    ("script", "state", "code", "message"),
    [
        ("exit 0", "succeeded", 0, ""),
        ("exit 3", "failed", 3, "exit code 3"),
        ("kill -9 $$", "failed", -9, "killed by signal 9"),
    ],
    ids=["success", "exit", "signal"],
)
def test_the_end_of_a_job_is_reported(
    world: World, script: str, state: str, code: int, message: str
) -> None:
    job = world.until_state(world.submit(script), "succeeded", "failed")
    assert (job.state, job.exit_code, job.reason_message) == (state, code, message)
    assert Server.objects.filter(used_cores__gt=0).count() == 0


def test_a_job_that_fits_on_no_node_is_left_to_slurm(world: World) -> None:
    slurm_id = world.submit("sleep 300", "-n", "20")
    world.until(lambda: world.jobs()[slurm_id].state == "RUNNING", "Slurm places it")
    assert len(world.jobs()[slurm_id].nodes) > 1
    assert not Job.objects.exists()


def test_a_job_gets_all_its_cores_on_the_node_that_berth_has_chosen(world: World) -> None:
    first = world.submit("sleep 300", "-n", "10")
    assert world.node_of(world.until_state(first, "running")) == "n5"
    second = world.submit("sleep 300", "-n", "10")
    world.until_state(second, "queued")
    assert world.jobs()[second].is_held
    world.slurm.run("scancel", str(first))
    world.until_state(first, "cancelled")
    assert world.node_of(world.until_state(second, "running")) == "n5"


def test_a_job_cancelled_in_slurm_is_cancelled_in_berth_and_the_other_way_round(
    world: World,
) -> None:
    in_slurm, in_berth = (
        world.submit("sleep 300", "-n", "2", "--constraint=avx") for _ in range(2)
    )
    for slurm_id in (in_slurm, in_berth):
        world.until_state(slurm_id, "running")
    world.slurm.run("scancel", str(in_slurm))
    cancel_jobs([world.job(in_berth).pk])
    assert world.until_state(in_slurm, "cancelled").reason_code == "Cancelled"
    world.until_state(in_berth, "cancelled")
    assert world.jobs()[in_berth].state == "CANCELLED"
    waiting = world.submit("sleep 300", "-n", "16", "--constraint=opteron")
    world.until_state(waiting, "running")
    more = world.submit("sleep 300", "-n", "16", "--constraint=opteron")
    job = world.until_state(more, "queued", "submitted")
    cancel_jobs([job.pk])
    world.until(lambda: world.jobs()[more].state == "CANCELLED", "Slurm cancels the held job")


def test_jobs_that_berth_shall_not_place_run_without_it(world: World) -> None:
    world.turn()
    pinned = world.submit("sleep 300", "-w", "n2")
    wide = world.submit("sleep 300", "-N", "2")
    array = world.submit("sleep 300", "--array=1-2")
    world.until(
        lambda: all(world.jobs()[j].state == "RUNNING" for j in (pinned, wide, array)),
        "Slurm starts them",
    )
    mine = world.submit("sleep 300", "--hold")
    for _ in range(3):
        world.turn()
    assert world.jobs()[mine].is_held
    assert not Job.objects.exists()


def test_a_suspended_job_keeps_its_units(world: World) -> None:
    slurm_id = world.submit("sleep 300")
    job = world.until_state(slurm_id, "running")
    node = world.node_of(job)
    world.slurm.run("scontrol", "suspend", str(slurm_id))
    world.turn()
    assert world.jobs()[slurm_id].state == "SUSPENDED"
    job.refresh_from_db()
    assert (job.state, job.attempts) == ("running", 1)
    assert Server.objects.get(name=node).used_cores == 1
    world.slurm.run("scontrol", "resume", str(slurm_id))
    assert world.jobs()[slurm_id].state == "RUNNING"


def test_a_job_is_suspended_and_resumed_on_request(world: World) -> None:
    slurm_id = world.submit("sleep 3000")
    job = world.until_state(slurm_id, "running")
    suspend_job(job.pk)
    world.until(lambda: world.job(slurm_id).suspended_s is not None, "it is suspended")
    assert world.jobs()[slurm_id].state == "SUSPENDED"
    assert Server.objects.get(name=world.node_of(job)).used_cores == 1
    resume_job(job.pk)
    world.until(lambda: world.job(slurm_id).suspension == "", "it runs again")
    assert world.jobs()[slurm_id].state == "RUNNING"
    job = world.job(slurm_id)
    assert (job.state, job.attempts, job.suspended_for_s > 0.0) == ("running", 1, True)
    suspend_job(job.pk)
    world.until(lambda: world.job(slurm_id).suspension == "suspended", "it is suspended again")
    world.restart()  # a new process goes on
    resume_job(job.pk)
    world.until(lambda: world.jobs()[slurm_id].state == "RUNNING", "Slurm resumes it")


def test_what_an_operator_of_slurm_suspends_is_shown_and_can_be_cancelled(world: World) -> None:
    slurm_id = world.submit("sleep 3000")
    job = world.until_state(slurm_id, "running")
    world.slurm.run("scontrol", "suspend", str(slurm_id))
    world.until(lambda: world.job(slurm_id).suspension == "suspended", "Berth has seen it")
    world.slurm.run("scontrol", "resume", str(slurm_id))
    world.until(lambda: world.job(slurm_id).suspension == "", "Berth has seen it")
    suspend_job(job.pk)
    world.until(lambda: world.job(slurm_id).suspension == "suspended", "it is suspended")
    cancel_jobs([job.pk])
    job = world.until_state(slurm_id, "cancelled")
    assert (job.suspension, job.suspended_s) == ("", None)


def test_a_suspension_that_slurm_refuses_is_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm_id = world.submit("sleep 3000")
    job = world.until_state(slurm_id, "running")
    real = Slurm.edit

    def of_another(slurm: Slurm, edits: Sequence[Edit]) -> Mapping[int, str]:
        """Suspend a job that does not exist instead."""
        found = real(slurm, [replace(each, job=999_999) for each in edits])
        return {each.job: found[999_999] for each in edits}

    suspend_job(job.pk)
    monkeypatch.setattr(Slurm, "edit", of_another)
    world.until(lambda: world.job(slurm_id).suspension == "", "Berth gives it up")
    assert world.jobs()[slurm_id].state == "RUNNING"


def test_a_requeued_job_is_placed_again_by_berth(world: World) -> None:
    slurm_id = world.submit("sleep 300", "--constraint=avx2")
    job = world.until_state(slurm_id, "running")
    node = world.node_of(job)
    (other,) = {"n3", "n4"} - {node}
    world.slurm.run("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
    world.until(lambda: Server.objects.get(name=node).state == "draining", "the server drains")
    world.slurm.run("scontrol", "requeue", str(slurm_id))
    world.until(lambda: world.job(slurm_id).attempts == 2, "Berth places it again")
    job = world.until_state(slurm_id, "running")
    assert world.node_of(job) == other
    assert world.jobs()[slurm_id].nodes == (other,)
    first, second = job.launches.order_by("id")
    assert (first.outcome, second.outcome) == ("lost", "")
    assert "Slurm has queued it again" in first.message
    world.slurm.run("scontrol", "update", f"NodeName={node}", "State=RESUME")
    world.until(lambda: Server.objects.get(name=node).state == "active", "the server is open")


def test_a_preempted_job_is_placed_again_by_berth(world: World) -> None:
    slurm_id = world.submit("sleep 300", "-n", "2", "--constraint=atom")
    assert world.node_of(world.until_state(slurm_id, "running")) == "n6"
    urgent = world.submit("sleep 2", "-n", "2", "-w", "n6", "-p", "urgent")
    world.until(lambda: world.jobs()[urgent].state == "RUNNING", "the urgent job runs")
    job = world.until_state(slurm_id, "queued", "starting")
    assert world.jobs()[slurm_id].state == "PENDING"
    job = world.until_state(slurm_id, "running")
    assert (job.attempts, world.jobs()[slurm_id].restarts) == (2, 1)


def test_jobs_of_a_node_that_goes_down_are_placed_elsewhere(world: World) -> None:
    slurm_id = world.submit("sleep 300", "--constraint=avx2")
    node = world.node_of(world.until_state(slurm_id, "running"))
    world.slurm.kill(node)
    world.slurm.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
    world.until(lambda: Server.objects.get(name=node).state == "down", "the server is down")
    # it may be placed once more on the node, before Slurm says that the node is down
    world.until(lambda: world.job(slurm_id).attempts >= 2, "Berth places it again")
    (other,) = {"n3", "n4"} - {node}
    world.until(lambda: world.jobs()[slurm_id].nodes == (other,), "it runs elsewhere")
    assert world.node_of(world.until_state(slurm_id, "running")) == other
    world.slurm.start_node(node)
    world.slurm.run("scontrol", "update", f"NodeName={node}", "State=RESUME")
    world.until(lambda: Server.objects.get(name=node).state == "active", "the server is open")


def test_a_job_whose_node_drains_before_it_starts_is_placed_elsewhere(world: World) -> None:
    others = [world.submit("sleep 300", "-n", "4", "-w", node) for node in ("n3", "n4")]
    world.until(lambda: all(world.jobs()[j].state == "RUNNING" for j in others), "Slurm is full")
    slurm_id = world.submit("sleep 300", "--constraint=avx2")
    world.until(lambda: world.jobs()[slurm_id].required_nodes, "it asks for its node")
    job = world.job(slurm_id)
    node = world.node_of(job)
    (other,) = {"n3", "n4"} - {node}
    world.slurm.run("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
    world.until(lambda: world.jobs()[slurm_id].required_nodes == (other,), "it asks for another")
    first, second = job.launches.order_by("id")
    assert (first.outcome, second.state) == ("lost", "requested")
    assert first.message == f"{node} went down or drains before it started"


def test_a_restart_of_the_controller_loses_nothing(world: World) -> None:
    runs = world.submit("sleep 300")
    world.until_state(runs, "running")
    gate = world.slurm.gate()
    ends = world.submit(gate.script)
    world.until_state(ends, "running")
    world.slurm.kill("slurmctld", signal.SIGTERM)  # it saves its state, as for an upgrade
    gate.open()
    world.turn()
    assert world.job(runs).state == "running"
    world.slurm.start_controller()
    assert world.until_state(ends, "succeeded").attempts == 1
    assert {row.state for row in Server.objects.all()} == {"active"}
    waits = world.submit("sleep 300")
    world.until_state(waits, "running")
    assert (world.job(runs).state, world.job(runs).attempts) == ("running", 1)


def test_jobs_that_ended_while_berth_was_away_are_reported_by_the_next_process(
    world: World,
) -> None:
    gate = world.slurm.gate()
    ends, fails = world.submit(gate.script), world.submit(f"{gate.script}; exit 4")
    world.until_state(ends, "running")
    world.until_state(fails, "running")
    gate.open()
    world.slurm.until(
        lambda: all(world.jobs()[job].phase is Phase.ENDED for job in (ends, fails)), "they end"
    )
    assert world.job(ends).state == "running"
    world.restart()
    assert world.until_state(ends, "succeeded").exit_code == 0
    assert world.until_state(fails, "failed").exit_code == 4
    assert not Server.objects.filter(used_cores__gt=0).exists()


def test_with_berth_down_an_operator_releases_and_slurm_goes_on(world: World) -> None:
    world.turn()
    runs, ends = world.submit("sleep 300", "-n", "2"), world.submit("exit 0")
    assert {world.jobs()[job].is_held for job in (runs, ends)} == {True}
    world.slurm.run("sh", "-c", RELEASE_ALL)
    world.slurm.until(lambda: world.jobs()[ends].state == "COMPLETED", "Slurm runs it")
    world.slurm.until(lambda: world.jobs()[runs].state == "RUNNING", "Slurm runs it")
    job = world.until_state(runs, "running")
    (node,) = world.jobs()[runs].nodes
    assert (world.node_of(job), world.jobs()[runs].restarts) == (node, 0)
    assert Server.objects.get(name=node).used_cores == 2
    assert not Job.objects.filter(slurm__slurm_id=ends).exists()


def test_jobs_released_after_berth_has_seen_them_end_as_slurm_says(world: World) -> None:
    busy = world.submit("sleep 300", "-n", "16", "--constraint=opteron")
    world.until_state(busy, "running")
    waits, runs = (
        world.submit(s, "-n", "2", "--constraint=opteron") for s in ("exit 5", "sleep 300")
    )
    world.until_state(waits, "queued")
    world.until_state(runs, "queued")
    world.slurm.run("scancel", str(busy))
    world.slurm.run("sh", "-c", RELEASE_ALL)
    world.slurm.until(lambda: world.jobs()[waits].state == "FAILED", "Slurm runs it")
    job = world.until_state(waits, "failed")
    assert (job.exit_code, job.attempts, job.reason_message) == (5, 0, "exit code 5")
    job = world.until_state(runs, "running")
    assert (world.node_of(job), job.attempts, world.jobs()[runs].restarts) == ("n5", 1, 0)


def test_a_second_process_does_not_act(world: World) -> None:
    other = SlurmBackend(world.backend.slurm, "slurm-other")
    with pytest.raises(BackendHeldError):
        other.hold()


class Forgetful(Slurm):
    """A Slurm that lists no job that has ended, as after MinJobAge."""

    def jobs(self) -> list[SlurmJob]:
        """Return the jobs that have not ended."""
        return [job for job in super().jobs() if job.phase is not Phase.ENDED]


def test_without_accounting_a_forgotten_job_fails_and_says_so(world: World) -> None:
    gate = world.slurm.gate()
    slurm_id = world.submit(gate.script)
    world.until_state(slurm_id, "running")
    world.backend.slurm = Forgetful(world.backend.slurm.config, world.backend.slurm.path)
    gate.open()
    job = world.until_state(slurm_id, "failed")
    assert job.reason_message == "Slurm no longer knows this job: how it ended is not known"


def test_usage_of_running_jobs_is_stored(world: World) -> None:
    slurm_id = world.submit("while :; do :; done")
    world.until_state(slurm_id, "running")
    world.slurm.until(
        lambda: world.backend.slurm.usage([slurm_id]).get(slurm_id, NOTHING).cpu_s >= 1.0,
        "sstat tells of a second of CPU",
    )
    world.restart()  # a new process asks at once
    world.turn()
    row = SlurmRow.objects.get(slurm_id=slurm_id)
    assert row.cpu_s is not None
    assert row.max_rss_bytes is not None
    assert row.cpu_s >= 1.0
    assert row.max_rss_bytes > 2**20
    sample = row.job.samples.get()
    assert 0.0 < sample.cpu_share <= 1.0
    assert sample.memory_bytes == row.max_rss_bytes


def test_a_refused_placement_is_taken_back_and_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Slurm.edit
    refused: dict[int, str] = {}

    def misspelt(slurm: Slurm, edits: Sequence[Edit]) -> Mapping[int, str]:
        if refused:
            return real(slurm, edits)
        answer = real(
            slurm,
            [replace(each, node="n99") if each.change is Change.PLACE else each for each in edits],
        )
        refused.update(answer)
        return answer

    monkeypatch.setattr(Slurm, "edit", misspelt)
    slurm_id = world.submit("sleep 300")
    job = world.until_state(slurm_id, "running")
    first, second = job.launches.order_by("id")
    assert (first.outcome, second.state) == ("lost", "running")
    assert first.message == "Slurm refused it: Invalid node name specified"
    assert world.jobs()[slurm_id].nodes == (world.node_of(job),)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/nowhere", ["is not installed here"]),
        ("/usr/bin", ["failed with exit code 1", "did not answer within"]),
    ],
    ids=["missing", "away"],
)
def test_while_slurm_does_not_answer_nothing_changes(
    world: World, path: str, said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    slurm_id = world.submit("sleep 300")
    world.until_state(slurm_id, "running")
    world.backend.slurm = Slurm("/nonexistent/slurm.conf", path)
    world.until(
        lambda: any(each in record.message for record in caplog.records for each in said), said[0]
    )
    assert (world.job(slurm_id).state, world.job(slurm_id).attempts) == ("running", 1)


def test_a_cluster_whose_clock_is_fast_is_refused(world: World) -> None:
    require_real_time("jobs of Slurm")
    Cluster.objects.update(speed=60.0)
    with pytest.raises(ClockError, match="start_clock --speed 1"):
        require_real_time("jobs of Slurm")


def test_a_placed_job_is_not_placed_again_after_it_has_started(world: World) -> None:
    world.turn()
    slurm_id = world.submit("sleep 300")
    world.until_state(slurm_id, "starting")
    now_s = time.monotonic() + AWAY_S
    world.backend.tick(now_s)  # asks Slurm, and places
    world.slurm.until(lambda: world.jobs()[slurm_id].state == "RUNNING", "Slurm starts it")
    world.backend.tick(time.monotonic() - AWAY_S)  # does not ask
    job = world.until_state(slurm_id, "running")
    assert (job.attempts, job.launches.count()) == (1, 1)


def test_a_placed_job_is_released_before_slurm_is_asked_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.turn()
    slurm_id = world.submit("sleep 300")
    now_s = time.monotonic() + AWAY_S
    world.backend.tick(now_s)
    world.scheduler.work(for_s=1.0)
    assert world.job(slurm_id).state == "starting"
    monkeypatch.setattr(Slurm, "jobs", None)  # to ask would be an error
    world.backend.tick(time.monotonic() - AWAY_S)
    monkeypatch.undo()
    job = world.jobs()[slurm_id]
    assert (job.is_held, len(job.required_nodes)) == (False, 1)
