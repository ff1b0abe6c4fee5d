"""The room that a waiting job has on each server, for the choice of victims."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Ints, Snapshot
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.capacity import unit_vectors
from apps.scheduling.core.preemption import Room, Vector, Waiting
from apps.scheduling.core.reservations import SHORT_OF_UNITS, held_mask, usable_servers
from apps.scheduling.core.types import Request, Within
from apps.scheduling.services.dry_run import frozen_cluster
from apps.scheduling.services.reservations import reservations
from apps.workloads.core.lifecycle import JobState
from apps.workloads.models import Job, WaitingShape

_REASONS: Final = frozenset(reason.value for reason in SHORT_OF_UNITS)


@dataclass(frozen=True, slots=True)
class RoomForJob:
    """The servers that a waiting job may use.

    Attributes
    ----------
    waiting : its units and priority
    run_s : its pessimistic run time, cluster seconds; None = unknown
    rooms : by id of the server
    free : ids of the free units of each server that no other job has reserved
    reserved : ids of the units that are reserved for other jobs
    names : of the servers
    """

    waiting: Waiting
    run_s: float | None
    rooms: Mapping[int, Room]
    free: Mapping[int, list[int]]
    reserved: frozenset[int]
    names: Mapping[int, str]


def why_no_preemption(job: Job) -> str:
    """Return why stopping other jobs does not let a job start; empty if it does."""
    if job.state != JobState.QUEUED or job.cancel_requested:
        return f"The job is {job.state}. Only queued jobs can preempt others."
    if job.held:
        return "The job is on hold. Release it first."
    if job.shape is None:
        return "No agent has evaluated the job since it was queued. Try again in some seconds."
    if job.shape.reason_code not in _REASONS:
        return f"The job does not wait for units, but for another reason: {job.reason_code}."
    return ""


def room_for(job: Job, shape: WaitingShape) -> RoomForJob:
    """Return the room of a job that waits for units, in the size that its agents requested."""
    snapshot = frozen_cluster()
    topology, request = snapshot.topology, _request(job, shape)
    others = [each for each in reservations() if each.job != job.pk]
    free = snapshot.unit_free & ~held_mask(topology, others)
    usable = np.flatnonzero(usable_servers(request, snapshot, TopologyFacts(topology)))
    units: dict[int, list[int]] = defaultdict(list)
    for unit in np.flatnonzero(free):
        server = int(topology.server_id[topology.unit_server[unit]])
        units[server].append(int(topology.unit_id[unit]))
    return RoomForJob(
        waiting=Waiting(request.units, job.priority, is_spread=request.spread is not None),
        run_s=shape.run_high_s,
        rooms=_rooms(request, snapshot, usable, units),
        free=units,
        reserved=frozenset[int]().union(*(each.units for each in others)),
        names=dict(zip(topology.server_id.tolist(), topology.server_name, strict=True)),
    )


def _request(job: Job, shape: WaitingShape) -> Request:
    """Return the request that was refused, without interference."""
    spread, locality = job.constraints.get("spread"), job.constraints.get("locality")
    if shape.on_one_server:
        locality = Within.SERVER
    return Request(
        job=str(job.pk),
        units=shape.units,
        caused=np.zeros(N_SOURCES),
        tolerated=np.zeros(N_SOURCES),
        unit_memory_bytes=job.unit_memory_bytes,
        unit_network_bps=job.unit_network_bps,
        unit_storage_bytes=job.unit_storage_bytes,
        gang=job.gang,
        platforms=None if shape.platforms is None else frozenset(shape.platforms),
        labels=frozenset(shape.labels),
        locality=Within(locality) if locality else None,
        spread=Within(spread) if spread else None,
    )


def _rooms(
    request: Request, snapshot: Snapshot, usable: Ints, free: Mapping[int, list[int]]
) -> dict[int, Room]:
    topology = snapshot.topology
    vectors = np.floor(unit_vectors(topology, usable.astype(np.int32), request)).astype(np.int64)
    left = np.maximum(snapshot.server_free[usable], 0.0).astype(np.int64)
    rooms = {}
    for server, vector, rest in zip(usable.tolist(), vectors.tolist(), left.tolist(), strict=True):
        places = {Within.SERVER: server, Within.RACK: int(topology.server_rack[server])}
        key = int(topology.server_id[server])
        rooms[key] = Room(
            free_units=len(free.get(key, ())),
            free=Vector(*rest),
            per_unit=Vector(*vector),
            group=0 if request.locality is None else places[request.locality],
            place=places[request.spread or Within.SERVER],
        )
    return rooms
