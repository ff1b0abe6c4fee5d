"""Running jobs on a small cluster in the database, for tests of migrations."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from apps.common.core.clock import ClusterClock
from apps.execution.backends.emulated.control_plane import DatabaseControlPlane, Hooks
from apps.execution.core.migration import MigrationOutcome, MigrationReport
from apps.execution.core.port import EndReport
from apps.execution.models import BackendHolder, Launch, Migration
from apps.execution.services import launches, profiles
from apps.execution.services.migrations import (
    AcceptedMigration,
    MigrationRefusal,
    MigrationRequest,
    RefusedMigration,
    request_migrations,
)
from apps.inventory.models import Server
from apps.scheduling.models import Allocation
from apps.scheduling.selectors import read_copy
from apps.scheduling.services import commit
from apps.testbed.selectors.replay import check_findings
from apps.workloads.models import Job
from tests import factories
from tests.scheduling.world import ME, build, claimed, proposal

MOVED_S = 7300.0
SPEED = 60.0  # cluster seconds per wall second
HOOKS = Hooks(
    request_launches=lambda backend, limit: launches.request_launches(backend, limit=limit),
    release_jobs=launches.release_jobs,
    record_measurements=profiles.record_measurements,
)


class SteadyPlane(DatabaseControlPlane):
    """A control plane for emulators whose ticks a test numbers, from this second on."""

    begun_s: float = 0.0
    cluster_s: float = 7200.0

    def clock(self) -> ClusterClock:
        return ClusterClock(
            wall_anchor_s=self.begun_s, cluster_anchor_s=self.cluster_s, speed=SPEED
        )


def cluster(*names: str, cores: int = 4, **sizes: int) -> None:
    """Create servers of four units in two alternating racks; the clock is at 7,200 s."""
    factories.cluster()
    build(*(names or ("a", "b", "c")), cores=cores, **sizes)


def plane(worker: str = "emulator-1") -> DatabaseControlPlane:
    """The emulator's control plane, which runs the backend, with the real hooks."""
    return holding(DatabaseControlPlane(worker=worker, hooks=HOOKS))


def holding(control_plane: DatabaseControlPlane) -> DatabaseControlPlane:
    """A control plane whose process runs the backend, whoever ran it before."""
    holder = BackendHolder.objects.filter(worker=control_plane._worker).first()
    if holder is not None:
        control_plane._token = holder.token
        return control_plane
    BackendHolder.objects.update(held_until=factories.MOMENT)
    control_plane.hold()
    return control_plane


def running(units: Iterable[int], **values: Any) -> Job:
    """A running job on these units, numbered across the servers."""
    job = claimed(**values)
    commit([proposal(job, read_copy().topology, units)], agent=ME)
    (order,) = [x for x in plane().claim_launches(100) if launch_of(job).id == x.launch]
    plane().report_launches({order.launch: 7200.0}, ())
    job.refresh_from_db()
    return job


def launch_of(job: Job) -> Launch:
    """The only launch of a job."""
    return Launch.objects.get(job=job)


def server(name: str) -> int:
    """Id of a server."""
    return Server.objects.get(name=name).id


def stand(job: Job, on: str) -> int:
    """Id of the live or reserved allocation of a job on a server."""
    return Allocation.objects.get(job=job, server_id=server(on), released_seq=None).id


def move(job: Job, on: str, to: str) -> MigrationRequest:
    """Request to migrate the allocation of a job from one server to another."""
    return MigrationRequest(job.id, stand(job, on), server(to), "plan")


def ask(*moves: MigrationRequest) -> list[int | MigrationRefusal]:
    """Request migrations; the id of each, or the reason of its refusal."""
    return [_id_or_reason(answer) for answer in request_migrations(moves)]


def _id_or_reason(answer: AcceptedMigration | RefusedMigration) -> int | MigrationRefusal:
    return answer.reason_code if isinstance(answer, RefusedMigration) else answer.migration_id


def moving(job: Job, on: str, to: str) -> Migration:
    """A requested migration."""
    (migration,) = ask(move(job, on, to))
    return Migration.objects.get(id=migration)


def report(migration: Migration, *outcomes: str, at_s: float = MOVED_S) -> None:
    """Claim a migration, unless it has started, and report these outcomes."""
    plane().claim_migrations(10, doing=[] if migration.started_s is None else [migration.id])
    plane().report_migrations(
        [MigrationReport(migration.id, at_s, MigrationOutcome(x), f"it {x}") for x in outcomes]
    )
    migration.refresh_from_db()


def end(job: Job, outcome: str = "finished") -> None:
    """Report the end of a job."""
    plane().report_launches({}, [EndReport(launch_of(job).id, MOVED_S + 10.0, outcome)])


def holds(job_id: UUID) -> list[tuple[str, int]]:
    """Servers and units that a job holds, reserved ones included, oldest first."""
    names = dict(Server.objects.values_list("id", "name"))
    live = Allocation.objects.filter(job=job_id, released_seq=None).order_by("id")
    return [(names[row.server_id], row.cores) for row in live]


def broken() -> list[str]:
    """Violations found by the checks after a replay."""
    return [f"{x.check}: {x.examples}" for x in check_findings(grace_s=60.0) if x.violations]
