"""The running cluster as arrays: what `core.live` needs of servers, allocations, jobs, profiles.

A few statements, whatever the size. What runs is one of them, so that the units held agree with
the containers. Profiles are decoded once and kept by id: their rows never change.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
from django.db import connection, transaction

from apps.classification.core.profile import Profile
from apps.classification.selectors import profiles
from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Bools, Floats
from apps.inventory.selectors import cluster_now
from apps.placement.core.live import Cluster
from apps.placement.selectors.objectives import watt_rates

UNKNOWN_SPEED: Final = 1e-3  # of a platform the profile does not know: never moved to
_SERVERS: Final = """
SELECT s.id, s.name, s.rack_id, s.platform_id, s.cores, s.idle_watts, s.peak_watts,
       s.state = 'active', s.memory_bytes * s.oversubscription,
       s.network_bps * s.oversubscription, s.storage_bytes * s.oversubscription, s.labels
FROM inventory_server s ORDER BY s.id
"""
_RACKS: Final = "SELECT id, name FROM inventory_rack ORDER BY id"
_PLATFORMS: Final = "SELECT id, name FROM inventory_platform ORDER BY rank"
_HELD: Final = """
SELECT a.id, a.server_id, a.cores, a.memory_bytes, a.network_bps, a.storage_bytes, a.job_id,
       j.state = 'running' AND NOT j.cancel_requested
           AND (a.moved_from IS NULL OR a.moved_s IS NOT NULL),
       c.intensity, coalesce(c.is_taz, false), coalesce(c.communication, 0)
FROM scheduling_allocation a
JOIN workloads_job j ON j.id = a.job_id
LEFT JOIN placement_containerclass c ON c.allocation_id = a.id
WHERE a.released_seq IS NULL ORDER BY a.id
"""
_HELD_AT: Final = """
SELECT a.id, a.server_id, a.cores, a.memory_bytes, a.network_bps, a.storage_bytes, a.job_id,
       coalesce(j.started_s, 1e300) <= %(at_s)s
           AND (a.moved_from IS NULL OR coalesce(a.moved_s, 1e300) <= %(at_s)s),
       c.intensity, coalesce(c.is_taz, false), coalesce(c.communication, 0)
FROM scheduling_allocation a
JOIN workloads_job j ON j.id = a.job_id
LEFT JOIN placement_containerclass c ON c.allocation_id = a.id
WHERE a.acquired_s <= %(at_s)s AND (a.released_s IS NULL OR a.released_s > %(at_s)s)
ORDER BY a.id
"""
_JOBS: Final = """
SELECT j.id, j.name, j.attainment, j.constraints, j.started_s, j.progress, j.duration_s, j.held,
       p.id, EXISTS (SELECT FROM execution_migration m
                     WHERE m.job_id = j.id AND m.state IN ('requested', 'running'))
FROM workloads_job j
LEFT JOIN classification_profile p ON p.application_id = j.application_id AND p.is_current
WHERE j.id = ANY(%s) ORDER BY j.id
"""


class _Server(NamedTuple):
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


class _Held(NamedTuple):
    """An allocation; ``runs``: its job does, and there; else its units are held and no more."""

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


class _Job(NamedTuple):
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


class Choice(NamedTuple):
    """What may be moved, and where to.

    Attributes
    ----------
    racks : names; only their containers, within them; empty = all
    youngest_s : jobs that run for less, or are expected to end within, stay where they are
    pinned : jobs that stay where they are
    """

    racks: frozenset[str] = frozenset()
    youngest_s: float = 0.0
    pinned: frozenset[UUID] = frozenset()


def read_cluster(at_s: float | None = None, choice: Choice | None = None) -> Cluster:
    """Read what runs where, now or at a moment of cluster time.

    Classes of containers are those last measured. A container stays where it is (`is_movable`)
    while its job is held, moves already, asks to be near or far from itself, has no profile, or is
    not of the choice.

    Raises
    ------
    ValueError : a rack there is not.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        # first: what changes meanwhile makes the answer newer than it says, never older
        ((sequence,),) = _rows(cursor, "SELECT coalesce(max(seq), 0) FROM inventory_change")
        racks, platforms = _rows(cursor, _RACKS), _rows(cursor, _PLATFORMS)
        servers = [_Server(*row) for row in _rows(cursor, _SERVERS)]
        now_s = cluster_now() if at_s is None else at_s
        found = _rows(cursor, _HELD if at_s is None else _HELD_AT, {"at_s": now_s})
        held = [_Held(*row) for row in found]
        wanted = sorted({one.job for one in held if one.runs})
        jobs = [_Job(*row) for row in _rows(cursor, _JOBS, [wanted])]
        known = profiles_of({job.profile for job in jobs if job.profile})
    choice = choice or Choice()
    _check_racks(choice.racks, [name for _, name in racks])
    return _assembled(
        _Read(now_s, int(sequence), racks, platforms, servers, held, jobs, known), choice
    )


class _Read(NamedTuple):
    now_s: float
    sequence: int
    racks: Sequence[tuple[int, str]]
    platforms: Sequence[tuple[int, str]]
    servers: Sequence[_Server]
    held: Sequence[_Held]
    jobs: Sequence[_Job]
    profiles: Mapping[UUID, Profile]


def _assembled(read: _Read, choice: Choice) -> Cluster:
    server_id = np.array([s.id for s in read.servers], dtype=np.int64)
    place = {pk: i for i, pk in enumerate(server_id.tolist())}
    job_at = {job.id: i for i, job in enumerate(read.jobs)}
    here = [one for one in read.held if one.server in place]
    units = np.zeros(server_id.size, dtype=np.int64)
    taken = np.zeros((server_id.size, 3))
    for one in here:
        units[place[one.server]] += one.cores
        taken[place[one.server]] += (one.memory, one.network, one.storage)
    running = [one for one in here if one.runs and one.job in job_at]
    rack = _index([s.rack for s in read.servers], [pk for pk, _ in read.racks])
    platform = _index([s.platform for s in read.servers], [pk for pk, _ in read.platforms])
    names = [name for _, name in read.platforms]
    job = np.array([job_at[one.job] for one in running], dtype=np.int64)
    home = np.array([place[one.server] for one in running], dtype=np.int64)
    chosen = _chosen(read.racks, rack, choice.racks)
    moves = np.array([_moves(one, read.now_s, choice) for one in read.jobs], dtype=np.bool_)
    capacity = np.array([(s.memory, s.network, s.storage) for s in read.servers]).reshape(-1, 3)
    wish = np.zeros(len(read.jobs), dtype=np.int64)
    np.maximum.at(wish, job, np.array([one.communication for one in running], dtype=np.int64))
    known = [read.profiles.get(one.profile) if one.profile else None for one in read.jobs]
    return Cluster(
        at_s=read.now_s,
        sequence=read.sequence,
        server_id=server_id,
        server_name=tuple(s.name for s in read.servers),
        rack=rack,
        rack_name=tuple(name for _, name in read.racks),
        platform=platform,
        platform_name=tuple(names),
        units=np.array([s.cores for s in read.servers], dtype=np.int64),
        idle_watts=np.array([s.idle_watts for s in read.servers]),
        peak_watts=np.array([s.peak_watts for s in read.servers]),
        is_open=np.array([s.is_active for s in read.servers], dtype=np.bool_) & chosen,
        held_units=units,
        room=np.maximum(capacity - taken, 0.0),
        allocation_id=np.array([one.id for one in running], dtype=np.int64),
        job=job,
        home=home,
        size=np.array([one.cores for one in running], dtype=np.int64),
        demand=np.array([(x.memory, x.network, x.storage) for x in running]).reshape(-1, 3),
        intensity=np.array([one.intensity or 0.0 for one in running]),
        is_taz=np.array([one.is_taz for one in running], dtype=np.bool_),
        is_movable=(moves[job] & chosen[home]) if job.size else np.zeros(0, dtype=np.bool_),
        job_id=tuple(str(one.id) for one in read.jobs),
        job_name=tuple(one.name for one in read.jobs),
        wish=wish,
        is_allowed=_allowed(read, platform),
        attainment=np.array(
            [np.nan if one.attainment is None else one.attainment for one in read.jobs]
        ),
        speed=np.array([_speeds(one, names) for one in known]).reshape(-1, len(names)),
        caused=np.array(
            [np.zeros(N_SOURCES) if one is None else one.caused for one in known]
        ).reshape(-1, N_SOURCES),
        tolerated=np.array(
            [np.full(N_SOURCES, 100.0) if one is None else one.tolerated_low for one in known]
        ).reshape(-1, N_SOURCES),
        rates=watt_rates([name for _, name in read.racks], rack),
    )


def _moves(job: _Job, now_s: float, choice: Choice) -> bool:
    """Whether the containers of a job may be moved."""
    if job.held or job.is_moving or job.profile is None or job.id in choice.pinned:
        return False
    asked = json.loads(job.constraints)
    if asked.get("spread") or asked.get("locality"):
        return False
    ran_s = now_s - (now_s if job.started_s is None else job.started_s)
    left_s = np.inf if job.progress <= 0.0 else ran_s * (1.0 - job.progress) / job.progress
    if job.duration_s is not None:
        left_s = min(left_s, job.duration_s - ran_s)
    return ran_s >= choice.youngest_s and left_s >= choice.youngest_s


def _allowed(read: _Read, platform: "np.ndarray[Any, np.dtype[np.int64]]") -> Bools:
    """(j, n) by the platforms and labels that jobs ask for."""
    names = np.array([name for _, name in read.platforms], dtype=object)[platform]
    labels = [frozenset(json.loads(s.labels).items()) for s in read.servers]
    allowed: Bools = np.ones((len(read.jobs), len(read.servers)), dtype=np.bool_)
    for row, job in enumerate(read.jobs):
        asked = json.loads(job.constraints)
        if asked.get("platforms"):
            allowed[row] &= np.isin(names, asked["platforms"])
        if asked.get("labels"):
            wanted = frozenset(asked["labels"].items())
            allowed[row] &= np.array([wanted <= held for held in labels])
    return allowed


def _chosen(
    racks: Sequence[tuple[int, str]], rack: "np.ndarray[Any, np.dtype[np.int64]]", named: Any
) -> Bools:
    """(n,) servers of the racks named; all, if none is."""
    every = np.array([not named or name in named for _, name in racks], dtype=np.bool_)
    return every[rack] if rack.size else np.zeros(0, dtype=np.bool_)


def _check_racks(named: Collection[str], there: Sequence[str]) -> None:
    for name in sorted(named):
        if name not in there:
            raise ValueError(f"there is no rack {name!r}: there are {', '.join(there)}")


def _speeds(profile: Profile | None, names: Iterable[str]) -> Floats:
    if profile is None:
        return np.array([1.0 for _ in names])
    known = dict(zip(profile.platforms, profile.platform_speed.tolist(), strict=True))
    return np.array([known.get(name, UNKNOWN_SPEED) for name in names])


def profiles_of(profile_ids: Collection[UUID]) -> dict[UUID, Profile]:
    """Profiles by id; rows never change, so those read before are not read again."""
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


# Django leaves JSON columns of plain cursors as text
def _rows(cursor: Any, sql: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    cursor.execute(sql, parameters)
    rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows
