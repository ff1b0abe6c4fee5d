"""API schema of decisions, explanations and placements."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from apps.common.api.representations import time
from apps.scheduling.api.check_serializers import (
    RequestedGuaranteeSerializer,
    StartEstimateSerializer,
)
from apps.scheduling.core.records.explain import SummaryFacts, statement, summary
from apps.scheduling.models import Allocation, Decision, Outcome, Reservation, StartEstimate
from apps.scheduling.selectors import core_choice_of, reservation_of
from apps.scheduling.selectors.waits import current_estimate
from apps.workloads.api.representations import represent_reason
from apps.workloads.api.serializers import ReasonSerializer
from apps.workloads.core.reasons import MEANINGS, Reason
from apps.workloads.models import Job

_NO_POLICY = (
    "Null: the quota, the admission control or sizing refused the job before a policy ran."
)
OUTCOMES = [(outcome.value, outcome.value) for outcome in Outcome]


class DecisionSampleSerializer(serializers.Serializer[Any]):
    """The sample of a decision."""

    size = serializers.IntegerField(help_text="R, candidates per unit.")
    units_examined = serializers.IntegerField()
    units_eligible = serializers.IntegerField()
    servers_total = serializers.IntegerField()
    commit_retries = serializers.IntegerField(
        help_text="Number of commits that it lost; a decision with the outcome conflict lost all."
    )
    elapsed_seconds = serializers.FloatField()


class CopyAgeSerializer(serializers.Serializer[Any]):
    """How old the agent's copy of the cluster was when the decision was committed."""

    seconds = serializers.FloatField(
        allow_null=True, help_text="Wall seconds since it was read; null if nothing was committed."
    )
    changes_behind = serializers.IntegerField(
        allow_null=True, help_text="Changes of the log that it lacked."
    )


class GuaranteeSerializer(serializers.Serializer[Any]):
    """Guarantee on the quality of the best candidate, if sampling is uniform."""

    statement = serializers.CharField()
    rank_threshold = serializers.FloatField()
    probability = serializers.FloatField()
    assumption = serializers.CharField(
        allow_null=True, help_text="Null: all eligible units were compared."
    )
    requested = RequestedGuaranteeSerializer(
        allow_null=True, help_text="Of the job, with the R that it needs."
    )


class DecisionSerializer(serializers.Serializer[Any]):
    """A decision of an agent on one job, with its inputs. Immutable."""

    id = serializers.UUIDField()
    job = serializers.UUIDField()
    job_name = serializers.CharField()
    at = serializers.DateTimeField()
    cluster_seconds = serializers.FloatField()
    outcome = serializers.ChoiceField(choices=OUTCOMES)
    reason = serializers.CharField()
    agent = serializers.CharField()
    policy = serializers.CharField()
    policy_version = serializers.IntegerField()
    code_version = serializers.CharField()
    seed = serializers.IntegerField()
    snapshot = serializers.IntegerField(help_text="Change-log position of the agent's copy.")
    profile = serializers.UUIDField(allow_null=True)
    units = serializers.IntegerField()
    units_won = serializers.IntegerField()
    units_before = serializers.IntegerField(
        help_text="Units of a running job that was given more; 0: it was waiting."
    )
    sample = DecisionSampleSerializer(allow_null=True, help_text=_NO_POLICY)
    copy_age = CopyAgeSerializer()
    dropped = serializers.DictField(child=serializers.IntegerField())
    guarantee = GuaranteeSerializer(allow_null=True, help_text=_NO_POLICY)
    rank = serializers.FloatField(allow_null=True)
    predicted = serializers.DictField()
    waited_seconds = serializers.FloatField(allow_null=True, help_text="Wall time.")
    candidates_url = serializers.CharField()


class CandidatesSerializer(serializers.Serializer[Any]):
    """The units examined, best first; every row has every column."""

    columns = serializers.ListField(child=serializers.CharField())
    results = serializers.ListField(child=serializers.DictField())


class ReservationSerializer(serializers.Serializer[Any]):
    """Units kept for a gang that has waited long; times are cluster seconds."""

    units = serializers.IntegerField()
    made_seconds = serializers.FloatField()
    start_seconds = serializers.FloatField(
        help_text="When the last unit is free, at the pessimistic end of the predictions."
    )
    promised_seconds = serializers.FloatField(help_text="The first start that was planned.")


class ExplanationSerializer(serializers.Serializer[Any]):
    """Explanation of a job's state."""

    job = serializers.UUIDField()
    state = serializers.CharField()
    summary = serializers.CharField()
    reason = ReasonSerializer(allow_null=True)
    reservation = ReservationSerializer(
        allow_null=True, help_text="Units that are kept for a waiting job."
    )
    start = StartEstimateSerializer(
        allow_null=True, help_text="Of a waiting job; null without an estimate."
    )
    decision = DecisionSerializer(
        allow_null=True,
        help_text="The last one. That of a waiting job may be about a job of equal request.",
    )


class PlacementSerializer(serializers.Serializer[Any]):
    """Units of one server that a job holds or held."""

    id = serializers.IntegerField()
    server = serializers.CharField(allow_null=True, help_text="Null: the server was removed.")
    server_id = serializers.IntegerField()
    decision = serializers.UUIDField()
    units = serializers.ListField(child=serializers.IntegerField())
    cores = serializers.IntegerField()
    memory_bytes = serializers.IntegerField()
    network_bps = serializers.IntegerField()
    storage_bytes = serializers.IntegerField()
    acquired_at = serializers.DateTimeField()
    released_at = serializers.DateTimeField(allow_null=True)
    acquired_seconds = serializers.FloatField()
    released_seconds = serializers.FloatField(allow_null=True)
    moved_from = serializers.IntegerField(
        allow_null=True, help_text="The placement that it replaces, after a migration."
    )
    moved_seconds = serializers.FloatField(
        allow_null=True,
        help_text="When it replaced the other; null for a reservation.",
    )


_FIRST_COLUMNS = (
    "server",
    "server_id",
    "unit",
    "core",
    "verdict",
    "quality",
    "target",
    "closeness",
)


def represent_decision(decision: Decision) -> dict[str, Any]:
    """JSON of a decision; its job must be loaded."""
    return {
        "id": str(decision.pk),
        "job": str(decision.job_id),
        "job_name": decision.job.name,
        "at": time(decision.at),
        "cluster_seconds": decision.cluster_s,
        "outcome": str(decision.outcome),
        "reason": decision.reason_code,
        "agent": decision.agent,
        "policy": decision.policy,
        "policy_version": decision.policy_version,
        "code_version": decision.code_version,
        "seed": decision.seed,
        "snapshot": decision.snapshot,
        "profile": str(decision.profile_id) if decision.profile_id else None,
        "units": decision.units,
        "units_won": decision.units_won,
        "units_before": decision.units_before,
        "sample": _sample(decision) if decision.is_by_policy else None,
        "copy_age": {
            "seconds": decision.copy_age_s,
            "changes_behind": decision.changes_behind,
        },
        "dropped": decision.dropped,
        "guarantee": _guarantee(decision) if decision.is_by_policy else None,
        "rank": decision.rank,
        "predicted": decision.predicted,
        "waited_seconds": decision.waited_s,
        "candidates_url": f"/api/v1/decisions/{decision.pk}/candidates/",
    }


def _sample(decision: Decision) -> dict[str, Any]:
    return {
        "size": decision.sample_size,
        "units_examined": decision.examined,
        "units_eligible": decision.eligible,
        "servers_total": decision.servers_total,
        "commit_retries": decision.commit_retries,
        "elapsed_seconds": decision.elapsed_s,
    }


def _guarantee(decision: Decision) -> dict[str, Any]:
    return {
        "statement": statement(
            decision.examined,
            decision.eligible,
            decision.rank_threshold,
            decision.probability,
            decision.units_won,
        ),
        "rank_threshold": decision.rank_threshold,
        "probability": decision.probability,
        "assumption": "uniform, independent sampling" if decision.probability else None,
        "requested": decision.guarantee,
    }


def represent_candidates(decision: Decision, names: Mapping[int, str]) -> dict[str, Any]:
    """JSON of the candidate table: the union of the columns, in one fixed order."""
    rows = list(decision.candidates)
    present = {column for row in rows for column in row}
    if "server_id" in present:
        present.add("server")
    # the order in which they are stored is not that of the table
    columns = [name for name in _FIRST_COLUMNS if name in present]
    columns += sorted(present - set(columns))
    named = [{"server": names.get(row.get("server_id", -1)), **row} for row in rows]
    table = [{column: row.get(column) for column in columns} for row in named]
    return {"columns": columns, "results": table}


def represent_explanation(
    job: Job, decision: Decision | None, servers: list[str], *, now_s: float
) -> dict[str, Any]:
    """JSON of the explanation of a job's state."""
    return {
        "job": str(job.pk),
        "state": str(job.state),
        "summary": _summary(job, decision, servers),
        "reason": represent_reason(job),
        "reservation": _reservation(reservation_of(job)),
        "start": _start(current_estimate(job), now_s),
        "decision": represent_decision(decision) if decision else None,
    }


def _start(estimate: StartEstimate | None, now_s: float) -> dict[str, Any] | None:
    if estimate is None:
        return None
    starts = (estimate.p50_s, estimate.p90_s)
    p50_s, p90_s = (None if at is None else max(0.0, at - now_s) for at in starts)
    return {"p50_seconds": p50_s, "p90_seconds": p90_s}


def _reservation(kept: Reservation | None) -> dict[str, Any] | None:
    if kept is None:
        return None
    return {
        "units": len(kept.unit_ids),
        "made_seconds": kept.made_s,
        "start_seconds": kept.start_s,
        "promised_seconds": kept.promised_s,
    }


def _summary(job: Job, decision: Decision | None, servers: list[str]) -> str:
    known = job.reason_code in set(Reason)
    sentence = MEANINGS[Reason(job.reason_code)].sentence if known else ""
    if decision is None:
        return " ".join(part for part in (sentence, job.reason_message) if part)
    has_meaning = decision.reason_code in set(Reason)
    return summary(
        SummaryFacts(
            outcome=decision.outcome,
            policy=decision.policy,
            sentence=MEANINGS[Reason(decision.reason_code)].sentence if has_meaning else sentence,
            units=decision.units,
            units_won=decision.units_won,
            servers=servers,
            examined=decision.examined,
            eligible=decision.eligible,
            servers_total=decision.servers_total,
            dropped=decision.dropped,
            commit_retries=decision.commit_retries,
            units_before=decision.units_before,
            about=decision.job.name if decision.job_id != job.pk else "",
            cores=core_choice_of(decision),
        )
    )


def represent_placement(allocation: Allocation, names: Mapping[int, str]) -> dict[str, Any]:
    """JSON of an allocation."""
    return {
        "id": allocation.pk,
        "server": names.get(allocation.server_id),
        "server_id": allocation.server_id,
        "decision": str(allocation.decision_id),
        "units": list(allocation.unit_ids),
        "cores": allocation.cores,
        "memory_bytes": allocation.memory_bytes,
        "network_bps": allocation.network_bps,
        "storage_bytes": allocation.storage_bytes,
        "acquired_at": time(allocation.acquired_at),
        "released_at": time(allocation.released_at),
        "acquired_seconds": allocation.acquired_s,
        "released_seconds": allocation.released_s,
        "moved_from": allocation.moved_from,
        "moved_seconds": allocation.moved_s,
    }
