"""What every backend does, whatever executes the jobs, and what its capabilities promise."""

from datetime import timedelta
from typing import Final

import pytest
from django.utils import timezone
from pytest_django import Settings

from apps.accounts.core.roles import Role
from apps.accounts.services import create_user, ensure_project
from apps.common.core.errors import ConflictError, InvalidInputError
from apps.execution.models import Launch, Migration
from apps.execution.selectors.preemption import preemptible_jobs
from apps.execution.services.migrations import (
    AcceptedMigration,
    MigrationRefusal,
    MigrationRequest,
    RefusedMigration,
    request_migrations,
)
from apps.execution.services.recovery import requeue_lost_jobs
from apps.execution.services.suspension import resume_job, suspend_job
from apps.inventory.core.backends import CAPABILITIES, EMULATED, Capability, Move, move_of
from apps.inventory.core.usage import SILENT_S
from apps.inventory.models import Server
from apps.operations.models import Event
from apps.profiling.models import ProfilingRun, RunState
from apps.profiling.selectors import platform_shapes
from apps.scheduling.models import Allocation
from apps.workloads.core.spec import parse_job
from apps.workloads.models import Job
from apps.workloads.services import cancel_jobs, submit_jobs
from tests.contracts.execution.agent_world import AgentWorld
from tests.contracts.execution.emulated_world import EmulatedWorld
from tests.contracts.execution.kubernetes_world import KubernetesWorld
from tests.contracts.execution.slurm_world import SlurmWorld
from tests.contracts.execution.worlds import BackendWorld, other_server, server_of, used_units

# Only the emulated backend has these, and no user requests them: its own tests exercise them.
EMULATED_ONLY: Final = {Capability.COUNTERS, Capability.GROW, Capability.RESUME}
TURNS: Final = 10  # in which a backend would have done what it must not do
TOP_PRIORITY: Final = 100


def can(world: BackendWorld, capability: Capability) -> bool:
    """Whether the backend claims a capability."""
    return capability in CAPABILITIES[world.name]


def migrate(job: Job, to: Server) -> AcceptedMigration | RefusedMigration:
    """Request that all units of a job move to another server."""
    held = Allocation.objects.get(job=job, released_seq=None)
    (answer,) = request_migrations([MigrationRequest(job.pk, held.pk, to.pk, "contract")])
    return answer


def lost(job: Job) -> bool:
    """Let the sweep look for lost servers; tells whether the job has lost its first launch."""
    requeue_lost_jobs(silent_before=timezone.now() - timedelta(seconds=SILENT_S))
    return job.launches.order_by("id")[0].state == "ended"


def submit_commands(backend: str, *programs: str) -> list[Job]:
    """Submit commands as a user does, which the servers of a backend would have to run."""
    assert set(Server.objects.values_list("backend", flat=True)) == {backend}
    return submit_jobs(
        [parse_job({"command": [program]}) for program in programs],
        project=ensure_project("default"),
        user=create_user(username="submitter", password=None, role=Role.SUBMITTER),
        correlation_id="contract",
    )


class Contract:
    """The cases of each backend."""

    def test_a_job_is_claimed_started_and_ended(self, world: BackendWorld) -> None:
        job = world.begin()
        server = server_of(job).name
        assert (world.starts(job), world.runs_on(job)) == (1, {server})
        assert used_units() == {server: 1}
        world.finish(job)
        world.until_state(job, "succeeded")
        assert (world.runs_on(job), used_units()) == (set(), {})
        launch = Launch.objects.get(job=job)
        assert (launch.backend, launch.state, launch.outcome) == (world.name, "ended", "finished")
        assert launch.started_s is not None
        assert launch.ended_s is not None
        assert launch.started_s <= launch.ended_s
        kinds = Event.objects.filter(subject=str(job.pk)).order_by("seq")
        assert list(kinds.values_list("kind", flat=True))[-2:] == ["job.running", "job.succeeded"]

    def test_orders_that_arrive_again_start_nothing_again(self, world: BackendWorld) -> None:
        job = world.begin()
        for _ in range(2):
            world.stop()
            world.start()
            for _ in range(TURNS):
                world.turn()
        job.refresh_from_db()
        assert (world.starts(job), job.attempts, Launch.objects.count()) == (1, 1, 1)
        assert (job.state, world.runs_on(job)) == ("running", {server_of(job).name})

    def test_a_refused_start_frees_its_units_and_says_why(self, world: BackendWorld) -> None:
        job = world.begin_refused()
        first = world.until(
            lambda: job.launches.filter(attempt=1, state="ended").first(), "the launch has ended"
        )
        assert first.outcome in ("failed", "lost")
        assert first.message != ""
        allocation = Allocation.objects.filter(job=job).order_by("id")[0]
        assert allocation.released_seq is not None
        assert sum(used_units().values()) == Allocation.objects.filter(released_seq=None).count()

    def test_an_end_while_the_process_was_away_is_reported_once(self, world: BackendWorld) -> None:
        job = world.begin()
        world.stop()
        world.finish(job)
        job.refresh_from_db()
        assert job.state == "running"
        world.start()
        world.until_state(job, "succeeded")
        assert (job.attempts, Launch.objects.count(), used_units()) == (1, 1, {})
        assert Event.objects.filter(kind="job.succeeded").count() == 1

    def test_a_cancelled_job_is_stopped(self, world: BackendWorld) -> None:
        job = world.begin()
        cancel_jobs([job.pk])
        world.until_state(job, "cancelled")
        world.until(lambda: not world.runs_on(job), "its processes have ended")
        assert (job.reason_code, used_units()) == ("Cancelled", {})
        assert Launch.objects.get(job=job).outcome == "cancelled"

    def test_a_job_of_a_lost_server_loses_its_launch(self, world: BackendWorld) -> None:
        job = world.begin()
        server = server_of(job)
        world.lose_server(job)
        world.until(lambda: lost(job), "the launch is lost")
        first = job.launches.order_by("id")[0]
        assert (first.outcome, first.message != "") == ("lost", True)
        job.refresh_from_db()
        assert job.state in ("queued", "starting")
        released = Allocation.objects.filter(job=job, server_id=server.pk).order_by("id")[0]
        assert released.released_seq is not None

    def test_a_job_moves_as_the_backend_claims(self, world: BackendWorld) -> None:
        job = world.begin()
        source, target = server_of(job), other_server(job)
        answer = migrate(job, target)
        if move_of(world.name) is Move.NONE:
            assert isinstance(answer, RefusedMigration)
            assert answer.reason_code is MigrationRefusal.JOB_NOT_RUNNING
            assert "its backend cannot migrate it" in answer.message
            assert used_units() == {source.name: 1}
            return
        assert isinstance(answer, AcceptedMigration)
        assert used_units() == {source.name: 1, target.name: 1}
        world.until(lambda: Migration.objects.get().state == "done", "the migration is done")
        world.until_state(job, "running")
        world.until(lambda: world.runs_on(job) == {target.name}, "it runs on the new server")
        assert used_units() == {target.name: 1}
        is_restart = move_of(world.name) is Move.RESTART
        outcomes = list(job.launches.order_by("id").values_list("outcome", flat=True))
        assert outcomes == (["moved", ""] if is_restart else [""])
        assert job.attempts == (2 if is_restart else 1)

    def test_a_job_that_ends_before_it_moved_has_ended(self, world: BackendWorld) -> None:
        job = world.begin()
        world.stop()
        answer = migrate(job, other_server(job))
        world.finish(job)
        world.start()
        world.until_state(job, "succeeded")
        assert used_units() == {}
        states = list(Migration.objects.values_list("state", flat=True))
        assert states in ([], ["cancelled"], ["done"])
        assert isinstance(answer, AcceptedMigration) is bool(states)

    def test_a_job_is_suspended_where_the_backend_claims_it(self, world: BackendWorld) -> None:
        job = world.begin()
        if not can(world, Capability.SUSPEND):
            with pytest.raises(ConflictError, match=f"{world.name} cannot suspend jobs"):
                suspend_job(job.pk)
            job.refresh_from_db()
            assert job.suspension == ""
            return
        suspend_job(job.pk)
        world.until(lambda: suspension_of(job) == "suspended", "it is suspended")
        assert (world.is_stopped(job), used_units()) == (True, {server_of(job).name: 1})
        resume_job(job.pk)
        world.until(lambda: suspension_of(job) == "", "it goes on")
        world.finish(job)
        world.until_state(job, "succeeded")
        assert (job.attempts, job.suspended_for_s > 0.0) == (1, True)

    def test_a_command_runs_where_the_backend_claims_it(self, world: BackendWorld) -> None:
        running = world.begin()
        if not can(world, Capability.COMMANDS):
            with pytest.raises(InvalidInputError) as refused:
                submit_commands(world.name, "true")
            assert [problem.code for problem in refused.value.problems] == ["no_backend"]
            assert list(Job.objects.all()) == [running]
            return
        good, bad = submit_commands(world.name, "true", "false")
        world.until_state(good, "succeeded")
        world.until_state(bad, "failed")
        launch = good.launches.get()
        assert (launch.backend, launch.outcome, world.starts(good)) == (world.name, "finished", 1)
        assert set(bad.launches.values_list("outcome", flat=True)) == {"failed"}
        assert used_units() == {server_of(running).name: 1}

    def test_a_job_is_preempted_where_the_backend_claims_it(self, world: BackendWorld) -> None:
        job = world.begin()
        victims = preemptible_jobs([job.pk], TOP_PRIORITY)
        assert [victim.id for victim in victims] == (
            [job.pk] if can(world, Capability.REQUEUE) else []
        )
        if not victims:
            return
        Launch.objects.update(cancel_requested=True, message="its units are needed")
        world.until(lambda: job.launches.get(attempt=1).state == "ended", "it is stopped")
        assert job.launches.get(attempt=1).outcome == "preempted"
        world.place_again(job)
        world.until(lambda: job.launches.filter(attempt=2).exists(), "it is launched again")
        world.until_state(job, "running")
        server = server_of(job).name
        assert (world.runs_on(job), used_units(), job.attempts) == ({server}, {server: 1}, 2)
        world.finish(job)
        world.until_state(job, "succeeded")
        outcomes = list(job.launches.order_by("attempt").values_list("outcome", flat=True))
        assert (outcomes, used_units()) == (["preempted", "finished"], {})

    def test_usage_is_stored_where_the_backend_claims_it(self, world: BackendWorld) -> None:
        job = world.begin()
        if can(world, Capability.USAGE):
            world.until(lambda: world.has_usage(job), "its usage is stored")
            return
        for _ in range(TURNS):
            world.turn()
        assert not world.has_usage(job)

    def test_new_applications_are_profiled_where_the_backend_claims_it(
        self, world: BackendWorld
    ) -> None:
        world.begin()
        assert bool(platform_shapes()) is can(world, Capability.PROBE)


def suspension_of(job: Job) -> str:
    """Return what Berth has recorded of the suspension of a job."""
    job.refresh_from_db()
    return job.suspension


class TestEmulated(Contract):
    """The emulator, whose cluster time the tests advance."""

    @pytest.fixture
    def world(self, emulated_world: EmulatedWorld) -> BackendWorld:
        return emulated_world


@pytest.mark.agent
class TestAgents(Contract):
    """Two agents with real processes."""

    @pytest.fixture
    def world(self, agent_world: AgentWorld) -> BackendWorld:
        return agent_world

    def test_a_job_runs_on_the_cores_that_its_units_name(self, agent_world: AgentWorld) -> None:
        assert can(agent_world, Capability.CORES)
        assert len(agent_world.cores_of(agent_world.begin())) == 1

    def test_a_copy_of_a_command_is_profiled_once(
        self, agent_world: AgentWorld, settings: Settings
    ) -> None:
        assert can(agent_world, Capability.PROBE_COMMANDS)
        settings.PROBE_STRESSORS = ["core"]
        first, second = agent_world.begin_copyable(), agent_world.begin_copyable()
        agent_world.until_state(second, "succeeded")
        agent_world.until_state(first, "succeeded")
        assert [run.state for run in ProfilingRun.objects.all()] == [RunState.DONE]


@pytest.mark.slurm
class TestSlurm(Contract):
    """A real Slurm of six nodes."""

    @pytest.fixture
    def world(self, slurm_world: SlurmWorld) -> BackendWorld:
        return slurm_world


class TestKubernetes(Contract):
    """The official client before a fake API server."""

    @pytest.fixture
    def world(self, kubernetes_world: KubernetesWorld) -> BackendWorld:
        return kubernetes_world


WORLDS: Final = (EmulatedWorld, AgentWorld, SlurmWorld, KubernetesWorld)


def test_every_backend_has_its_world() -> None:
    assert sorted(world.name for world in WORLDS) == sorted(CAPABILITIES)


def test_only_the_emulated_backend_claims_what_the_contract_does_not_exercise() -> None:
    claimed = {name: known & EMULATED_ONLY for name, known in CAPABILITIES.items()}
    assert {name for name, known in claimed.items() if known} == {EMULATED}


@pytest.mark.parametrize("capability", [Capability.CORES, Capability.PROBE_COMMANDS])
def test_only_agents_choose_cores_and_profile_copies(capability: Capability) -> None:
    assert {name for name, known in CAPABILITIES.items() if capability in known} == {
        AgentWorld.name
    }
