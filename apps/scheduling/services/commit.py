"""The optimistic commit: what agents decided becomes true, or is lost to a faster one.

One transaction for a batch. Rows are locked in one order everywhere (jobs, units, servers, each by
id; then the change log; then the events), so commits and releases cannot deadlock. The rule of who
wins is `core.settle`, the same as in memory; PostgreSQL's constraints hold whatever anybody
believes.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
from django.db import connection, transaction
from django.utils import timezone

from apps.common.core.ids import uuid7
from apps.common.db import copy_rows
from apps.inventory.models import ChangeKind, ServerState
from apps.inventory.selectors import cluster_clock
from apps.inventory.services import NewChange, append_changes
from apps.scheduling.core.capacity import unit_vectors
from apps.scheduling.core.settle import Claim, Vector, settle
from apps.scheduling.core.sizing import Sized
from apps.scheduling.core.types import Candidate, Placed, Refused, Request
from apps.scheduling.models import Allocation, Decision, Outcome
from apps.scheduling.selectors import ClaimedJob
from apps.workloads import services as workloads
from apps.workloads.core.reasons import Reason
from apps.inventory.core.snapshot import Topology

_REASON_OF: Final = {
    "least_loaded": Reason.PLACED_LEAST_LOADED,
    "random": Reason.PLACED_AT_RANDOM,
}


@dataclass(frozen=True, slots=True)
class Agent:
    """Who decides, by what."""

    name: str
    policy: str
    policy_version: int
    code_version: str


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """Units chosen for a job, to be committed.

    Attributes
    ----------
    retries : commits lost before
    elapsed_s : wall seconds the decision took
    """

    job: ClaimedJob
    sized: Sized
    request: Request
    placed: Placed
    topology: Topology
    profile_id: UUID | None
    elapsed_s: float
    retries: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Lost:
    """A proposal that won nothing."""

    proposal: Proposal
    is_gone: bool  # the job was cancelled, held or taken over: nothing to decide any more


@dataclass(frozen=True, slots=True, eq=False)
class Refusal:
    """A job that could not be placed now, and why."""

    job: ClaimedJob
    reason: Reason
    message: str
    units: int
    profile_id: UUID | None
    elapsed_s: float
    refused: Refused | None = None
    lost: Placed | None = None  # the last choice of a job that only lost commits
    also: tuple[str, ...] = ()
    retries: int = 0


class _Won(NamedTuple):
    proposal: Proposal
    decision: UUID
    positions: tuple[int, ...]  # in placed.units


class _Part(NamedTuple):
    """One allocation: what a job gets of one server."""

    allocation: int
    won: _Won
    server: int
    units: list[int]
    vector: tuple[int, int, int]  # per unit, whole bytes and bits


def commit(proposals: Sequence[Proposal], *, agent: Agent) -> tuple[dict[UUID, int], list[Lost]]:
    """Take the units of many proposals; earlier ones win.

    Returns
    -------
    (change-log number by job for those that won, and those that did not)
    """
    with transaction.atomic():
        ours = _lock_jobs([p.job.id for p in proposals], agent.name)
        alive = [p for p in proposals if p.job.id in ours]
        claims = [_claim(p) for p in alive]
        owners = _lock_units(unit for claim in claims for unit in claim.units)
        free = _lock_servers(server for claim in claims for server in claim.servers)
        settled = settle(claims, owners, free)
        won = [
            _Won(p, uuid7(), positions)
            for p, positions in zip(alive, settled, strict=True)
            if positions
        ]
        sequences = _write(won, claims=dict(zip(map(_job, alive), claims, strict=True)), agent=agent)
    winners = {w.proposal.job.id for w in won}
    lost = [
        Lost(p, is_gone=p.job.id not in ours) for p in proposals if p.job.id not in winners
    ]
    return sequences, lost


def _job(proposal: Proposal) -> UUID:
    return proposal.job.id


def _lock_jobs(job_ids: Iterable[UUID], agent: str) -> set[UUID]:
    rows = _rows(
        """SELECT id FROM workloads_job
           WHERE id = ANY(%s) AND state IN ('submitted', 'queued') AND NOT held
             AND NOT cancel_requested AND claimed_by = %s
           ORDER BY id FOR UPDATE""",
        [sorted(job_ids), agent],
    )
    return {row[0] for row in rows}


def _lock_units(unit_ids: Iterable[int]) -> dict[int, int | None]:
    rows = _rows(
        """SELECT id, allocation_id FROM inventory_resourceunit
           WHERE id = ANY(%s) ORDER BY id FOR UPDATE""",
        [sorted(set(unit_ids))],
    )
    return dict(rows)


def _lock_servers(server_ids: Iterable[int]) -> dict[int, Vector]:
    rows = _rows(
        """SELECT id, memory_bytes * oversubscription - used_memory_bytes,
                  network_bps * oversubscription - used_network_bps,
                  storage_bytes * oversubscription - used_storage_bytes
           FROM inventory_server WHERE id = ANY(%s) AND state = %s ORDER BY id FOR UPDATE""",
        [sorted(set(server_ids)), ServerState.ACTIVE],
    )
    return {server: (memory, network, storage) for server, memory, network, storage in rows}


def _claim(proposal: Proposal) -> Claim:
    topology, units = proposal.topology, proposal.placed.units
    servers = topology.unit_server[units]
    # whole numbers, rounded down, so that M shares never exceed their server
    vectors = np.floor(unit_vectors(topology, servers, proposal.request)).tolist()
    return Claim(
        job=proposal.request.job,
        units=topology.unit_id[units].tolist(),
        servers=topology.server_id[servers].tolist(),
        vectors=[(v[0], v[1], v[2]) for v in vectors],
        whole=proposal.request.gang or proposal.request.locality is not None,
    )


def _write(
    won: Sequence[_Won], *, claims: Mapping[UUID, Claim], agent: Agent
) -> dict[UUID, int]:
    if not won:
        return {}
    now = timezone.now()
    cluster_s = cluster_clock().at(now.timestamp())
    parts = _parts(won, claims)
    _take_units(parts)
    _take_capacity(parts)
    moved = workloads.place_jobs(
        [_sized(w, agent) for w in won], agent=agent.name, cluster_s=cluster_s
    )
    if len(moved) != len(won):
        raise RuntimeError(f"{len(won) - len(moved)} locked jobs could not be moved to starting")
    waited = dict(_rows(_WAITED, [now, sorted(moved)]))
    _insert_decisions(
        [_decision_of(w, agent, now, cluster_s, waited[w.proposal.job.id]) for w in won]
    )
    numbers = append_changes([_change(part) for part in parts], at=now, cluster_s=cluster_s)
    _insert_allocations(parts, numbers, now, cluster_s)
    workloads.record_placed(
        (w.proposal.job.id, w.proposal.job.name, w.proposal.job.project_id, w.decision)
        for w in won
    )
    return {
        part.won.proposal.job.id: number for part, number in zip(parts, numbers, strict=True)
    }


_WAITED: Final = """
SELECT id, extract(epoch FROM %s - created_at)::float8 FROM workloads_job WHERE id = ANY(%s)
"""


def _parts(won: Sequence[_Won], claims: Mapping[UUID, Claim]) -> list[_Part]:
    groups: dict[tuple[UUID, int], tuple[_Won, list[int], Vector]] = {}
    for w in won:
        claim = claims[w.proposal.job.id]
        for position in w.positions:
            key = (w.proposal.job.id, claim.servers[position])
            _, units, _ = groups.setdefault(key, (w, [], claim.vectors[position]))
            units.append(claim.units[position])
    ids = _rows(
        "SELECT nextval('common_allocations_seq') FROM generate_series(1, %s)", [len(groups)]
    )
    return [
        _Part(allocation, w, server, units, (int(vector[0]), int(vector[1]), int(vector[2])))
        for (allocation,), ((_, server), (w, units, vector)) in zip(
            ids, groups.items(), strict=True
        )
    ]


def _take_units(parts: Sequence[_Part]) -> None:
    units = [unit for part in parts for unit in part.units]
    owners = [part.allocation for part in parts for _ in part.units]
    taken = _rows(
        """UPDATE inventory_resourceunit AS u SET allocation_id = d.owner, version = u.version + 1
           FROM unnest(%s::bigint[], %s::bigint[]) AS d(unit, owner)
           WHERE u.id = d.unit AND u.allocation_id IS NULL RETURNING u.id""",
        [units, owners],
    )
    if len(taken) != len(units):
        raise RuntimeError(f"{len(units) - len(taken)} locked units were not free")


def _take_capacity(parts: Sequence[_Part]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE inventory_server AS s SET used_cores = used_cores + d.cores,
                      used_memory_bytes = used_memory_bytes + d.memory,
                      used_network_bps = used_network_bps + d.network,
                      used_storage_bytes = used_storage_bytes + d.storage
               FROM (SELECT server, sum(cores) AS cores, sum(memory) AS memory,
                            sum(network) AS network, sum(storage) AS storage
                     FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[],
                                 %s::bigint[]) AS t(server, cores, memory, network, storage)
                     GROUP BY server) AS d
               WHERE s.id = d.server""",
            [
                [part.server for part in parts],
                [len(part.units) for part in parts],
                *([_total(part, i) for part in parts] for i in range(3)),
            ],
        )


def _total(part: _Part, resource: int) -> int:
    return part.vector[resource] * len(part.units)


def _change(part: _Part) -> NewChange:
    return NewChange(
        kind=ChangeKind.CLAIM,
        server_id=part.server,
        allocation_id=part.allocation,
        unit_ids=part.units,
        vector=[float(value) for value in part.vector],
        caused=part.won.proposal.request.caused.tolist(),
    )


_ALLOCATION_COLUMNS: Final = (
    *("id", "job_id", "decision_id", "server_id", "unit_ids", "cores"),
    *("memory_bytes", "network_bps", "storage_bytes", "caused"),
    *("acquired_seq", "acquired_at", "acquired_s"),
)


def _insert_allocations(
    parts: Sequence[_Part], numbers: Iterable[int], now: datetime, cluster_s: float
) -> None:
    copy_rows(
        Allocation._meta.db_table,
        _ALLOCATION_COLUMNS,
        (
            (
                *(part.allocation, part.won.proposal.job.id, part.won.decision, part.server),
                *(part.units, len(part.units), _total(part, 0), _total(part, 1), _total(part, 2)),
                *(part.won.proposal.request.caused.tolist(), number, now, cluster_s),
            )
            for part, number in zip(parts, numbers, strict=True)
        ),
    )


def _sized(w: _Won, agent: Agent) -> workloads.Sized:
    return workloads.Sized(
        job_id=w.proposal.job.id,
        units=len(w.positions),
        reason=_placed_reason(agent),
        message="",
        predicted=_predicted(w.proposal.sized),
    )


def _placed_reason(agent: Agent) -> Reason:
    return _REASON_OF.get(agent.policy, Reason.PLACED_BEST_OF_SAMPLE)


def _predicted(sized: Sized) -> dict[str, float]:
    known = {"value": sized.predicted, "low": sized.low, "high": sized.high}
    return {name: value for name, value in known.items() if math.isfinite(value)}


# ---- decisions ----

_DECISION_COLUMNS: Final = (
    *("id", "job_id", "at", "cluster_s", "agent", "policy", "policy_version", "code_version"),
    *("seed", "snapshot", "profile_id", "outcome", "reason_code", "units", "units_won"),
    *("sample_size", "examined", "eligible", "servers_total", "dropped", "candidates"),
    *("rank_threshold", "probability", "rank", "predicted", "commit_retries", "elapsed_s"),
    "waited_s",
)


def _insert_decisions(rows: Iterable[tuple[Any, ...]]) -> None:
    copy_rows(Decision._meta.db_table, _DECISION_COLUMNS, rows)


def _decision_of(
    w: _Won, agent: Agent, now: datetime, cluster_s: float, waited_s: float
) -> tuple[Any, ...]:
    p = w.proposal
    placed, units = p.placed, p.request.units
    return (
        *(w.decision, p.job.id, now, cluster_s),
        *(agent.name, agent.policy, agent.policy_version, agent.code_version),
        *(placed.seed, placed.sequence, p.profile_id, Outcome.PLACED.value),
        *(_placed_reason(agent).value, units, len(w.positions)),
        *(_per_unit(placed.examined, units), placed.examined, placed.eligible),
        *(p.topology.server_id.size, json.dumps(placed.dropped)),
        json.dumps(candidates_json(placed.candidates, p.topology)),
        *(placed.rank_threshold, placed.probability),
        float(placed.ranks[0]) if placed.ranks.size == 1 else None,
        *(json.dumps(_predicted(p.sized)), p.retries, p.elapsed_s, waited_s),
    )


def _per_unit(examined: int, units: int) -> int:
    """Return R, candidates per unit, as drawn."""
    return max(1, round(examined / units))


def candidates_json(
    candidates: Iterable[Candidate], topology: Topology
) -> list[dict[str, Any]]:
    """Return what a decision keeps of the units it examined, best first."""
    return [
        {
            "server_id": int(topology.server_id[c.server]),
            "core": int(topology.unit_core[c.unit]),
            "quality": _rounded(c.quality),
            "target": _rounded(c.target),
            "closeness": _rounded(c.closeness),
            "verdict": str(c.verdict),
            "headroom": np.round(c.headroom, 1).tolist(),
        }
        for c in candidates
    ]


def _rounded(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None


def note_refusals(
    refusals: Sequence[Refusal], *, agent: Agent, servers: int, topology: Topology, delay_s: float
) -> None:
    """Let jobs wait, each with its reason; a decision is kept only where the reason is new.

    Parameters
    ----------
    servers : servers of the cluster
    delay_s : wall seconds until they are looked at again
    """
    if not refusals:
        return
    now = timezone.now()
    cluster_s = cluster_clock().at(now.timestamp())
    with transaction.atomic():
        changed = workloads.keep_waiting(
            [workloads.Waiting(r.job.id, r.reason, r.message, r.also) for r in refusals],
            agent=agent.name,
            cluster_s=cluster_s,
            delay_s=delay_s,
        )
        new = [r for r in refusals if r.job.id in changed]
        _insert_decisions(
            [_refusal_row(r, agent, now, cluster_s, servers, topology) for r in new]
        )


def refuse_for_good(
    refusals: Sequence[Refusal], *, agent: Agent, servers: int, topology: Topology
) -> None:
    """End jobs that waiting cannot help, each with its decision."""
    now = timezone.now()
    cluster_s = cluster_clock().at(now.timestamp())
    for refusal in refusals:
        with transaction.atomic():
            ended = workloads.fail_waiting(
                [refusal.job.id], reason=refusal.reason, message=refusal.message
            )
            if ended:
                _insert_decisions(
                    [_refusal_row(refusal, agent, now, cluster_s, servers, topology)]
                )


def _refusal_row(  # noqa: PLR0913, PLR0917 - one line of a table
    r: Refusal, agent: Agent, now: datetime, cluster_s: float, servers: int, topology: Topology
) -> tuple[Any, ...]:
    refused, lost = r.refused, r.lost
    seen = refused or lost
    outcome = Outcome.CONFLICT if r.reason == Reason.COMMIT_CONFLICT else Outcome.REFUSED
    return (
        *(uuid7(), r.job.id, now, cluster_s),
        *(agent.name, agent.policy, agent.policy_version, agent.code_version),
        *(seen.seed if seen else 0, seen.sequence if seen else 0, r.profile_id),
        *(outcome.value, r.reason.value, r.units, 0),
        _per_unit(seen.examined, max(1, r.units)) if seen else 0,
        *(seen.examined if seen else 0, seen.eligible if seen else 0, servers),
        json.dumps(seen.dropped if seen else {}),
        json.dumps(candidates_json(lost.candidates, topology) if lost else []),
        *(lost.rank_threshold if lost else 0.8, lost.probability if lost else 1.0),
        *(None, "{}", r.retries, r.elapsed_s, None),
    )


def _rows(sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()
