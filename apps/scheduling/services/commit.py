"""The optimistic commit: allocate the units of proposals, unless another agent was faster.

One transaction commits a batch. Conflicts are
resolved by `core.conflicts`, as in memory; PostgreSQL's constraints are the last line of defence.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final
from uuid import UUID

import numpy as np
from django.db import transaction

from apps.common.core.ids import uuid7
from apps.common.infrastructure.database import (
    fetch_rows,
    number_array,
    without_index,
)
from apps.common.infrastructure.log_numbers import Log, last_drawn
from apps.common.infrastructure.notifications import wake
from apps.inventory.core.backends import MACHINES, Capability
from apps.inventory.selectors import cluster_time
from apps.inventory.services import lock_servers, lock_units, unit_chips
from apps.scheduling.core.cluster.capacity import unit_vectors
from apps.scheduling.core.cluster.conflicts import Claim, KeptUnit, Vector, resolve_conflicts
from apps.scheduling.core.reservations.gangs import Reservation, binding, kept_room, units_of
from apps.scheduling.services.allocation_store import (
    Grant,
    allocate,
    record_allocations,
)
from apps.scheduling.services.backfill import start_s
from apps.scheduling.services.batches import insert_batches
from apps.scheduling.services.core_choices import UnitChips, Wanted, choose_cores
from apps.scheduling.services.decisions import (
    Occasion,
    insert_decisions,
    placed_reason,
    placed_rows,
    predicted_json,
)
from apps.scheduling.services.proposals import (
    AgentIdentity,
    CopyVersion,
    LostProposal,
    Proposal,
)
from apps.scheduling.services.quotas import left_in_limits, within_limits
from apps.scheduling.services.reservations import end_reservations, reservations
from apps.workloads import services as workloads


def commit(
    proposals: Sequence[Proposal], *, agent: AgentIdentity, copy: CopyVersion | None = None
) -> tuple[dict[UUID, int], list[LostProposal]]:
    """Allocate the units of proposals; earlier ones win conflicts.

    Parameters
    ----------
    copy : of the agent when it decided; None: its age is not stored

    Returns
    -------
    (change-log number by job for those committed, the others)
    """
    with transaction.atomic():
        ours = _lock_jobs([p.job.id for p in proposals], agent.name)
        left = left_in_limits({project for project in ours.values() if project is not None})
        alive = [p for p in proposals if p.job.id in ours]
        claims = [claim_of(p) for p in alive]
        by_command = [claim for p, claim in zip(alive, claims, strict=True) if p.job.runs_command]
        chips = unit_chips(server for claim in by_command for server in claim.servers)
        owners = lock_units(
            [
                *(unit for claim in claims for unit in claim.units),
                *(unit for units in chips.values() for unit in units),
            ]
        )
        reserved = reservations()
        claims = bar_reserved(alive, claims, reserved)
        claims, chosen = _choose_cores(alive, claims, chips, owners)
        free = lock_servers(server for claim in claims for server in claim.servers)
        found = resolve_conflicts(claims, owners, free)
        winners = within_limits(claims, found, [ours[p.job.id] for p in alive], left)
        over = {p.job.id for p, had, has in zip(alive, found, winners, strict=True) if had != has}
        won = [
            (p, _grant(p, claim, positions, chosen.get(claim.job)))
            for p, claim, positions in zip(alive, claims, winners, strict=True)
            if positions
        ]
        if reserved:
            end_reservations([p.job.id for p, _ in won])
        sequences = _write(won, free=free, agent=agent, copy=copy)
    lost = [
        LostProposal(p, is_gone=p.job.id not in ours, is_over_limit=p.job.id in over)
        for p in proposals
        if p.job.id not in sequences
    ]
    return sequences, lost


def _lock_jobs(job_ids: Iterable[UUID], agent: str) -> dict[UUID, UUID | None]:
    """Lock the jobs that may still be placed; returns their projects, None without a limit."""
    return dict(fetch_rows(_LOCK, [number_array(sorted(job_ids)), agent]))


_WANTS_UNITS: Final = without_index(
    "state IN ('submitted', 'queued') AND NOT held"
    " OR state IN ('starting', 'running') AND units_missing > 0"
)
_LOCK: Final = f"""
SELECT workloads_job.id,
       (SELECT p.id FROM accounts_project p
        WHERE p.id = project_id AND p.max_units IS NOT NULL) AS limited
FROM workloads_job
WHERE id = ANY(%s) AND NOT cancel_requested AND claimed_by = %s AND {_WANTS_UNITS}
ORDER BY workloads_job.id FOR NO KEY UPDATE
"""  # noqa: S608 - constants


def claim_of(proposal: Proposal) -> Claim:
    """Return the units and the capacity that a proposal claims."""
    request, topology = proposal.sized_job.request, proposal.sized_job.topology
    units = proposal.placed.units
    servers = topology.unit_server[units]
    # whole numbers, rounded down, so that M shares never exceed their server
    vectors = np.floor(unit_vectors(topology, servers, request)).tolist()
    return Claim(
        job=request.job,
        units=topology.unit_id[units].tolist(),
        servers=topology.server_id[servers].tolist(),
        vectors=[(v[0], v[1], v[2]) for v in vectors],
        whole=request.is_whole,
    )


def bar_reserved(
    proposals: Sequence[Proposal], claims: Sequence[Claim], reserved: Sequence[Reservation]
) -> list[Claim]:
    """Return the claims without the units of reservations for which their jobs end too late."""
    if not reserved or not proposals:
        return list(claims)
    from_s = start_s()

    @cache
    def barred(numbers: tuple[int, ...]) -> frozenset[int]:
        return units_of([reserved[i] for i in numbers])

    @cache
    def kept(numbers: tuple[int, ...]) -> Mapping[int, Sequence[KeptUnit]]:
        topology = proposals[0].sized_job.topology
        return kept_room([reserved[i] for i in numbers], topology).by_server(topology)

    found = []
    for p, claim in zip(proposals, claims, strict=True):
        by = binding(reserved, p.job.id, from_s + p.longest_s)
        found.append(replace(claim, barred=barred(by.units), kept=kept(by.room)))
    return found


def _choose_cores(
    proposals: Sequence[Proposal],
    claims: Sequence[Claim],
    chips: Mapping[int, UnitChips],
    owners: Mapping[int, int | None],
) -> tuple[list[Claim], dict[str, dict[str, Any]]]:
    """Exchange the units of commands on servers with several L3 groups.

    Returns
    -------
    (all claims, why these cores by job)
    """
    by_server: dict[int, list[int]] = defaultdict(list)
    for i, (proposal, claim) in enumerate(zip(proposals, claims, strict=True)):
        if (
            proposal.job.runs_command
            and len(set(claim.servers)) == 1
            and claim.servers[0] in chips
        ):
            by_server[claim.servers[0]].append(i)
    found, chosen = list(claims), dict[str, dict[str, Any]]()
    for server, places in by_server.items():
        requests = [proposals[i].sized_job.request for i in places]
        wanted = [
            Wanted(len(claims[i].units), request.caused.tolist(), request.tolerated.tolist())
            for i, request in zip(places, requests, strict=True)
        ]
        barred = frozenset[int]().union(*(claims[i].barred for i in places))
        choices = choose_cores(chips[server], owners, wanted, barred=barred)
        for i, choice in zip(places, choices, strict=False):  # the last may have no room
            found[i] = replace(claims[i], units=choice.units)
            chosen[claims[i].job] = choice.as_json(claims[i].units)
    return found, chosen


def _grant(
    proposal: Proposal,
    claim: Claim,
    positions: tuple[int, ...],
    core_choice: dict[str, Any] | None,
) -> Grant:
    request = proposal.sized_job.request
    caused, tolerated = request.caused.tolist(), request.tolerated.tolist()
    return Grant(
        *(proposal.job.id, uuid7(), claim, positions, caused, tolerated), core_choice=core_choice
    )


def _write(
    won: Sequence[tuple[Proposal, Grant]],
    *,
    free: Mapping[int, Vector],
    agent: AgentIdentity,
    copy: CopyVersion | None,
) -> dict[UUID, int]:
    if not won:
        return {}
    instant = cluster_time()
    now, cluster_s = instant.at, instant.cluster_s
    allocations = allocate((grant for _, grant in won), free)
    new = [(p, grant) for p, grant in won if not p.job.missing]
    more = [(p, grant) for p, grant in won if p.job.missing]
    waited = workloads.place_jobs(
        [_placed_job(p, grant, agent) for p, grant in new], agent=agent.name, cluster_s=cluster_s
    )
    grown = workloads.grow_jobs(
        {grant.job: len(grant.positions) for _, grant in more},
        agent=agent.name,
        cluster_s=cluster_s,
    )
    if len(waited) + len(grown) != len(won):
        raise RuntimeError(f"{len(won) - len(waited) - len(grown)} locked jobs did not change")
    occasion = Occasion(agent, now, cluster_s, _age(copy))
    insert_batches((p.place for p, _ in won), at=now, code_version=agent.code_version)
    insert_decisions(placed_rows(won, occasion, waited))
    commands = {p.job.id for p, _ in new if p.job.runs_command}
    numbers = record_allocations(allocations, at=now, cluster_s=cluster_s)
    machines = {one.server for one in allocations if one.grant.job in commands}
    if machines:
        wake(MACHINES, machines)
    workloads.record_placed(
        (p.job.id, p.job.name, p.job.project_id, grant.decision) for p, grant in new
    )
    workloads.record_given(
        [
            (p.job.id, p.job.name, p.job.project_id, grant.decision, len(grant.positions))
            for p, grant in more
        ]
    )
    return {new.grant.job: number for new, number in zip(allocations, numbers, strict=True)}


def _age(copy: CopyVersion | None) -> tuple[float, int] | None:
    """Return the wall seconds since a copy was read, and the changes drawn since."""
    if copy is None:
        return None
    return time.monotonic() - copy.read_s, max(0, last_drawn(Log.CHANGES) - copy.known)


def _placed_job(proposal: Proposal, grant: Grant, agent: AgentIdentity) -> workloads.PlacedJob:
    return workloads.PlacedJob(
        job_id=grant.job,
        units=len(grant.positions),
        missing=proposal.wanted - len(grant.positions),
        reason=placed_reason(agent),
        message="",
        run_s=_stretched(proposal, grant, 0),
        run_high_s=_stretched(proposal, grant, 1),
        predicted=predicted_json(proposal.sized_job.sized),
        is_resumed=_is_resumed(proposal),
    )


def _is_resumed(proposal: Proposal) -> bool:
    """Whether the backend of the units continues the job where it was stopped."""
    topology = proposal.sized_job.topology
    platform = topology.server_platform[topology.unit_server[proposal.placed.units[0]]]
    return topology.platform_name[platform] in topology.platforms_with(Capability.RESUME)


def _stretched(proposal: Proposal, grant: Grant, end: int) -> float | None:
    """Return the predicted run time on the units won, at most proportional to those missing."""
    run = proposal.sized_job.run
    if run is None:
        return None
    return run[end] * max(1.0, proposal.sized_job.sized.units / len(grant.positions))
