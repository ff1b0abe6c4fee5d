"""Rows of decisions, each with its reasons."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, Final
from uuid import UUID

from apps.common.infrastructure.database import copy_binary_rows
from apps.inventory.core.snapshot import Topology
from apps.scheduling.core.records.candidate_record import pack_candidates
from apps.scheduling.core.sizing.sizes import Sized
from apps.scheduling.core.types import Placed, Refused
from apps.scheduling.models import Decision, Outcome
from apps.scheduling.services.allocation_store import Grant
from apps.scheduling.services.batches import BatchPlace
from apps.scheduling.services.proposals import AgentIdentity, Proposal, Refusal
from apps.workloads.core.reasons import Reason
from apps.workloads.core.targets import Target

_REASON_OF: Final = {
    "expected": Reason.PLACED_BEST_EXPECTED,
    "least_loaded": Reason.PLACED_LEAST_LOADED,
    "reservation_least_loaded": Reason.PLACED_LEAST_LOADED,
    "autoscale": Reason.PLACED_LEAST_LOADED,
    "node_rr": Reason.PLACED_LEAST_LOADED,
    "random": Reason.PLACED_AT_RANDOM,
    "roomiest": Reason.PLACED_AT_RANDOM,
}


def placed_reason(agent: AgentIdentity) -> Reason:
    """Return the reason for placements by an agent's policy."""
    best = Reason.PLACED_BEST_OF_SAMPLE if agent.draws_sample else Reason.PLACED_BEST_OF_ALL
    return _REASON_OF.get(agent.policy, best)


def predicted_json(sized: Sized, target: Target | None = None) -> dict[str, Any]:
    """Return the predicted performance of a job and the framework setting it assumes.

    Without performance if the submitter fixed the size. The cost, in unit-seconds, is only known
    with a ceiling. A decision keeps the target with the performance, as that of a running job can
    be changed.
    """
    known: dict[str, Any] = {
        name: value
        for name, value in (
            ("value", sized.predicted),
            ("low", sized.low),
            ("high", sized.high),
            ("allowance", sized.allowance),
            ("cost", sized.cost),
        )
        if math.isfinite(value)
    }
    if target is not None and "value" in known:
        known["target"] = target.as_json()
    if sized.slow_rates:
        known["slow_rates"] = dict(sized.slow_rates)
    if sized.setting:
        known["setting"] = sized.setting
    return known


# in the order of the rows
COLUMNS: Final = {
    "id": "uuid", "job_id": "uuid", "at": "timestamptz", "cluster_s": "float8",
    "agent": "varchar", "policy": "varchar", "policy_version": "int4", "code_version": "varchar",
    "seed": "int8", "snapshot": "int8", "profile_id": "uuid", "outcome": "varchar",
    "reason_code": "varchar", "units": "int4", "units_won": "int4",
    "sample_size": "int4", "examined": "int4", "eligible": "int4",
    "servers_total": "int4", "dropped": "jsonb", "candidates": "bytea",
    "rank_threshold": "float8", "probability": "float8", "rank": "float8",
    "predicted": "jsonb", "commit_retries": "int4",
    "elapsed_s": "float8", "waited_s": "float8", "guarantee": "jsonb",
    "units_before": "int4", "batch_id": "uuid", "position": "int2",
    "copy_age_s": "float8", "changes_behind": "int8",
}  # fmt: skip


def insert_decisions(rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert rows of decisions from `placed_rows` and `refusal_rows`."""
    copy_binary_rows(Decision._meta.db_table, COLUMNS, rows)


@dataclass(frozen=True, slots=True)
class Occasion:
    """The agent of decisions, and the time of their transaction.

    Attributes
    ----------
    copy_age : age of the agent's copy in wall seconds, and the changes that it lacked
    """

    agent: AgentIdentity
    at: datetime
    cluster_s: float
    copy_age: tuple[float, int] | None = None


def placed_rows(
    won: Sequence[tuple[Proposal, Grant]], occasion: Occasion, waited_s: Mapping[UUID, float]
) -> list[tuple[Any, ...]]:
    """Return the rows of committed decisions.

    Parameters
    ----------
    waited_s : wall seconds from submission to commit, by job; absent = it was running
    """
    packed = _packed([(proposal.placed, proposal.sized_job.topology) for proposal, _ in won])
    reason = placed_reason(occasion.agent).value
    return [
        _placed_row(proposal, grant, occasion, reason, candidates, waited_s.get(grant.job))
        for (proposal, grant), candidates in zip(won, packed, strict=True)
    ]


def _packed(decided: Iterable[tuple[Placed, Topology]]) -> list[bytes]:
    """Pack the candidates of placements; in one batch where they follow on one topology."""
    packed: list[bytes] = []
    for _, group in groupby(decided, key=lambda each: id(each[1])):
        same = list(group)
        packed += pack_candidates([placed.candidates for placed, _ in same], same[0][1])
    return packed


_PLACED: Final = Outcome.PLACED.value  # read once, as this takes longer than a dictionary


def _placed_row(
    proposal: Proposal,
    grant: Grant,
    occasion: Occasion,
    reason: str,
    candidates: bytes,
    waited_s: float | None,
) -> tuple[Any, ...]:
    placed, sized_job, agent = proposal.placed, proposal.sized_job, occasion.agent
    units, asked = proposal.wanted, placed.wanted or sized_job.request.units
    return (
        *(grant.decision, grant.job, occasion.at, occasion.cluster_s),
        *(agent.name, agent.policy, agent.policy_version, agent.code_version),
        *(placed.seed, placed.sequence, sized_job.profile_id, _PLACED),
        *(reason, units, len(grant.positions)),
        *(per_unit(placed, asked), placed.examined, placed.eligible),
        *(sized_job.topology.server_id.size, placed.dropped, candidates),
        *(placed.rank_threshold, placed.probability),
        float(placed.ranks[0]) if placed.ranks.size == 1 else None,
        *(predicted_json(sized_job.sized, sized_job.job.spec.target), proposal.retries),
        *(proposal.elapsed_s, waited_s, sized_job.sampling.as_json()),
        sized_job.job.units if sized_job.job.missing else 0,
        *_place(proposal.place),
        *(occasion.copy_age or (None, None)),
    )


def per_unit(outcome: Placed | Refused, units: int) -> int:
    """Return R, the number of candidates per unit; with a locality, the number of draws."""
    if isinstance(outcome, Placed) and outcome.draws is not None:
        return outcome.draws
    return max(1, round(outcome.examined / units))


def refusal_rows(
    refusals: Sequence[Refusal], occasion: Occasion, topology: Topology
) -> list[tuple[Any, ...]]:
    """Return the rows of the decisions on jobs that were not placed."""
    packed = pack_candidates(
        [refusal.lost.candidates if refusal.lost else () for refusal in refusals], topology
    )
    return [
        _refusal_row(refusal, occasion, candidates, topology.server_id.size)
        for refusal, candidates in zip(refusals, packed, strict=True)
    ]


def _refusal_row(
    refusal: Refusal, occasion: Occasion, candidates: bytes, servers_total: int
) -> tuple[Any, ...]:
    refused, lost, agent = refusal.refused, refusal.lost, occasion.agent
    result = refused or lost
    outcome = Outcome.CONFLICT if refusal.reason == Reason.COMMIT_CONFLICT else Outcome.REFUSED
    return (
        *(refusal.decision_id, refusal.job.id, occasion.at, occasion.cluster_s),
        *(agent.name, agent.policy, agent.policy_version, agent.code_version),
        *(result.seed if result else 0, result.sequence if result else 0, refusal.profile_id),
        *(outcome.value, refusal.reason.value, refusal.units, 0),
        per_unit(result, max(1, refusal.units)) if result else 0,
        *(result.examined if result else 0, result.eligible if result else 0),
        *(servers_total, result.dropped if result else {}, candidates),
        *(lost.rank_threshold if lost else 0.8, lost.probability if lost else 1.0),
        *(None, {}, refusal.retries, refusal.elapsed_s, None),
        refusal.sampling.as_json(),
        0,
        *_place(refusal.place),
        *(None, None),
    )


def _place(place: BatchPlace | None) -> tuple[UUID | None, int | None]:
    return (None, None) if place is None else (place.batch.id, place.position)
