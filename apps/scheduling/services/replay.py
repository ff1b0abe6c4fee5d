"""Repeat a decision from what is stored, and compare every field. Writes nothing."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from django.conf import settings

from apps.scheduling.core import registry
from apps.scheduling.core.cluster.chips import named_units
from apps.scheduling.core.records.candidate_record import candidates_json
from apps.scheduling.core.records.differences import Difference, as_stored, differences
from apps.scheduling.core.records.replay_verdict import ReplayVerdict
from apps.scheduling.core.tarcil.job_sampling import Sampling, with_guarantee
from apps.scheduling.core.types import Placed, Refused
from apps.scheduling.models import Decision, Outcome
from apps.scheduling.services.decisions import per_unit
from apps.scheduling.services.repeats import (
    NotRepeatableError,
    RepeatedBatch,
    repeated_batch,
    stored_decision,
)
from apps.workloads.core.guarantees import QualityGuarantee


@dataclass(frozen=True, slots=True)
class Replay:
    """A repeated decision.

    Attributes
    ----------
    detail : why it cannot be repeated; "" = it was
    changed : versions and parameters that are others now
    jobs, position : of the batch
    checkpoint, changes : from which the cluster was rebuilt
    """

    verdict: ReplayVerdict
    detail: str = ""
    differences: tuple[Difference, ...] = ()
    changed: tuple[Difference, ...] = ()
    jobs: int = 0
    position: int = 0
    checkpoint: int = 0
    changes: int = 0

    def as_json(self) -> dict[str, Any]:
        """JSON form."""
        lists = ("differences", "changed")
        rows = {name: [entry._asdict() for entry in getattr(self, name)] for name in lists}
        return {**asdict(self), "verdict": str(self.verdict), **rows}


def replay(decision_id: UUID) -> Replay:
    """Repeat a decision and compare it with what is stored.

    Costs a read of the cluster and a decision on its whole batch: up to some seconds.
    """
    try:
        decision = stored_decision(decision_id)
        batch = repeated_batch(decision)
    except NotRepeatableError as error:
        return Replay(ReplayVerdict.UNAVAILABLE, str(error))
    position = decision.position or 0
    found = differences(
        _stored_fields(decision),
        _repeated_fields(decision, batch, batch.outcomes[position]),
    )
    return Replay(
        ReplayVerdict.DIFFERENT if found else ReplayVerdict.IDENTICAL,
        differences=found,
        changed=differences(_stored_versions(decision, batch), _versions_now(batch)),
        jobs=batch.row.jobs,
        position=position,
        checkpoint=batch.past.checkpoint,
        changes=batch.past.changes,
    )


def _stored_versions(decision: Decision, batch: RepeatedBatch) -> dict[str, Any]:
    return {
        "code_version": decision.code_version,
        "policy_version": decision.policy_version,
        "parameters": dict(batch.parameters),
    }


def _versions_now(batch: RepeatedBatch) -> dict[str, Any]:
    return {
        "code_version": settings.BERTH_VERSION,
        "policy_version": batch.policy.version,
        "parameters": _parameters_now(batch.row.policy, batch.parameters),
    }


def _parameters_now(policy: str, stored: Mapping[str, float]) -> dict[str, float]:
    """Return today's parameters of a policy, but the stored ones that its agent had set."""
    now = registry.default_parameters(policy)
    by_agent = registry.agent_parameters(policy, now).keys()
    chosen = {name: now[name] for name in now.keys() - by_agent}
    return {**chosen, **registry.agent_parameters(policy, stored)}


def _stored_fields(decision: Decision) -> dict[str, Any]:
    """Return the fields of a decision that follow from its inputs."""
    is_refused = decision.outcome == Outcome.REFUSED
    known = {
        "outcome": "refused" if is_refused else "placed",
        "seed": decision.seed,
        "snapshot": decision.snapshot,
        "units": decision.units,
        "examined": decision.examined,
        "eligible": decision.eligible,
        "servers_total": decision.servers_total,
        "sample_size": decision.sample_size,
        "dropped": decision.dropped,
    }
    if is_refused:
        return {**known, "reason": decision.reason_code}
    fields = {
        **known,
        "rank_threshold": decision.rank_threshold,
        "probability": decision.probability,
        "rank": decision.rank,
        "candidates": decision.candidates,
        "units_allocated": _allocated(decision),
    }
    return _without_lost_rank(decision, fields)


def _without_lost_rank(decision: Decision, fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out the rank of a choice that no commit allocated: it is not stored."""
    if decision.outcome != Outcome.CONFLICT:
        return fields
    return {name: value for name, value in fields.items() if name != "rank"}


def _allocated(decision: Decision) -> list[int]:
    """Return the ids of the units that the commit allocated.

    On servers with several L3 groups, the ids that the policy had named: the cores follow from the
    jobs that ran there at the commit.
    """
    rows = decision.allocations.filter(moved_from__isnull=True)
    return sorted(
        unit
        for units, choice in rows.values_list("unit_ids", "core_choice")
        for unit in named_units(units, choice)
    )


def _repeated_fields(
    decision: Decision, batch: RepeatedBatch, outcome: Placed | Refused
) -> dict[str, Any]:
    topology = batch.topology
    request = batch.requests[decision.position or 0]
    units = asked = request.units
    if isinstance(outcome, Placed) and decision.outcome == Outcome.PLACED:
        # a quota may have let an incremental job request fewer units than it is to have
        asked = outcome.wanted or units
        units = outcome.wanted or (units if request.is_whole else max(units, decision.units))
    known = {
        "outcome": "placed" if isinstance(outcome, Placed) else "refused",
        "seed": outcome.seed,
        "snapshot": outcome.sequence,
        "units": units,
        "examined": outcome.examined,
        "eligible": outcome.eligible,
        "servers_total": topology.server_id.size,
        "sample_size": per_unit(outcome, asked),
        "dropped": outcome.dropped,
    }
    if isinstance(outcome, Refused):
        return as_stored({**known, "reason": outcome.reason.value})
    placed = with_guarantee(outcome, _sampling(decision))
    fields = {
        **known,
        "rank_threshold": placed.rank_threshold,
        "probability": placed.probability,
        "rank": float(placed.ranks[0]) if placed.ranks.size == 1 else None,
        "candidates": candidates_json(placed.candidates, topology),
        "units_allocated": _won(decision, sorted(topology.unit_id[placed.units].tolist())),
    }
    return as_stored(_without_lost_rank(decision, fields))


def _won(decision: Decision, chosen: list[int]) -> list[int]:
    """Return the chosen units that the commit can have allocated: it may lose some."""
    allocated = set(_allocated(decision))
    return [unit for unit in chosen if unit in allocated] if allocated < set(chosen) else chosen


def _sampling(decision: Decision) -> Sampling:
    asked = decision.guarantee
    if asked is None:
        return Sampling()
    guarantee = QualityGuarantee(asked["rank_threshold"], asked["probability"])
    return Sampling(asked["size"], guarantee, asked["needed_size"], asked["top_free_share"])
