"""Dry runs: size and place a job on a snapshot, without writing anything."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from apps.classification.core.profile import Profile
from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.commands import NO_REVISION
from apps.scheduling.core.patience import patience_s
from apps.scheduling.core.records.verdicts import verdict_text
from apps.scheduling.core.requests import (
    CLOSED,
    cluster_facts,
    is_only_closed,
    is_short,
    request_of,
    size_of,
    work_of,
)
from apps.scheduling.core.sizing.allowances import DEFAULT, Allowances
from apps.scheduling.core.sizing.feasibility import Feasibility, feasibility, lighter_load
from apps.scheduling.core.sizing.minimum import EASIER
from apps.scheduling.core.sizing.run_time import RunTime, run_time
from apps.scheduling.core.sizing.sizes import ClusterFacts, Infeasible, Sized
from apps.scheduling.core.tarcil.job_sampling import (
    DEFAULT_SAMPLING,
    FOLLOWING_LOAD,
    Sampling,
    TopFreeShares,
    sampling_of,
    with_guarantee,
)
from apps.scheduling.core.types import MAX_SAMPLE, Placed, Policy, Refused, Request
from apps.workloads.core.spec import JobSpec
from apps.workloads.core.targets import (
    BestEffort,
    CompletionTime,
    InstructionRate,
    ThroughputLatency,
)

SHOWN_CANDIDATES: Final = 8
FEWER_UNITS: Final = (
    "Request fewer units, or ask an administrator to raise the maximum of the project."
)


@dataclass(frozen=True, slots=True, eq=False)
class DryRunJob:
    """A sized job, as a policy decides on it.

    Attributes
    ----------
    run : predicted run time; None = unknown
    """

    profile: Profile
    sized: Sized
    request: Request
    facts: TopologyFacts
    sampling: Sampling
    run: RunTime | None


Decide = Callable[[DryRunJob], Placed | Refused]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A feasible target, and its description."""

    text: str
    target: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """Predicted outcome of a submission.

    Attributes
    ----------
    outcome : "placed" (would start now), "waits", "infeasible" or "profiling" (no profile yet)
    feasible : whether the target can be met; None = unknown before profiling
    reason : code of `workloads.core.reasons.Reason`
    predicted, low, high : performance in the target's unit; None = not predicted
    probability_met : probability of meeting the target
    dropped : number of units rejected by each filter
    policy : that decided; "" = none did
    sampling : R, and what it follows from
    feasibility : predictions for all sizes; None = unknown before profiling, and of best effort
        without input
    run : predicted run time; None = unknown
    request : that a policy decided on; None = none did
    basis : profile and capacity that the size follows from; None = the job was not sized
    longest_wait_s : cluster seconds that the job may wait for better units; 0 = not for these
    next_action : what the user can do; "" = what the meaning of the reason says
    """

    outcome: str
    feasible: bool | None
    reason: str
    summary: str
    units: int | None = None
    platforms: Sequence[str] = ()
    servers: Sequence[str] = ()
    predicted: float | None = None
    low: float | None = None
    high: float | None = None
    probability_met: float | None = None
    examined: int = 0
    eligible: int = 0
    rank_threshold: float | None = None
    probability: float | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    suggestions: Sequence[Suggestion] = ()
    candidates: Sequence[Mapping[str, Any]] = ()
    snapshot: int = 0
    policy: str = ""
    sampling: Sampling = DEFAULT_SAMPLING
    feasibility: Feasibility | None = None
    run: RunTime | None = None
    request: Request | None = None
    basis: tuple[Profile, ClusterFacts] | None = None
    longest_wait_s: float = 0.0
    next_action: str = ""


def dry_run(  # noqa: PLR0913 - the state of an agent, one by one
    spec: JobSpec,
    profile: Profile | None,
    snapshot: Snapshot,
    policy: Policy,
    decide: Decide,
    *,
    max_sample: int = MAX_SAMPLE,
    allowances: Allowances = DEFAULT,
    longest_wait_s: float = 0.0,
) -> DryRunResult:
    """Size and place a job on a snapshot.

    Parameters
    ----------
    profile : of the application; None = not profiled yet. Nothing is predicted from an unmeasured
        one (`core.commands`)
    policy : that ``decide`` asks
    decide : decides on the sized job
    max_sample : largest R
    allowances : of sizing
    longest_wait_s : of any job, for better units while others are free

    Returns
    -------
    The decision of an agent at this moment, except for the random draw of a sampling policy.
    """
    if profile is None:
        return _unknown(spec, snapshot)
    facts = cluster_facts(snapshot, profile.platforms, allowances)
    sized = size_of(spec, profile, facts)
    grid = None
    has_unit = spec.input_bytes > 0 or not isinstance(spec.target, BestEffort)
    if profile.revision != NO_REVISION and has_unit:
        grid = feasibility(profile, spec.target, work_of(spec), facts, sized)
    if isinstance(sized, Infeasible) and is_only_closed(spec, profile, snapshot, allowances):
        return replace(_closed(snapshot), feasibility=grid)
    if isinstance(sized, Infeasible):
        best = _infeasible(spec, sized, snapshot)
        if isinstance(spec.target, ThroughputLatency) and math.isinf(sized.best):
            lighter = lighter_load(profile, spec.target, work_of(spec), facts)
            best = replace(best, suggestions=_fewer(lighter))
        return replace(best, feasibility=grid)
    request = request_of(spec, profile, sized, snapshot.topology, job="check")
    facts_of_topology = TopologyFacts(snapshot.topology)
    shares = TopFreeShares() if policy.name in FOLLOWING_LOAD else None
    sampling = sampling_of(
        spec, request, snapshot, facts_of_topology, max_sample=max_sample, shares=shares
    )
    request = replace(request, sample_size=sampling.size)
    run = run_time(spec, profile, sized, facts, elapsed_s=0.0)
    if profile.revision == NO_REVISION:
        longest_wait_s = 0.0
    kind, priority = spec.target.kind, spec.priority
    longest_s = patience_s(request.units, kind, run, limit_s=longest_wait_s, priority=priority)
    request = replace(request, is_patient=longest_s > 0.0)
    outcome = decide(DryRunJob(profile, sized, request, facts_of_topology, sampling, run))
    if isinstance(outcome, Refused):
        result = _refused(sized, outcome, longest_s)
    else:
        result = _placed(sized, with_guarantee(outcome, sampling), snapshot)
    return replace(
        result,
        policy=policy.name,
        sampling=sampling,
        feasibility=grid,
        run=run,
        request=request,
        basis=(profile, facts),
    )


def _unknown(spec: JobSpec, snapshot: Snapshot) -> DryRunResult:
    is_short_job = is_short(spec)
    next_step = "it will be profiled first, then sized and placed."
    if is_short_job:
        next_step = (
            "the job is shorter than profiling, so it starts at once on a server with little "
            "interference, provided that typical applications would meet its target."
        )
    return DryRunResult(
        outcome="profiling",
        feasible=None,
        reason="PlacedAtRandom" if is_short_job else "WaitingForProfile",
        summary=f"{spec.application} has no profile yet: {next_step}",
        snapshot=snapshot.sequence,
    )


def copied_first(spec: JobSpec, snapshot: Snapshot) -> DryRunResult:
    """Return the outcome of a command whose copies are profiled before it is placed."""
    return DryRunResult(
        outcome="profiling",
        feasible=None,
        reason="WaitingForProfile",
        summary=(
            f"{spec.application} was not measured yet: copies of the command are profiled first, "
            "then the job is placed."
        ),
        snapshot=snapshot.sequence,
    )


def without_commands(snapshot: Snapshot) -> DryRunResult:
    """Return the outcome of a command if no server runs commands."""
    return DryRunResult(
        outcome="infeasible",
        feasible=False,
        reason="NoMatchingServer",
        summary="No server of this cluster runs commands: enrol an agent first.",
        snapshot=snapshot.sequence,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _closed(snapshot: Snapshot) -> DryRunResult:
    return DryRunResult(
        outcome="waits",
        feasible=True,
        reason="ServersClosed",
        summary=f"The job would wait: {CLOSED}.",
        snapshot=snapshot.sequence,
    )


def _infeasible(spec: JobSpec, sized: Infeasible, snapshot: Snapshot) -> DryRunResult:
    best = f" The best option is {sized.option}." if sized.option else ""
    if sized.cost is not None:
        return DryRunResult(
            outcome="infeasible",
            feasible=False,
            reason="CostExceeded",
            summary=f"The job would cost too much: {sized.suggestion}.{best}",
            units=sized.units,
            platforms=(sized.platform,) if sized.platform else (),
            snapshot=snapshot.sequence,
        )
    verdict = "The target cannot be met" if sized.platform else "The job cannot start"
    return DryRunResult(
        outcome="infeasible",
        feasible=False,
        reason="InfeasibleTarget" if sized.platform else "NoMatchingServer",
        summary=f"{verdict}: {sized.suggestion}.{best}",
        units=sized.units or None,
        platforms=(sized.platform,) if sized.platform else (),
        predicted=_finite(sized.best),
        suggestions=tuple(easier(spec, sized.best)),
        snapshot=snapshot.sequence,
    )


def easier(spec: JobSpec, best: float) -> Sequence[Suggestion]:
    """Return the closest target that is predicted to be feasible."""
    if not math.isfinite(best) or best <= 0.0:
        return ()
    match spec.target:
        case CompletionTime():
            seconds = math.ceil(best * EASIER)
            text = f"completion within {seconds:,} s"
            return (Suggestion(text, {"kind": "completion_time", "seconds": seconds}),)
        case ThroughputLatency() as target:
            latency = float(f"{best * EASIER:.3g}")
            text = f"p{target.percentile:g} within {latency * 1e3:g} ms at {target.qps:g} qps"
            return (Suggestion(text, {**target.as_json(), "latency_seconds": latency}),)
        case InstructionRate():
            ips = float(f"{best / EASIER:.3g}")
            return (Suggestion(f"{ips:.3g} instructions/s", {"kind": "ips", "ips": ips}),)
        case _:
            return ()


def _fewer(lighter: ThroughputLatency | None) -> Sequence[Suggestion]:
    """Return the lighter load as a suggestion."""
    if lighter is None:
        return ()
    within = f"p{lighter.percentile:g} within {lighter.latency_seconds * 1e3:g} ms"
    load = f"{lighter.qps:,.0f}" if lighter.qps >= 10.0 else f"{lighter.qps:g}"
    return (Suggestion(f"{load} queries/s, {within}", lighter.as_json()),)


def _refused(sized: Sized, refused: Refused, longest_s: float) -> DryRunResult:
    verdict = "The job cannot start" if refused.is_permanent else "The job would wait"
    summary = f"{verdict}: {refused.detail or refused.reason.value}."
    if refused.waits_for_better:
        summary += f" After {longest_s:,.0f} s of cluster time it takes any unit that is free."
    return DryRunResult(
        outcome="infeasible" if refused.is_permanent else "waits",
        feasible=not refused.is_permanent,
        reason=refused.reason.value,
        summary=summary,
        units=sized.units,
        platforms=tuple(sorted(sized.platforms or ())),
        predicted=_finite(sized.predicted),
        low=_finite(sized.low),
        high=_finite(sized.high),
        probability_met=_finite(sized.probability),
        examined=refused.examined,
        eligible=refused.eligible,
        dropped=refused.dropped,
        snapshot=refused.sequence,
        longest_wait_s=longest_s if refused.waits_for_better else 0.0,
        next_action=FEWER_UNITS if refused.is_beyond_limit else "",
    )


def _placed(sized: Sized, placed: Placed, snapshot: Snapshot) -> DryRunResult:
    topology = snapshot.topology
    servers = [topology.server_name[i] for i in topology.unit_server[placed.units]]
    distinct = list(dict.fromkeys(servers))
    wanted = placed.wanted or sized.units
    units = "1 unit" if wanted == 1 else f"{wanted} units"
    rest = ""
    if placed.units.size < wanted:
        units = f"{placed.units.size} of {units}"
        rest = "; the rest follows as units are freed"
    count = "1 server" if len(distinct) == 1 else f"{len(distinct)} servers"
    return DryRunResult(
        outcome="placed",
        feasible=True,
        reason="Starting",
        summary=(
            f"The job would start now: {units} on {count}, starting with {distinct[0]}{rest}."
        ),
        units=wanted,
        platforms=tuple(sorted(sized.platforms or ())),
        servers=distinct,
        predicted=_finite(sized.predicted),
        low=_finite(sized.low),
        high=_finite(sized.high),
        probability_met=_finite(sized.probability),
        examined=placed.examined,
        eligible=placed.eligible,
        rank_threshold=placed.rank_threshold,
        probability=placed.probability,
        dropped=placed.dropped,
        candidates=tuple(
            {
                "server": topology.server_name[candidate.server],
                "quality": _finite(candidate.quality),
                "target": _finite(candidate.target),
                "closeness": _finite(candidate.closeness),
                "verdict": str(candidate.verdict),
                "verdict_text": verdict_text(candidate),
            }
            for candidate in placed.candidates[:SHOWN_CANDIDATES]
        ),
        snapshot=placed.sequence,
    )
