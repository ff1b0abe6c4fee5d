"""Decide a stored decision again with something changed. Writes nothing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID

import numpy as np
from django.conf import settings
from django.db.models import Q

from apps.classification import selectors as classification
from apps.inventory.core.snapshot import Shorts
from apps.inventory.selectors import cluster_time
from apps.scheduling.core import registry
from apps.scheduling.core.patience import patience_s
from apps.scheduling.core.records.candidate_record import candidates_json
from apps.scheduling.core.records.redecide import Moment, Neighbour, moment_of
from apps.scheduling.core.requests import (
    START_DELAY_S,
    after,
    cluster_facts,
    request_of,
    size_or_late,
)
from apps.scheduling.core.sizing.allowances import KINDS, Allowances
from apps.scheduling.core.sizing.run_time import RunTime, run_time
from apps.scheduling.core.sizing.sizes import Infeasible, Sized
from apps.scheduling.core.types import Placed, Policy, Refused, Request
from apps.scheduling.models import Allocation, Decision, SizingAllowance
from apps.scheduling.selectors import ClaimedJob, claimed_jobs
from apps.scheduling.services.decisions import predicted_json
from apps.scheduling.services.repeats import (
    NotRepeatableError,
    RepeatedBatch,
    repeated_batch,
    stored_decision,
)
from apps.workloads.core.targets import Target, read_target

MIN_LOSS: Final = 0.0005  # smaller ones are shown as 0.0 %


@dataclass(frozen=True, slots=True)
class Changes:
    """What is changed; everything else is as it was.

    Attributes
    ----------
    policy : None = the one that decided, or one that draws a sample if ``sample_size`` is given
    parameters : of the policy
    sample_size : R
    target : as JSON
    without : ids of servers that the job may not use
    """

    policy: str | None = None
    parameters: Mapping[str, float] = field(default_factory=dict)
    sample_size: int | None = None
    target: Mapping[str, Any] | None = None
    without: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Situation:
    """A decision with the cluster just before it."""

    decision: Decision
    batch: RepeatedBatch
    moment: Moment
    request: Request

    @property
    def outcome(self) -> Placed | Refused:
        """What was decided."""
        return self.batch.outcomes[self.decision.position or 0]

    def request_for(self, policy: str, request: Request) -> Request:
        """Return a request with the R that it would have had for a policy."""
        return self.batch.request_for(policy, request, self.decision.job)


def situation_of(decision: Decision) -> Situation:
    """Rebuild the cluster just before a decision.

    Raises
    ------
    NotRepeatableError : something that it followed from is not stored.
    """
    batch, position = repeated_batch(decision), decision.position or 0
    moment = moment_of(
        batch.past.copy.snapshot(),
        batch.requests,
        batch.outcomes,
        position,
        facts=batch.facts,
        bindings=batch.stored.bindings,
    )
    return Situation(decision, batch, moment, batch.requests[position])


def counterfactual(decision_id: UUID, changes: Changes) -> dict[str, Any]:
    """Decide again with changes; JSON with both outcomes and what each predicts.

    Jobs that lose are named by their ids: the caller leaves out those that the reader may not see.

    Raises
    ------
    NotRepeatableError : something that the decision followed from is not stored.
    PolicyFailedError : the policy of the changes raised an error.
    """
    situation = situation_of(stored_decision(decision_id))
    name, policy = _policy(situation, changes)
    request, predicted = _changed_request(situation, changes, name)
    if isinstance(request, Infeasible):
        now = _infeasible(request, name)
    else:
        outcome = situation.moment.decide(policy, request, seed=situation.decision.seed)
        now = _answer(situation, request, outcome, name)
        now["predicted"] = predicted
    before = _answer(situation, situation.request, situation.outcome, situation.batch.row.policy)
    before["predicted"] = situation.decision.predicted
    same = ("outcome", "reason", "unit_ids")
    return {
        "is_same": all(before[key] == now[key] for key in same),
        "before": before,
        "after": now,
    }


def _policy(situation: Situation, changes: Changes) -> tuple[str, Policy]:
    decided = situation.batch.row.policy
    name = registry.policy_after(decided, changes.policy, sample_size=changes.sample_size)
    if name == situation.batch.row.policy:
        return name, registry.make(name, {**situation.batch.parameters, **changes.parameters})
    if changes.parameters:
        return name, registry.make(name, changes.parameters)
    return name, registry.make_plain(name)  # for one decision, kernels need not be compiled


def _changed_request(
    situation: Situation, changes: Changes, policy: str
) -> tuple[Request | Infeasible, dict[str, Any]]:
    request, predicted = situation.request, situation.decision.predicted
    if changes.target is not None:
        target = read_target(changes.target)
        resized = _resized(situation, target)
        if isinstance(resized, Infeasible):
            return resized, {}
        request, predicted = resized[1], predicted_json(resized[0], target)
    if changes.without:
        indices = np.flatnonzero(np.isin(situation.batch.topology.server_id, changes.without))
        request = replace(request, excluded=request.excluded | frozenset(indices.tolist()))
    if changes.sample_size is not None:
        return replace(request, sample_size=changes.sample_size), predicted
    return situation.request_for(policy, request), predicted


def _resized(situation: Situation, target: Target) -> Infeasible | tuple[Sized, Request]:
    """Size the job for another target, on the same cluster and with the same profile."""
    decision, topology = situation.decision, situation.batch.topology
    if decision.units_before or decision.profile_id is None:
        raise NotRepeatableError(
            "a job that was running or had no profile is not sized by its target"
        )
    delay_s = START_DELAY_S * cluster_time().speed
    jobs = claimed_jobs([decision.job_id], cluster_s=decision.cluster_s, start_delay_s=delay_s)
    profile = classification.profiles([decision.profile_id])[decision.profile_id]
    spec = replace(jobs[0].spec, target=target)
    snapshot = situation.batch.past.copy.snapshot()
    facts = cluster_facts(snapshot, profile.platforms, _allowances(decision))
    elapsed_s = jobs[0].elapsed_s
    sized = size_or_late(spec, profile, facts, elapsed_s=elapsed_s)
    if isinstance(sized, Infeasible):
        return sized
    request = after(request_of(spec, profile, sized, topology, job="changed"), elapsed_s)
    before = situation.request
    run = run_time(spec, profile, sized, facts, elapsed_s=elapsed_s)
    return sized, replace(
        request,
        sample_size=before.sample_size,
        is_patient=_is_patient(jobs[0], before, target, request.units, run),
        excluded=before.excluded,
        pool=before.pool,
    )


def _is_patient(
    job: ClaimedJob, before: Request, target: Target, units: int, run: RunTime | None
) -> bool:
    """Whether a job with another target may still wait for better units.

    One that took any units, although its own target let it wait, does so with each target.
    """

    def may_wait(units: int, target: Target, run: RunTime | None) -> bool:
        longest_s = patience_s(
            units, target.kind, run, limit_s=settings.PATIENCE_S, priority=job.priority
        )
        return job.waited_s < longest_s

    if not before.is_patient and may_wait(before.units, job.spec.target, None):
        return False
    return may_wait(units, target, run)


def _allowances(decision: Decision) -> Allowances:
    """Return the sizing allowances at the time of a decision."""
    rows = SizingAllowance.objects.filter(kind__in=KINDS, at__lte=decision.at)
    newest = rows.order_by("kind", "-id").distinct("kind")
    return Allowances(**{row.kind: row.value for row in newest})


def _infeasible(sized: Infeasible, policy: str) -> dict[str, Any]:
    nothing: dict[str, Any] = {"servers": [], "unit_ids": [], "candidates": [], "neighbours": []}
    numbers = {"units": sized.units, "examined": 0, "eligible": 0, "dropped": {}}
    return {
        **nothing,
        **numbers,
        "outcome": "refused",
        "reason": "InfeasibleTarget" if sized.cost is None else "CostExceeded",
        "detail": sized.suggestion,
        "policy": policy,
        "prediction": None,
        "predicted": {},
    }


def _answer(
    situation: Situation, request: Request, outcome: Placed | Refused, policy: str
) -> dict[str, Any]:
    known: dict[str, Any] = {
        "policy": policy,
        "units": (outcome.wanted if isinstance(outcome, Placed) else None) or request.units,
        "examined": outcome.examined,
        "eligible": outcome.eligible,
        "dropped": dict(outcome.dropped),
    }
    if isinstance(outcome, Refused):
        return {
            **known, "outcome": "refused", "reason": outcome.reason.value, "prediction": None,
            "detail": outcome.detail, "servers": [], "unit_ids": [], "candidates": [],
            "neighbours": [],
        }  # fmt: skip
    topology = situation.batch.topology
    return {
        **known,
        "outcome": "placed",
        "reason": "",
        "detail": "",
        "servers": _servers(situation, outcome.units),
        "unit_ids": sorted(topology.unit_id[outcome.units].tolist()),
        "prediction": situation.moment.prediction(request, outcome.units)._asdict(),
        "candidates": candidates_json(outcome.candidates, topology),
        "neighbours": _losers(situation, request, outcome.units),
    }


def _servers(situation: Situation, units: Shorts) -> list[dict[str, Any]]:
    topology = situation.batch.topology
    servers, counts = np.unique(topology.unit_server[units], return_counts=True)
    return [
        {
            "server": topology.server_name[server],
            "platform": topology.platform_name[topology.server_platform[server]],
            "units": count,
        }
        for server, count in zip(servers.tolist(), counts.tolist(), strict=True)
    ]


def _losers(situation: Situation, request: Request, units: Shorts) -> list[dict[str, Any]]:
    """Return the jobs that the chosen units slow down, those that lose most first."""
    topology = situation.batch.topology
    chosen = np.unique(topology.unit_server[units])
    rows = _held(topology.server_id[chosen].tolist(), situation)
    index = dict(zip(topology.server_id[chosen].tolist(), chosen.tolist(), strict=True))
    neighbours = [
        Neighbour(
            index[row.server_id],
            row.cores,
            np.array(row.caused),
            np.array(row.tolerated) if row.tolerated else None,
        )
        for row in rows
    ]
    losses = situation.moment.losses(request, units, neighbours)
    found = [
        {
            "job": str(row.job_id),
            "server": topology.server_name[index[row.server_id]],
            "loss": lost,
        }
        for row, lost in zip(rows, losses, strict=True)
    ]
    return largest_losses(found)


def largest_losses(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the largest loss of each job, the largest first, without losses shown as 0.0 %."""
    in_order = sorted(found, key=lambda each: (-each["loss"], each["job"]))
    by_job: dict[str, dict[str, Any]] = {}
    for each in in_order:
        if each["loss"] >= MIN_LOSS:
            by_job.setdefault(each["job"], each)
    return list(by_job.values())


def _held(server_ids: Sequence[int], situation: Situation) -> list[Allocation]:
    """Return what other jobs held on servers just before a decision.

    That includes what the earlier jobs of its batch were given.
    """
    decision, sequence = situation.decision, situation.batch.row.sequence
    rows = Allocation.objects.filter(server_id__in=server_ids).exclude(job_id=decision.job_id)
    before = rows.filter(acquired_seq__lte=sequence)
    held = before.filter(Q(released_seq=None) | Q(released_seq__gt=sequence))
    given = rows.filter(
        acquired_seq__gt=sequence,
        moved_from=None,
        decision__batch_id=decision.batch_id,
        decision__position__lt=decision.position or 0,
    )
    return [*held.order_by("id"), *given.order_by("id")]
