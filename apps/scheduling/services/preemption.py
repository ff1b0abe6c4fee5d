"""The room that a waiting job has on each server, for the choice of victims."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Bools, Ints, Snapshot, Topology
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.cluster.capacity import unit_vectors
from apps.scheduling.core.cluster.places import place_of
from apps.scheduling.core.preemption.victims import Rooms, Waiting
from apps.scheduling.core.requests import servers_named
from apps.scheduling.core.reservations.gangs import (
    SHORT_OF_UNITS,
    held_mask,
    kept_room,
    units_of,
    usable_servers,
    without_room,
)
from apps.scheduling.core.sharing.claims import OpenUnits, claimed_servers
from apps.scheduling.core.sharing.quotas import Standing, allowance, beyond_limit
from apps.scheduling.core.types import Request, Within
from apps.scheduling.services.dry_run import frozen_cluster
from apps.scheduling.services.reservations import reservations
from apps.workloads.core.lifecycle import JobState
from apps.workloads.core.reasons import MEANINGS, Reason
from apps.workloads.models import Job, WaitingShape

_REASONS: Final = frozenset(reason.value for reason in SHORT_OF_UNITS)


@dataclass(frozen=True, slots=True, eq=False)
class RoomForJob:
    """The servers that a waiting job may use.

    Attributes
    ----------
    waiting : its units and priority
    run_s : its pessimistic run time, cluster seconds; None = unknown
    rooms : the servers
    reserved : ids of the units that are reserved for other jobs
    opened : units of all servers
    request : that was refused, without interference
    """

    waiting: Waiting
    run_s: float | None
    rooms: Rooms
    reserved: frozenset[int]
    opened: OpenUnits
    request: Request
    _topology: Topology
    _free: Bools

    @property
    def reserved_on(self) -> list[int]:
        """Ids of the servers with units that are reserved for other jobs."""
        units = np.isin(self._topology.unit_id, list(self.reserved))
        servers = np.unique(self._topology.unit_server[units])
        return self._topology.server_id[servers].tolist()

    def free_on(self, server: int) -> list[int]:
        """Return the free units of a server, ascending, that no other job has reserved."""
        index = self._index(server)
        first = int(self._topology.server_first_unit[index])
        units = slice(first, first + int(self._topology.server_units[index]))
        return self._topology.unit_id[units][self._free[units]].tolist()

    def name_of(self, server: int) -> str:
        """Return the name of a server."""
        return self._topology.server_name[self._index(server)]

    def beyond_quota(
        self,
        standings: Mapping[UUID, Standing],
        project: UUID,
        freed: Mapping[int, int],
        servers: Collection[int],
    ) -> str:
        """Return why the quota of its project refuses the job units; empty if it does not.

        Parameters
        ----------
        freed : units that other jobs have freed, by id of the server
        servers : ids of those whose units it takes
        """
        free = self.opened.free.copy()
        for server, units in freed.items():
            free[self._index(server)] += units
        opened, facts = self.opened._replace(free=free), TopologyFacts(self._topology)
        lenders = claimed_servers(standings, {}, opened, facts)
        loan = lenders.loan(project, self.request) if lenders else None
        limit = allowance(standings, project, int(free.sum()), loan=loan)
        is_lent = limit.covers(self.waiting.units)
        if loan and loan.pool and self.waiting.units > standings[project].unused:
            places = [self._index(server) for server in servers]
            is_lent = is_lent and bool(loan.pool.mask()[places].all())
        if is_lent:
            return ""
        return beyond_limit(standings[project], self.request.min_units) or limit.detail

    def _index(self, server: int) -> int:
        return int(np.searchsorted(self._topology.server_id, server))


def why_no_preemption(job: Job) -> str:
    """Return why a job cannot preempt others; empty if it can."""
    if job.state != JobState.QUEUED or job.cancel_requested:
        return f"The job is {job.state}. Only queued jobs can preempt others."
    if job.held:
        return "The job is on hold. Release it first."
    if job.shape is None:
        return "No agent has evaluated the job since it was queued. Try again in some seconds."
    if job.shape.reason_code not in _REASONS:
        sentence = MEANINGS[Reason(job.shape.reason_code)].sentence
        return f"The job does not wait for units of running jobs. {sentence}"
    return ""


def room_for(job: Job, shape: WaitingShape) -> RoomForJob:
    """Return the room of a job that waits for units, in the size that its agents requested."""
    snapshot, others = frozen_cluster(), [each for each in reservations() if each.job != job.pk]
    snapshot = without_room(snapshot, kept_room(others, snapshot.topology))
    topology, request = snapshot.topology, _request(job, shape, snapshot.topology)
    free = snapshot.unit_free & ~held_mask(topology, others)
    usable = np.flatnonzero(usable_servers(request, snapshot, TopologyFacts(topology)))
    return RoomForJob(
        waiting=Waiting(request.units, job.priority, is_spread=request.spread is not None),
        run_s=shape.run_high_s,
        rooms=_rooms(request, snapshot, usable, free),
        reserved=units_of(others),
        opened=OpenUnits.of(snapshot),
        request=request,
        _topology=topology,
        _free=free,
    )


def _request(job: Job, shape: WaitingShape, topology: Topology) -> Request:
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
        excluded=servers_named(topology, job.constraints.get("excluded", ())),
        locality=Within(locality) if locality else None,
        spread=Within(spread) if spread else None,
    )


def _rooms(request: Request, snapshot: Snapshot, usable: Ints, free: Bools) -> Rooms:
    topology = snapshot.topology
    vectors = unit_vectors(topology, usable.astype(np.int32), request)
    free_units = np.bincount(topology.unit_server, free, minlength=topology.server_id.size)
    return Rooms(
        server=topology.server_id[usable],
        free_units=free_units[usable].astype(np.int64),
        free=np.maximum(snapshot.server_free[usable], 0.0).astype(np.int64),
        per_unit=np.floor(vectors).astype(np.int64),
        group=place_of(topology, request.locality)[usable].astype(np.int64),
        place=place_of(topology, request.spread or Within.SERVER)[usable].astype(np.int64),
    )
