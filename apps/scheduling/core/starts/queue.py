"""The queue of a cluster as the input of start estimates."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints, Snapshot
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.reservations.gangs import Reservation
from apps.scheduling.core.sizing.run_time import RunTime
from apps.scheduling.core.starts.estimates import FreeUnits, RunningJob, WaitingGroup
from apps.scheduling.core.starts.state import NOBODY

SAME_RUN: Final = 0.05  # relative difference of predicted run times of equal requests
CLOSED: Final = -1  # the pool and the part of units on servers that accept no job


@dataclass(frozen=True, slots=True)
class ShapeFacts:
    """A waiting shape, or the shape of jobs that were submitted recently.

    Attributes
    ----------
    jobs : ids, in the order of their submission
    project : that submitted its first job; None = unknown
    is_satisfiable : False if servers must be added or opened before a job can start, or if the
        quota of its project refuses it
    reserve_s : cluster seconds until its first job may get a reservation; infinite: never
    on_one_server : whether the units of a job must be on one server
    patience_s : cluster seconds that each job may still wait for better units than the free ones,
        for which its shape was refused; empty: it was refused for another reason
    """

    key: UUID
    jobs: Sequence[UUID]
    kind: str
    units: int
    fewest: int
    platforms: frozenset[str] | None = None
    labels: frozenset[str] = frozenset()
    run: RunTime | None = None
    priority: int = 0
    project: UUID | None = None
    reserve_s: float = math.inf
    is_satisfiable: bool = True
    on_one_server: bool = False
    patience_s: Sequence[float] = ()

    @property
    def each_patience_s(self) -> Sequence[float]:
        """`patience_s`, with an infinite time for each job if the shape has none."""
        return self.patience_s or [math.inf] * len(self.jobs)

    def has_request_of(self, other: "ShapeFacts") -> bool:
        """Whether jobs of another shape request the same, and take about as long."""
        own, others = self.run, other.run
        if own is not None and others is not None:
            others = own if math.isclose(own.value, others.value, rel_tol=SAME_RUN) else others
        rest = replace(other, key=self.key, jobs=self.jobs, reserve_s=self.reserve_s, run=others)
        return replace(rest, patience_s=self.patience_s) == self


@dataclass(frozen=True, slots=True)
class Holding:
    """Units that a job holds, and what is known about its end."""

    unit_ids: Sequence[int]
    kind: str
    elapsed_s: float
    run: RunTime | None
    progress: float


def in_turn(shapes: Sequence[ShapeFacts], shares: Mapping[UUID, float]) -> list[ShapeFacts]:
    """Return shapes in the order in which agents evaluate them if all are woken.

    As `workloads.services.shapes` orders them: the projects take turns; in each turn the highest
    priority is first, then the smallest dominant share. O(n log n).

    Parameters
    ----------
    shapes : in the order of their places in the queue
    shares : dominant shares of the projects
    """
    turns = Counter[UUID | None]()
    keys: list[tuple[int, int, float, int]] = []
    for place, shape in sorted(enumerate(shapes), key=lambda each: -each[1].priority):
        share = 0.0 if shape.project is None else shares.get(shape.project, 0.0)
        keys.append((turns[shape.project], -shape.priority, share, place))
        turns[shape.project] += 1
    return [shapes[place] for *_, place in sorted(keys)]


def joined(shapes: Sequence[ShapeFacts], new: ShapeFacts) -> list[ShapeFacts]:
    """Return shapes with the jobs of a new one: at the end of an equal shape, or behind them."""
    for place, shape in enumerate(shapes):
        if shape.has_request_of(new):
            own = replace(shape, jobs=[*shape.jobs, *new.jobs])
            if shape.patience_s or new.patience_s:
                own = replace(own, patience_s=[*shape.each_patience_s, *new.each_patience_s])
            return [*shapes[:place], own, *shapes[place + 1 :]]
    return [*shapes, new]


@dataclass(frozen=True, slots=True, eq=False)
class QueueFacts:
    """Pools, groups and running jobs, and the ids of the waiting jobs in the order of the groups.

    Attributes
    ----------
    group_of : index of the last group of each shape
    reserved_s : (n,) seconds until the reserved start of each job; infinite: it has no
        reservation, or its start is late
    """

    pools: FreeUnits
    groups: Sequence[WaitingGroup]
    running: Sequence[RunningJob]
    jobs: Sequence[UUID]
    group_of: Mapping[UUID, int]
    reserved_s: Floats


def queue_facts(
    snapshot: Snapshot,
    shapes: Sequence[ShapeFacts],
    holdings: Sequence[Holding],
    reservations: Sequence[Reservation],
    *,
    now_s: float,
) -> QueueFacts:
    """Count the free and busy units that the same jobs may use. O(C S + U), C constraints.

    A job with a reservation is a group of its own, before its shape.
    """
    facts = TopologyFacts(snapshot.topology)
    shapes = _with_holders(shapes, reservations)
    constraints = list(dict.fromkeys((s.platforms, s.labels) for s in shapes))
    usable = np.array(
        [
            facts.allowed(platforms)[snapshot.topology.server_platform] & facts.labelled(labels)
            for platforms, labels in constraints
        ],
        dtype=np.bool_,
    ).reshape(len(constraints), snapshot.topology.server_id.size)
    unit_pool, allowed, holder = _pools(snapshot, usable, reservations)
    until = np.array([each.start_s - now_s for each in reservations] + [math.inf])
    place = {shape.jobs[0]: i for i, shape in enumerate(shapes) if shape.jobs}
    groups_of = np.array([place.get(each.job, NOBODY) for each in reservations] + [NOBODY])
    unit_part, part_pool = _parts(unit_pool, snapshot.topology.unit_server.astype(np.int64))
    free = np.bincount(
        unit_part[snapshot.unit_free & (unit_part != CLOSED)], minlength=part_pool.size
    )
    pools = FreeUnits(free.astype(np.int64), part_pool, groups_of[holder], until[holder])
    rows = {constraint: allowed[i] for i, constraint in enumerate(constraints)}
    groups = [
        _group(shape, i, rows[shape.platforms, shape.labels], pools)
        for i, shape in enumerate(shapes)
    ]
    jobs = [job for shape in shapes for job in shape.jobs]
    return QueueFacts(
        pools=pools,
        groups=groups,
        running=_running(holdings, unit_part, snapshot.topology.unit_id),
        jobs=jobs,
        group_of={shape.key: i for i, shape in enumerate(shapes)},
        reserved_s=_reserved(jobs, reservations, now_s),
    )


def _reserved(jobs: Sequence[UUID], reservations: Sequence[Reservation], now_s: float) -> Floats:
    starts = {each.job: each.start_s - now_s for each in reservations if each.start_s > now_s}
    return np.array([starts.get(job, math.inf) for job in jobs], dtype=np.float64)


def _with_holders(
    shapes: Sequence[ShapeFacts], reservations: Sequence[Reservation]
) -> list[ShapeFacts]:
    """Split off the jobs that have reservations; they are tried first."""
    holders = {each.job for each in reservations}
    first, rest = [], []
    for shape in shapes:
        own = [job for job in shape.jobs if job in holders]
        at_once = (0.0,) if shape.patience_s else ()
        first += [replace(shape, jobs=[job], patience_s=at_once) for job in own]
        others = [i for i, job in enumerate(shape.jobs) if job not in holders]
        jobs = [shape.jobs[i] for i in others]
        patience_s = [shape.patience_s[i] for i in others] if shape.patience_s else ()
        rest.append(replace(shape, jobs=jobs, patience_s=patience_s))
    return first + rest


def _pools(
    snapshot: Snapshot, usable: Bools, reservations: Sequence[Reservation]
) -> tuple[Ints, Bools, Ints]:
    """Return the pool of each unit, who may use a pool, and the reservation that holds it.

    Returns
    -------
    (U,) pools; (C, P) constraints that a pool satisfies; (P,) index of the reservation, or -1
    """
    topology = snapshot.topology
    packed = np.packbits(usable, axis=0) if usable.size else np.zeros((1, usable.shape[1]), "u1")
    _, first, kinds = np.unique(packed, axis=1, return_index=True, return_inverse=True)
    held = np.full(topology.unit_id.size, len(reservations))
    for i, each in enumerate(reservations):
        held[np.isin(topology.unit_id, sorted(each.units))] = i
    servers = topology.unit_server.astype(np.int64)
    code = kinds.reshape(-1)[servers] * (len(reservations) + 1) + held
    is_open = snapshot.server_open[servers]
    codes = np.unique(code[is_open])
    unit_pool = np.where(is_open, np.searchsorted(codes, code), CLOSED)
    holder = codes % (len(reservations) + 1)
    allowed = usable[:, first[codes // (len(reservations) + 1)]]
    return unit_pool, allowed, np.where(holder == len(reservations), -1, holder)


def _parts(unit_pool: Ints, unit_server: Ints) -> tuple[Ints, Ints]:
    """Return the part of its server that each unit is in, (U,), and the pools of the parts."""
    code = np.where(unit_pool == CLOSED, CLOSED, unit_pool * (unit_server.max(initial=0) + 1))
    code = np.where(unit_pool == CLOSED, CLOSED, code + unit_server)
    codes, first = np.unique(code[code != CLOSED], return_index=True)
    unit_part = np.where(code == CLOSED, CLOSED, np.searchsorted(codes, code))
    return unit_part, unit_pool[code != CLOSED][first].astype(np.int64)


def _group(shape: ShapeFacts, index: int, allowed: Bools, pools: FreeUnits) -> WaitingGroup:
    longest_s = math.inf if shape.run is None else shape.run.high * shape.units / shape.fewest
    may_use = (pools.holder == NOBODY) | (pools.holder == index) | (longest_s <= pools.until_s)
    usable = pools.free * (allowed & may_use)[pools.pool]
    if shape.on_one_server:
        usable = usable[usable >= shape.fewest]
    free = int(usable.sum()) if shape.jobs else 0
    return WaitingGroup(
        allowed=allowed if shape.is_satisfiable else np.zeros_like(allowed),
        units=shape.units,
        fewest=shape.fewest,
        jobs=len(shape.jobs),
        kind=shape.kind,
        run=shape.run,
        priority=shape.priority,
        refused=free if free >= shape.fewest else 0,
        on_one_server=shape.on_one_server and shape.units > 1,
        reserve_s=shape.reserve_s,
        patience_s=shape.patience_s,
    )


def _running(holdings: Sequence[Holding], unit_part: Ints, unit_id: Ints) -> list[RunningJob]:
    found: list[RunningJob] = []
    for held in holdings:
        units = np.asarray(held.unit_ids, dtype=np.int64)
        places = np.minimum(np.searchsorted(unit_id, units), unit_id.size - 1)
        parts = unit_part[places[unit_id[places] == units]]
        known, counts = np.unique(parts[parts != CLOSED], return_counts=True)
        by_part = dict(zip(known.tolist(), counts.tolist(), strict=True))
        if by_part:
            found.append(RunningJob(by_part, held.kind, held.elapsed_s, held.run, held.progress))
    return found
