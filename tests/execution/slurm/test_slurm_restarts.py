"""Jobs of a real Slurm that Berth stops and starts on another node: `./dev test -m slurm`."""

import signal
import time
from collections.abc import Mapping, Sequence

import pytest

from apps.execution.backends.slurm.commands import Slurm
from apps.execution.backends.slurm.holder import AWAY_S
from apps.execution.core.slurm.edits import Change, Edit
from apps.execution.core.slurm.values import Phase, SlurmJob
from apps.execution.models import Migration, MigrationState
from apps.execution.services.migrations import (
    AcceptedMigration,
    MigrationRequest,
    request_migrations,
)
from apps.execution.services.suspension import suspend_job
from apps.inventory.models import Server
from apps.operations.models import Event
from apps.scheduling.models import Allocation
from apps.workloads.models import Job
from tests.execution.slurm.conftest import World

pytestmark = pytest.mark.slurm
CRED_EXPIRE_S = 15.0  # of the cluster of the tests


def other_node(world: World, job: Job) -> str:
    """Return the other node of the two with the feature avx2."""
    (other,) = {"n3", "n4"} - {world.node_of(job)}
    return other


def move(world: World, job: Job) -> Migration:
    """Request that a running job restarts on the other node."""
    held = Allocation.objects.get(job=job, released_seq=None)
    target = Server.objects.get(name=other_node(world, job))
    (answer,) = request_migrations([MigrationRequest(job.pk, held.pk, target.pk, "plan")])
    assert isinstance(answer, AcceptedMigration)
    return Migration.objects.get(pk=answer.migration_id)


def running(world: World, script: str = "sleep 300", *options: str) -> tuple[int, Job]:
    """Submit a job that runs on n3 or n4."""
    slurm_id = world.submit(script, "--constraint=avx2", "-n", "2", *options)
    return slurm_id, world.until_state(slurm_id, "running")


def used_cores() -> dict[str, int]:
    """Return the units in use or reserved, by server that has any."""
    rows = Server.objects.filter(used_cores__gt=0)
    return dict(rows.values_list("name", "used_cores"))


def until_pending(world: World, slurm_id: int) -> None:
    """Let Berth stop a job, and wait until Slurm has queued it; Berth does not see it."""
    world.backend.tick(time.monotonic() + AWAY_S)  # asks Slurm at once
    world.slurm.until(
        lambda: world.jobs()[slurm_id].phase is Phase.PENDING, "it is queued", limit_s=60.0
    )


def arrived(world: World, slurm_id: int, target: str) -> SlurmJob:
    """Let Berth work until a job runs on the other node; returns it."""

    def runs_there() -> bool:
        job = world.job(slurm_id)
        return (job.state, job.attempts) == ("running", 2)

    world.until(runs_there, f"job {slurm_id} runs on {target}")
    return world.jobs()[slurm_id]


def test_a_job_is_requeued_and_starts_on_the_new_node(world: World) -> None:
    slurm_id, job = running(world)
    source, target = world.node_of(job), other_node(world, job)
    migration = move(world, job)
    assert used_cores() == {source: 2, target: 2}
    began_s = time.time()
    runs = arrived(world, slurm_id, target)
    assert (runs.nodes, runs.required_nodes, runs.restarts) == ((target,), (target,), 1)
    assert runs.started_s is not None
    assert runs.started_s - began_s < CRED_EXPIRE_S  # it did not wait for its credential
    first, second = job.launches.order_by("id")
    assert (first.outcome, second.state) == ("moved", "running")
    migration.refresh_from_db()
    assert (migration.state, used_cores()) == (MigrationState.DONE, {target: 2})
    kinds = Event.objects.filter(kind__startswith="job.mov", subject=str(job.pk))
    assert list(kinds.order_by("seq").values_list("kind", flat=True)) == [
        "job.moving", "job.moved"
    ]  # fmt: skip


def test_a_suspended_job_restarts_too(world: World) -> None:
    slurm_id, job = running(world)
    suspend_job(job.pk)
    world.until(lambda: world.job(slurm_id).suspension == "suspended", "it is suspended")
    target = other_node(world, job)
    move(world, job)
    runs = arrived(world, slurm_id, target)
    assert (runs.state, runs.nodes, world.job(slurm_id).suspension) == ("RUNNING", (target,), "")


def test_a_job_that_slurm_does_not_requeue_runs_on_and_frees_the_reservation(
    world: World,
) -> None:
    slurm_id, job = running(world, "sleep 300", "--no-requeue")
    source = world.node_of(job)
    migration = move(world, job)
    world.until(lambda: Migration.objects.get().state == "failed", "it is given up")
    migration.refresh_from_db()
    assert migration.message == (
        "Slurm does not requeue the job: see --no-requeue of sbatch, and JobRequeue"
    )
    assert used_cores() == {source: 2}
    event = Event.objects.get(kind="job.move_failed")
    assert event.data["message"] == migration.message
    for _ in range(3):
        world.turn()
    job = world.job(slurm_id)
    assert (job.state, job.attempts, world.jobs()[slurm_id].restarts) == ("running", 1, 0)
    assert world.jobs()[slurm_id].nodes == (source,)


def test_a_job_that_ends_before_slurm_stops_it_does_not_run_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = world.slurm.gate()
    slurm_id, job = running(world, gate.script)
    real = Slurm.edit
    stops: list[int] = []

    def too_late(slurm: Slurm, edits: Sequence[Edit]) -> Mapping[int, str]:
        """Let the job end after Berth has seen it run, and before it is stopped."""
        if any(each.change is Change.STOP for each in edits):
            gate.open()
            world.slurm.until(lambda: world.jobs()[slurm_id].phase is Phase.ENDED, "it ends")
            stops.append(slurm_id)
        return real(slurm, edits)

    migration = move(world, job)
    monkeypatch.setattr(Slurm, "edit", too_late)
    job = world.until_state(slurm_id, "succeeded")
    migration.refresh_from_db()
    assert (stops, job.exit_code, job.attempts) == ([slurm_id], 0, 1)
    assert (migration.state, used_cores()) == (MigrationState.CANCELLED, {})
    assert (world.jobs()[slurm_id].state, world.jobs()[slurm_id].restarts) == ("COMPLETED", 0)


def test_a_job_that_its_user_cancels_while_it_stops_is_cancelled(world: World) -> None:
    slurm_id, job = running(world)
    migration = move(world, job)
    until_pending(world, slurm_id)
    world.slurm.run("scancel", str(slurm_id))
    job = world.until_state(slurm_id, "cancelled")
    migration.refresh_from_db()
    assert (migration.state, used_cores()) == (MigrationState.CANCELLED, {})
    assert (job.attempts, job.launches.get().outcome) == (1, "cancelled")


def test_a_restart_goes_on_after_the_controller_and_berth_have_been_away(world: World) -> None:
    slurm_id, job = running(world)
    target = other_node(world, job)
    move(world, job)
    until_pending(world, slurm_id)
    world.slurm.kill("slurmctld", signal.SIGTERM)
    world.turn()
    assert world.job(slurm_id).state == "running"  # nothing changes while Slurm does not answer
    world.slurm.start_controller()
    world.restart()
    assert arrived(world, slurm_id, target).nodes == (target,)
    assert used_cores() == {target: 2}


def test_a_job_whose_new_node_goes_down_meanwhile_is_placed_again(world: World) -> None:
    slurm_id, job = running(world)
    source, target = world.node_of(job), other_node(world, job)
    move(world, job)
    until_pending(world, slurm_id)
    Server.objects.filter(name=target).update(state="cordoned")
    job = world.until_state(slurm_id, "queued", "starting")
    assert job.launches.order_by("id")[0].outcome == "moved"
    world.until(lambda: world.job(slurm_id).state == "running", "it runs again")
    assert (world.jobs()[slurm_id].nodes, used_cores()) == ((source,), {source: 2})
