"""Rows of decisions, each with its reasons."""

import json
import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import numpy as np

from apps.common.infrastructure.database import copy_rows
from apps.inventory.core.snapshot import Topology
from apps.scheduling.core.candidate_text import DIGITS, candidates_text
from apps.scheduling.core.sizes import Sized
from apps.scheduling.core.types import Candidate, Expectation
from apps.scheduling.models import Decision, Outcome
from apps.scheduling.services.allocation_store import Grant
from apps.scheduling.services.batches import BatchPlace
from apps.scheduling.services.proposals import AgentIdentity, Proposal, Refusal
from apps.workloads.core.reasons import Reason

_REASON_OF: Final = {
    "expected": Reason.PLACED_BEST_EXPECTED,
    "least_loaded": Reason.PLACED_LEAST_LOADED,
    "reservation_least_loaded": Reason.PLACED_LEAST_LOADED,
    **dict.fromkeys(
        (
            "dot_product",
            "heterogeneity_oblivious",
            "interference_oblivious",
            "paragon_greedy",
            "quasar",
            "reservation_paragon",
            "slot_rr",
        ),
        Reason.PLACED_BEST_OF_ALL,
    ),
    "autoscale": Reason.PLACED_LEAST_LOADED,
    "node_rr": Reason.PLACED_LEAST_LOADED,
    "random": Reason.PLACED_AT_RANDOM,
    "roomiest": Reason.PLACED_AT_RANDOM,
}


def placed_reason(agent: AgentIdentity) -> Reason:
    """Return the reason for placements by an agent's policy."""
    return _REASON_OF.get(agent.policy, Reason.PLACED_BEST_OF_SAMPLE)


def predicted_json(sized: Sized) -> dict[str, Any]:
    """Return the predicted performance of a job and the framework setting it assumes.

    Without performance if the submitter fixed the size. The cost, in unit-seconds, is only known
    with a ceiling.
    """
    known = {"value": sized.predicted, "low": sized.low, "high": sized.high}
    known["allowance"] = sized.allowance
    known["cost"] = sized.cost
    rates = {"slow_rates": dict(sized.slow_rates)} if sized.slow_rates else {}
    setting = {"setting": sized.setting} if sized.setting else {}
    return {name: value for name, value in known.items() if math.isfinite(value)} | rates | setting


_DECISION_COLUMNS: Final = (
    *("id", "job_id", "at", "cluster_s", "agent", "policy", "policy_version", "code_version"),
    *("seed", "snapshot", "profile_id", "outcome", "reason_code", "units", "units_won"),
    *("sample_size", "examined", "eligible", "servers_total", "dropped", "candidates"),
    *("rank_threshold", "probability", "rank", "predicted", "commit_retries", "elapsed_s"),
    *("waited_s", "guarantee", "units_before", "batch_id", "position"),
)


def insert_decisions(rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert rows of decisions from `placed_row` and `refusal_row`."""
    copy_rows(Decision._meta.db_table, _DECISION_COLUMNS, rows)


def placed_row(
    proposal: Proposal,
    grant: Grant,
    agent: AgentIdentity,
    now: datetime,
    cluster_s: float,
    waited_s: float | None,
) -> tuple[Any, ...]:
    """Return the row of a committed decision."""
    placed, sized_job = proposal.placed, proposal.sized_job
    units, topology = proposal.wanted, sized_job.topology
    return (
        *(grant.decision, grant.job, now, cluster_s),
        *(agent.name, agent.policy, agent.policy_version, agent.code_version),
        *(placed.seed, placed.sequence, sized_job.profile_id, Outcome.PLACED.value),
        *(placed_reason(agent).value, units, len(grant.positions)),
        *(per_unit(placed.examined, units), placed.examined, placed.eligible),
        *(topology.server_id.size, json.dumps(placed.dropped)),
        candidates_text(placed.candidates, topology),
        *(placed.rank_threshold, placed.probability),
        float(placed.ranks[0]) if placed.ranks.size == 1 else None,
        *(json.dumps(predicted_json(sized_job.sized)), proposal.retries),
        *(proposal.elapsed_s, waited_s, _json_or_none(sized_job.sampling.as_json())),
        sized_job.job.units if sized_job.job.missing else 0,
        *_place(proposal.place),
    )


def per_unit(examined: int, units: int) -> int:
    """Return R, the number of candidates per unit."""
    return max(1, round(examined / units))


def candidates_json(candidates: Sequence[Candidate], topology: Topology) -> list[dict[str, Any]]:
    """Return JSON of the examined units, best first; `candidates_text` is its text."""
    if not len(candidates):
        return []
    # by column: numpy takes as long to round one row as all
    headroom = np.round([c.headroom for c in candidates], 1).tolist()
    servers = topology.server_id[[c.server for c in candidates]].tolist()
    cores = topology.unit_core[[c.unit for c in candidates]].tolist()
    return [
        {
            "server_id": server,
            "core": core,
            "quality": _rounded(c.quality),
            "target": _rounded(c.target),
            "closeness": _rounded(c.closeness),
            "verdict": c.verdict,
            "headroom": room,
            **_expectation(c),
        }
        for c, server, core, room in zip(candidates, servers, cores, headroom, strict=True)
    ]


def _expectation(candidate: Candidate) -> dict[str, dict[str, float]]:
    known = candidate.expectation
    if known is None:
        return {}
    values = map(round, known, _DIGITS)
    return {"expected": dict(zip(known._fields, values, strict=True))}


_DIGITS: Final = (DIGITS,) * len(Expectation._fields)


def _rounded(value: float) -> float | None:
    return round(value, DIGITS) if math.isfinite(value) else None


def refusal_row(
    refusal: Refusal,
    agent: AgentIdentity,
    now: datetime,
    cluster_s: float,
    topology: Topology,
) -> tuple[Any, ...]:
    """Return the row of the decision on a job that was not placed."""
    refused, lost = refusal.refused, refusal.lost
    result = refused or lost
    outcome = Outcome.CONFLICT if refusal.reason == Reason.COMMIT_CONFLICT else Outcome.REFUSED
    return (
        *(refusal.decision_id, refusal.job.id, now, cluster_s),
        *(agent.name, agent.policy, agent.policy_version, agent.code_version),
        *(result.seed if result else 0, result.sequence if result else 0, refusal.profile_id),
        *(outcome.value, refusal.reason.value, refusal.units, 0),
        per_unit(result.examined, max(1, refusal.units)) if result else 0,
        *(result.examined if result else 0, result.eligible if result else 0),
        topology.server_id.size,
        json.dumps(result.dropped if result else {}),
        candidates_text(lost.candidates, topology) if lost else "[]",
        *(lost.rank_threshold if lost else 0.8, lost.probability if lost else 1.0),
        *(None, "{}", refusal.retries, refusal.elapsed_s, None),
        _json_or_none(refusal.sampling.as_json()),
        0,
        *_place(refusal.place),
    )


def _place(place: BatchPlace | None) -> tuple[UUID | None, int | None]:
    return (None, None) if place is None else (place.batch.id, place.position)


def _json_or_none(value: dict[str, Any] | None) -> str | None:
    return None if value is None else json.dumps(value)
