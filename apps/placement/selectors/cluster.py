"""The running cluster as the arrays of `core.rebalancing.cluster`.

The number of statements does not depend on the size of the cluster. Allocations are read by one
statement, so that the units in use agree with the containers. Profiles are decoded once and cached
by id: their rows never change.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
from django.db import transaction

from apps.classification.core.profile import Profile
from apps.classification.selectors import profiles
from apps.common.core.interference import N_SOURCES
from apps.common.infrastructure.database import fetch_rows
from apps.inventory.core.snapshot import Bools, Floats
from apps.inventory.selectors import cluster_now, log_position
from apps.placement.core.rebalancing.cluster import RunningCluster
from apps.placement.selectors.objectives import cost_per_watt
from apps.workloads.selectors import LAUNCH_PROGRESS

UNKNOWN_SPEED: Final = 1e-3  # on a platform missing in the profile: never a target
_SERVERS: Final = """
SELECT s.id, s.name, s.rack_id, s.platform_id, s.cores, s.idle_watts, s.peak_watts,
       s.state = 'active', s.memory_bytes * s.oversubscription,
       s.network_bps * s.oversubscription, s.storage_bytes * s.oversubscription, s.labels
FROM inventory_server s ORDER BY s.id
"""
_RACKS: Final = "SELECT id, name FROM inventory_rack ORDER BY id"
_PLATFORMS: Final = "SELECT id, name FROM inventory_platform ORDER BY rank"
_ALLOCATIONS: Final = """
SELECT a.id, a.server_id, a.cores, a.memory_bytes, a.network_bps, a.storage_bytes, a.job_id,
       j.state = 'running' AND NOT j.cancel_requested
           AND (j.program IS NULL OR a.id = ANY(%(named)s))
           AND (a.moved_from IS NULL OR a.moved_s IS NOT NULL),
       c.intensity, coalesce(c.is_taz, false), coalesce(c.communication, 0)
FROM scheduling_allocation a
JOIN workloads_job j ON j.id = a.job_id
LEFT JOIN placement_containerclass c ON c.allocation_id = a.id
WHERE a.released_seq IS NULL ORDER BY a.id
"""
_ALLOCATIONS_AT: Final = """
SELECT a.id, a.server_id, a.cores, a.memory_bytes, a.network_bps, a.storage_bytes, a.job_id,
       coalesce(j.started_s, 1e300) <= %(at_s)s AND j.program IS NULL
           AND (a.moved_from IS NULL OR coalesce(a.moved_s, 1e300) <= %(at_s)s),
       c.intensity, coalesce(c.is_taz, false), coalesce(c.communication, 0)
FROM scheduling_allocation a
JOIN workloads_job j ON j.id = a.job_id
LEFT JOIN placement_containerclass c ON c.allocation_id = a.id
WHERE a.acquired_s <= %(at_s)s AND (a.released_s IS NULL OR a.released_s > %(at_s)s)
ORDER BY a.id
"""
_JOBS: Final = f"""
SELECT j.id, j.name, j.attainment, j.constraints, j.started_s, {LAUNCH_PROGRESS}, j.duration_s,
       j.held, p.id, EXISTS (SELECT FROM execution_migration m
                     WHERE m.job_id = j.id AND m.state IN ('requested', 'running'))
FROM workloads_job j
LEFT JOIN classification_profile p ON p.application_id = j.application_id AND p.is_current
WHERE j.id = ANY(%s) ORDER BY j.id
"""  # noqa: S608 - a constant


class _ServerRow(NamedTuple):
    id: int
    name: str
    rack: int
    platform: int
    cores: int
    idle_watts: float
    peak_watts: float
    is_active: bool
    memory: float
    network: float
    storage: float
    labels: str


class _AllocationRow(NamedTuple):
    """An allocation; ``runs`` if its job runs in it, else it only reserves its units."""

    id: int
    server: int
    cores: int
    memory: float
    network: float
    storage: float
    job: UUID
    runs: bool
    intensity: float | None
    is_taz: bool
    communication: int


class _JobRow(NamedTuple):
    id: UUID
    name: str
    attainment: float | None
    constraints: str
    started_s: float | None
    progress: float
    duration_s: float | None
    held: bool
    profile: UUID | None
    is_moving: bool


class RebalancingScope(NamedTuple):
    """Containers that may be migrated, and their targets.

    Attributes
    ----------
    racks : names of the racks that containers move within; empty = all
    youngest_s : jobs younger than this, or expected to end within it, are not movable
    pinned : jobs that are not movable
    """

    racks: frozenset[str] = frozenset()
    youngest_s: float = 0.0
    pinned: frozenset[UUID] = frozenset()


def read_cluster(
    at_s: float | None = None,
    scope: RebalancingScope | None = None,
    *,
    named: Collection[int] = (),
) -> RunningCluster:
    """Read the cluster, now or at a cluster time.

    Container classes are those last measured. A container is not movable (`is_movable`) if its job
    is held, migrating, has spread or locality constraints, has no profile, or is out of scope.

    Parameters
    ----------
    named : ids of allocations that somebody wants to migrate. Those of commands are containers
        only if they are named: a migration stops a command and starts it again

    Raises
    ------
    ValueError : a rack does not exist.
    """
    # read first: a concurrent change makes the cluster newer than its sequence, never older
    sequence = log_position()
    with transaction.atomic():
        racks, platforms = fetch_rows(_RACKS), fetch_rows(_PLATFORMS)
        servers = [_ServerRow(*row) for row in fetch_rows(_SERVERS)]
        now_s = cluster_now() if at_s is None else at_s
        sql = _ALLOCATIONS if at_s is None else _ALLOCATIONS_AT
        values = {"at_s": now_s, "named": list(named)}
        allocations = [_AllocationRow(*row) for row in fetch_rows(sql, values)]
        job_ids = sorted({row.job for row in allocations if row.runs})
        jobs = [_JobRow(*row) for row in fetch_rows(_JOBS, [job_ids])]
        known = cached_profiles({job.profile for job in jobs if job.profile})
    scope = scope or RebalancingScope()
    _check_racks(scope.racks, [name for _, name in racks])
    return _build_cluster(
        _ClusterRows(now_s, sequence, racks, platforms, servers, allocations, jobs, known),
        scope,
    )


class _ClusterRows(NamedTuple):
    now_s: float
    sequence: int
    racks: Sequence[tuple[int, str]]
    platforms: Sequence[tuple[int, str]]
    servers: Sequence[_ServerRow]
    allocations: Sequence[_AllocationRow]
    jobs: Sequence[_JobRow]
    profiles: Mapping[UUID, Profile]


def _build_cluster(rows: _ClusterRows, scope: RebalancingScope) -> RunningCluster:
    server_id = np.array([s.id for s in rows.servers], dtype=np.int64)
    place = {pk: i for i, pk in enumerate(server_id.tolist())}
    job_at = {job.id: i for i, job in enumerate(rows.jobs)}
    allocations = [a for a in rows.allocations if a.server in place]
    units = np.zeros(server_id.size, dtype=np.int64)
    used = np.zeros((server_id.size, 3))
    for a in allocations:
        units[place[a.server]] += a.cores
        used[place[a.server]] += (a.memory, a.network, a.storage)
    running = [a for a in allocations if a.runs and a.job in job_at]
    rack = _index([s.rack for s in rows.servers], [pk for pk, _ in rows.racks])
    platform = _index([s.platform for s in rows.servers], [pk for pk, _ in rows.platforms])
    names = [name for _, name in rows.platforms]
    job = np.array([job_at[a.job] for a in running], dtype=np.int64)
    assignment = np.array([place[a.server] for a in running], dtype=np.int64)
    in_scope = _in_scope(rows.racks, rack, scope.racks)
    movable = np.array([_is_movable(j, rows.now_s, scope) for j in rows.jobs], dtype=np.bool_)
    capacity = np.array([(s.memory, s.network, s.storage) for s in rows.servers]).reshape(-1, 3)
    communication = np.zeros(len(rows.jobs), dtype=np.int64)
    np.maximum.at(communication, job, np.array([a.communication for a in running], dtype=np.int64))
    known = [rows.profiles.get(j.profile) if j.profile else None for j in rows.jobs]
    return RunningCluster(
        at_s=rows.now_s,
        sequence=rows.sequence,
        server_id=server_id,
        server_name=tuple(s.name for s in rows.servers),
        rack=rack,
        rack_name=tuple(name for _, name in rows.racks),
        platform=platform,
        platform_name=tuple(names),
        units=np.array([s.cores for s in rows.servers], dtype=np.int64),
        idle_watts=np.array([s.idle_watts for s in rows.servers]),
        peak_watts=np.array([s.peak_watts for s in rows.servers]),
        is_open=np.array([s.is_active for s in rows.servers], dtype=np.bool_) & in_scope,
        held_units=units,
        room=np.maximum(capacity - used, 0.0),
        allocation_id=np.array([a.id for a in running], dtype=np.int64),
        job=job,
        assignment=assignment,
        size=np.array([a.cores for a in running], dtype=np.int64),
        demand=np.array([(a.memory, a.network, a.storage) for a in running]).reshape(-1, 3),
        intensity=np.array([a.intensity or 0.0 for a in running]),
        is_taz=np.array([a.is_taz for a in running], dtype=np.bool_),
        is_movable=(movable[job] & in_scope[assignment])
        if job.size
        else np.zeros(0, dtype=np.bool_),
        job_id=tuple(str(j.id) for j in rows.jobs),
        job_name=tuple(j.name for j in rows.jobs),
        communication=communication,
        is_allowed=_allowed(rows, platform),
        attainment=np.array([np.nan if j.attainment is None else j.attainment for j in rows.jobs]),
        speed=np.array([_speeds(profile, names) for profile in known]).reshape(-1, len(names)),
        caused=np.array(
            [np.zeros(N_SOURCES) if p is None else p.caused.value for p in known]
        ).reshape(-1, N_SOURCES),
        tolerated=np.array(
            [np.full(N_SOURCES, 100.0) if p is None else p.assumed_tolerance for p in known]
        ).reshape(-1, N_SOURCES),
        rates=cost_per_watt([name for _, name in rows.racks], rack),
    )


def _is_movable(job: _JobRow, now_s: float, scope: RebalancingScope) -> bool:
    """Whether the containers of a job may be migrated."""
    if job.held or job.is_moving or job.profile is None or job.id in scope.pinned:
        return False
    constraints = json.loads(job.constraints)
    if constraints.get("spread") or constraints.get("locality"):
        return False
    ran_s = now_s - (now_s if job.started_s is None else job.started_s)
    left_s = np.inf if job.progress <= 0.0 else ran_s * (1.0 - job.progress) / job.progress
    if job.duration_s is not None:
        left_s = min(left_s, job.duration_s - ran_s)
    return ran_s >= scope.youngest_s and left_s >= scope.youngest_s


def _allowed(rows: _ClusterRows, platform: "np.ndarray[Any, np.dtype[np.int64]]") -> Bools:
    """(j, n) servers that satisfy the platform, label and server constraints of each job."""
    names = np.array([name for _, name in rows.platforms], dtype=object)[platform]
    labels = [frozenset(json.loads(s.labels).items()) for s in rows.servers]
    allowed: Bools = np.ones((len(rows.jobs), len(rows.servers)), dtype=np.bool_)
    for row, job in enumerate(rows.jobs):
        constraints = json.loads(job.constraints)
        if constraints.get("platforms"):
            allowed[row] &= np.isin(names, constraints["platforms"])
        if constraints.get("labels"):
            required = frozenset(constraints["labels"].items())
            allowed[row] &= np.array([required <= own for own in labels])
        if constraints.get("excluded"):
            excluded = frozenset(constraints["excluded"])
            allowed[row] &= np.array([s.name not in excluded for s in rows.servers])
    return allowed


def _in_scope(
    racks: Sequence[tuple[int, str]], rack: "np.ndarray[Any, np.dtype[np.int64]]", named: Any
) -> Bools:
    """(n,) servers in the named racks; all if no rack is named."""
    is_named = np.array([not named or name in named for _, name in racks], dtype=np.bool_)
    return is_named[rack] if rack.size else np.zeros(0, dtype=np.bool_)


def _check_racks(named: Collection[str], known: Sequence[str]) -> None:
    for name in sorted(named):
        if name not in known:
            raise ValueError(f"there is no rack {name!r}; known racks: {', '.join(known)}")


def _speeds(profile: Profile | None, names: Iterable[str]) -> Floats:
    if profile is None:
        return np.array([1.0 for _ in names])
    known = dict(zip(profile.platforms, profile.platform_speed.value.tolist(), strict=True))
    return np.array([known.get(name, UNKNOWN_SPEED) for name in names])


def cached_profiles(profile_ids: Collection[UUID]) -> dict[UUID, Profile]:
    """Return profiles by id; each is read once, as its row never changes."""
    missing = [pk for pk in profile_ids if pk not in _cache()]
    if missing:
        if len(_cache()) > 5_000:
            _cache().clear()
        _cache().update(profiles(missing))
    return {pk: _cache()[pk] for pk in profile_ids if pk in _cache()}


@lru_cache(maxsize=1)
def _cache() -> dict[UUID, Profile]:
    return {}


def _index(keys: Iterable[int], names: Sequence[int]) -> "np.ndarray[Any, np.dtype[np.int64]]":
    place = {pk: i for i, pk in enumerate(names)}
    return np.array([place[key] for key in keys], dtype=np.int64)
