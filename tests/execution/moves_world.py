"""Jobs that really run on a small cluster in the database, to be moved."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from apps.execution import services
from apps.execution.backends.emulated.control_plane import DatabaseControlPlane, Hooks
from apps.execution.backends.emulated.port import EndReport, MoveReport
from apps.execution.core.migration import MoveOutcome
from apps.execution.models import Launch, Migration
from apps.execution.moving import Move, MoveRefusal, Refused, Requested, request_moves
from apps.inventory.models import Server
from apps.scheduling.models import Allocation
from apps.scheduling.selectors import read_copy
from apps.scheduling.services import commit
from apps.testbed.selectors import check_findings
from apps.workloads.models import Job
from tests import factories
from tests.scheduling.world import ME, build, claimed, proposal

MOVED_S = 7300.0


def cluster(*names: str, cores: int = 4, **sizes: int) -> None:
    """Servers of four units, by turns in two racks; the clock stands at 7,200 s."""
    factories.cluster()
    build(*(names or ("a", "b", "c")), cores=cores, **sizes)


def plane(worker: str = "emulator-1") -> DatabaseControlPlane:
    """The emulator's side, with what ends of jobs mean."""
    hooks = Hooks(
        request=lambda backend, limit: services.request_launches(backend, limit=limit),
        release=services.release_jobs,
        measured=services.take_measurements,
    )
    return DatabaseControlPlane(worker=worker, hooks=hooks)


def running(units: Iterable[int], **values: Any) -> Job:
    """A job that runs on these units, counted over the servers."""
    job = claimed(**values)
    commit([proposal(job, read_copy().topology, units)], agent=ME)
    (order,) = [x for x in plane().claim_launches(100) if launch_of(job).id == x.launch]
    plane().report_started({order.launch: 7200.0})
    job.refresh_from_db()
    return job


def launch_of(job: Job) -> Launch:
    """Its only launch."""
    return Launch.objects.get(job=job)


def server(name: str) -> int:
    """Id of a server."""
    return Server.objects.get(name=name).id


def stand(job: Job, on: str) -> int:
    """Id of what a job holds, or has reserved, of a server now."""
    return Allocation.objects.get(job=job, server_id=server(on), released_seq=None).id


def move(job: Job, on: str, to: str) -> Move:
    """What a job holds of one server, to go to another."""
    return Move(job.id, stand(job, on), server(to), "plan")


def ask(*moves: Move) -> list[int | MoveRefusal]:
    """Ask for moves; the migration, or why there is none, of each."""
    return [_told(answer) for answer in request_moves(moves)]


def _told(answer: Requested | Refused) -> int | MoveRefusal:
    return answer.reason_code if isinstance(answer, Refused) else answer.migration_id


def moving(job: Job, on: str, to: str) -> Migration:
    """A migration just asked for."""
    (migration,) = ask(move(job, on, to))
    return Migration.objects.get(id=migration)


def report(migration: Migration, *outcomes: str, at_s: float = MOVED_S) -> None:
    """Let the backend take it up, unless it has, and say what became of it."""
    plane().claim_moves(10, doing=[] if migration.started_s is None else [migration.id])
    plane().report_moves(
        [MoveReport(migration.id, at_s, MoveOutcome(x), f"it {x}") for x in outcomes]
    )
    migration.refresh_from_db()


def end(job: Job, outcome: str = "finished") -> None:
    """Let its backend report the end of a job."""
    plane().report_ended([EndReport(launch_of(job).id, MOVED_S + 10.0, outcome)])


def holds(job_id: UUID) -> list[tuple[str, int]]:
    """Servers and units that a job holds, reserved ones included, oldest first."""
    names = dict(Server.objects.values_list("id", "name"))
    live = Allocation.objects.filter(job=job_id, released_seq=None).order_by("id")
    return [(names[row.server_id], row.cores) for row in live]


def broken() -> list[str]:
    """What the checks after a replay find wrong."""
    return [f"{x.check}: {x.examples}" for x in check_findings(grace_s=60.0) if x.violations]
