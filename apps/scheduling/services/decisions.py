"""Decisions as rows: why each job stands where it stands."""

import json
import math
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

import numpy as np

from apps.common.core.ids import uuid7
from apps.common.db import copy_rows
from apps.inventory.core.snapshot import Topology
from apps.scheduling.core.sizing import Sized
from apps.scheduling.core.types import Candidate
from apps.scheduling.models import Decision, Outcome
from apps.scheduling.services.proposals import Agent, Refusal, Won
from apps.workloads.core.reasons import Reason

_REASON_OF: Final = {
    "least_loaded": Reason.PLACED_LEAST_LOADED,
    "random": Reason.PLACED_AT_RANDOM,
    "roomiest": Reason.PLACED_AT_RANDOM,
}


def placed_reason(agent: Agent) -> Reason:
    """Return why a policy chose what it chose."""
    return _REASON_OF.get(agent.policy, Reason.PLACED_BEST_OF_SAMPLE)


def predicted_json(sized: Sized) -> dict[str, float | str]:
    """Return what was predicted for a job, and the framework setting it needs for that.

    Nothing where its size was fixed.
    """
    known = {"value": sized.predicted, "low": sized.low, "high": sized.high}
    setting = {"setting": sized.setting} if sized.setting else {}
    return {name: value for name, value in known.items() if math.isfinite(value)} | setting


_DECISION_COLUMNS: Final = (
    *("id", "job_id", "at", "cluster_s", "agent", "policy", "policy_version", "code_version"),
    *("seed", "snapshot", "profile_id", "outcome", "reason_code", "units", "units_won"),
    *("sample_size", "examined", "eligible", "servers_total", "dropped", "candidates"),
    *("rank_threshold", "probability", "rank", "predicted", "commit_retries", "elapsed_s"),
    "waited_s",
)


def insert_decisions(rows: Iterable[tuple[Any, ...]]) -> None:
    """Write decisions, as `placed_row` and `refusal_row` make them."""
    copy_rows(Decision._meta.db_table, _DECISION_COLUMNS, rows)


def placed_row(
    w: Won, agent: Agent, now: datetime, cluster_s: float, waited_s: float
) -> tuple[Any, ...]:
    """Make the decision of a proposal that won."""
    p = w.proposal
    placed, units = p.placed, p.request.units
    return (
        *(w.decision, p.job.id, now, cluster_s),
        *(agent.name, agent.policy, agent.policy_version, agent.code_version),
        *(placed.seed, placed.sequence, p.profile_id, Outcome.PLACED.value),
        *(placed_reason(agent).value, units, len(w.positions)),
        *(_per_unit(placed.examined, units), placed.examined, placed.eligible),
        *(p.topology.server_id.size, json.dumps(placed.dropped)),
        json.dumps(candidates_json(placed.candidates, p.topology)),
        *(placed.rank_threshold, placed.probability),
        float(placed.ranks[0]) if placed.ranks.size == 1 else None,
        *(json.dumps(predicted_json(p.sized)), p.retries, p.elapsed_s, waited_s),
    )


def _per_unit(examined: int, units: int) -> int:
    """Return R, candidates per unit, as drawn."""
    return max(1, round(examined / units))


def candidates_json(candidates: Iterable[Candidate], topology: Topology) -> list[dict[str, Any]]:
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


def refusal_row(
    r: Refusal, agent: Agent, now: datetime, cluster_s: float, servers: int, topology: Topology
) -> tuple[Any, ...]:
    """Make the decision of a job that could not be placed."""
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
