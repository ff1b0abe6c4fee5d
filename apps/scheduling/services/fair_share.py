"""Fair share: the stored shares of projects, and the order of the jobs of a turn."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from django.conf import settings
from django.db import transaction

from apps.accounts.models import Project, ProjectShare
from apps.accounts.services import clear_shares, store_shares
from apps.common.core.errors import ConflictError
from apps.common.infrastructure.advisory_locks import AdvisoryLock, try_acquire
from apps.inventory.core.snapshot import Topology
from apps.inventory.selectors import cluster_now, log_position
from apps.scheduling.core.sharing.fair_share import (
    NOTHING,
    Amounts,
    Demand,
    added_shares,
    decayed,
    dominant,
    positions,
    shares_of,
    total,
    turn_order,
)
from apps.scheduling.core.types import Request
from apps.scheduling.selectors.fair_share import (
    Uses,
    cluster_capacity,
    is_counted,
    is_on,
    project_shares,
    uses,
)
from apps.scheduling.services.proposals import SizedJob
from apps.workloads.models import Job


def update_shares() -> int:
    """Store the decayed shares of all projects as of now; returns their number.

    Deletes them without fair share. Allocations that ended are added once; after a change of the
    half-life, all of the change log is read again. Returns 0 if another process does the same.
    """
    if not is_on():
        clear_shares()
        return 0
    complete = log_position()  # in a transaction of its own
    with transaction.atomic():
        if not try_acquire(AdvisoryLock.FAIR_SHARE):
            return 0
        known = _known(settings.FAIR_SHARE_HALF_LIFE_S)
        after = min((row.sequence for row in known.values()), default=0)
        rows = _rows(known, after, max(after, complete), settings.FAIR_SHARE_HALF_LIFE_S)
        store_shares(rows)
    return len(rows)


def _known(half_life_s: float) -> dict[UUID, ProjectShare]:
    """Return the stored rows by project; none if they are of another half-life."""
    rows = ProjectShare.objects.all()
    return {row.project_id: row for row in rows if row.half_life_s == half_life_s}


def _rows(
    known: Mapping[UUID, ProjectShare], after: int, until: int, half_life_s: float
) -> list[ProjectShare]:
    now_s, capacity = cluster_now(), cluster_capacity()
    found = uses(after=after, until=until, now_s=now_s, half_life_s=half_life_s)
    projects = Project.objects.order_by("name").values_list("id", "archived_at")
    archived = {key for key, archived_at in projects if archived_at is not None}
    settled = {key: _settled(key, known, found, now_s, half_life_s) for key, _ in projects}
    shares = {
        key: shares_of(total(amounts, found.others.get(key, NOTHING)), capacity)
        for key, amounts in settled.items()
    }
    places = positions({key: max(each) for key, each in shares.items()}, last=archived)
    return [
        ProjectShare(
            project_id=key,
            half_life_s=half_life_s,
            cluster_s=now_s,
            sequence=until,
            settled=settled[key],
            shares=each,
            dominant=dominant(each).share,
            resource=dominant(each).resource,
            position=places[key],
        )
        for key, each in shares.items()
    ]


def _settled(
    project: UUID,
    known: Mapping[UUID, ProjectShare],
    found: Uses,
    now_s: float,
    half_life_s: float,
) -> Amounts:
    """Return what a project used by allocations that ended: the stored amounts and new ones."""
    ended = found.settled.get(project, NOTHING)
    if project not in known:
        return ended
    row = known[project]
    units, memory, network, storage = row.settled
    stored = (units, memory, network, storage)
    return total(decayed(stored, now_s - row.cluster_s, half_life_s), ended)


def require_counted(job: Job) -> None:
    """Check that the stored share of its project counts a job, whose rows can then be deleted.

    Raises
    ------
    ConflictError : it does not yet; the next update counts it.
    """
    if is_on() and not is_counted(job.pk, job.project_id):
        msg = "the fair share of its project does not count the job yet; delete it in some seconds"
        raise ConflictError(msg)


def in_fair_order(ready: Sequence[SizedJob], topology: Topology) -> list[SizedJob]:
    """Return the jobs of a turn in the order of fair share; in their own order without it."""
    if not is_on() or len(ready) < 2:
        return list(ready)
    memory, network, storage = topology.server_capacity.sum(axis=0).tolist()
    capacity = (float(topology.server_units.sum()), memory, network, storage)
    demands = [_demand(each, capacity) for each in ready]
    return [ready[place] for place in turn_order(demands, project_shares())]


def _demand(ready: SizedJob, capacity: Amounts) -> Demand:
    run_s = None if ready.run is None else ready.run.value
    held = _held(ready.request, capacity)
    added = added_shares(held, run_s, settings.FAIR_SHARE_HALF_LIFE_S)
    return Demand(ready.job.project_id, ready.job.priority, added)


def _held(request: Request, capacity: Amounts) -> Amounts:
    """Return the shares of the cluster that a request holds; 0 bytes mean an equal share."""
    units, *_ = shares = shares_of(
        (
            float(request.units),
            request.units * request.unit_memory_bytes,
            request.units * request.unit_network_bps,
            request.units * request.unit_storage_bytes,
        ),
        capacity,
    )
    memory, network, storage = (share or units for share in shares[1:])
    return units, memory, network, storage
