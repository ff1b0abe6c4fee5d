"""What would happen to a job submitted now: the whole path on a snapshot, writing nothing."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from apps.classification.core.profile import Profile
from apps.inventory.core.snapshot import Snapshot
from apps.profiling.core.short import skips_profiling
from apps.scheduling.core.ask import (
    CLOSED,
    ask_of,
    cluster_facts,
    is_only_closed,
    request_of,
    size_of,
    work_of,
)
from apps.scheduling.core.feasibility import Feasibility, feasibility, lighter_load
from apps.scheduling.core.sizing import EASIER, Infeasible, Sized
from apps.scheduling.core.types import Placed, Policy, Refused
from apps.workloads.core.spec import JobSpec
from apps.workloads.core.targets import CompletionTime, InstructionRate, ThroughputLatency

SHOWN_CANDIDATES: Final = 8


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A target that would be feasible, and a sentence that says so."""

    text: str
    target: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Checked:
    """The answer to "what if".

    Attributes
    ----------
    outcome : "placed" (would start now), "waits", "infeasible" or "profiling" (not known yet)
    feasible : whether the target can be met at all; None = not known before profiling
    reason : code of `workloads.core.reasons.Reason`
    predicted, low, high : performance in the target's unit; None = not predicted
    probability_met : that the target is met there
    dropped : units each filter took out
    feasibility : what any size would achieve; None = not known before profiling
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
    feasibility: Feasibility | None = None


def check(
    spec: JobSpec,
    profile: Profile | None,
    snapshot: Snapshot,
    policy: Policy,
    rng: np.random.Generator,
) -> Checked:
    """Size and place a job on a snapshot.

    Parameters
    ----------
    profile : of the application; None = it has none yet

    Returns
    -------
    What the agent would decide now; the draw of a sampling policy may differ.
    """
    if profile is None:
        return _unknown(spec, snapshot)
    ask = ask_of(spec, job="check")
    facts = cluster_facts(snapshot, profile.platforms)
    sized = size_of(ask, profile, facts)
    seen = feasibility(profile, ask.target, work_of(ask), facts, sized)
    if isinstance(sized, Infeasible) and is_only_closed(ask, profile, snapshot):
        return replace(_closed(snapshot), feasibility=seen)
    if isinstance(sized, Infeasible):
        best = _infeasible(spec, sized, snapshot)
        if isinstance(ask.target, ThroughputLatency) and math.isinf(sized.best):
            lighter = lighter_load(profile, ask.target, work_of(ask), facts)
            best = replace(best, suggestions=_fewer(lighter))
        return replace(best, feasibility=seen)
    request = request_of(ask, profile, sized, snapshot.topology)
    (decided,) = policy.place(snapshot, [request], rng)
    if isinstance(decided, Refused):
        return replace(_refused(sized, decided), feasibility=seen)
    return replace(_placed(sized, decided, snapshot), feasibility=seen)


def _unknown(spec: JobSpec, snapshot: Snapshot) -> Checked:
    is_short = skips_profiling(
        spec.kind, spec.target, duration_s=spec.duration_s, input_bytes=spec.input_bytes
    )
    first = "it is profiled first, then sized and placed."
    if is_short:
        first = (
            "the job is over before profiling would be, so it starts at once on a quiet server "
            "with room, if typical applications would keep its target."
        )
    return Checked(
        outcome="profiling",
        feasible=None,
        reason="PlacedAtRandom" if is_short else "WaitingForProfile",
        summary=f"{spec.application} is new: {first}",
        snapshot=snapshot.sequence,
    )


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _closed(snapshot: Snapshot) -> Checked:
    return Checked(
        outcome="waits",
        feasible=True,
        reason="ServersClosed",
        summary=f"It would not start now: {CLOSED}.",
        snapshot=snapshot.sequence,
    )


def _infeasible(spec: JobSpec, sized: Infeasible, snapshot: Snapshot) -> Checked:
    best = f" The best is {sized.units} units of {sized.platform}." if sized.platform else ""
    return Checked(
        outcome="infeasible",
        feasible=False,
        reason="InfeasibleTarget" if sized.platform else "NoMatchingServer",
        summary=f"The target cannot be met: {sized.suggestion}.{best}",
        units=sized.units or None,
        platforms=(sized.platform,) if sized.platform else (),
        predicted=_known(sized.best),
        suggestions=tuple(_easier(spec, sized.best)),
        snapshot=snapshot.sequence,
    )


def _easier(spec: JobSpec, best: float) -> Sequence[Suggestion]:
    """Return the nearest target that is predicted to be feasible."""
    if not math.isfinite(best) or best <= 0.0:
        return ()
    match spec.target:
        case CompletionTime():
            seconds = math.ceil(best * EASIER)
            text = f"done within {seconds:,} s"
            return (Suggestion(text, {"kind": "completion_time", "seconds": seconds}),)
        case ThroughputLatency() as wanted:
            latency = float(f"{best * EASIER:.3g}")
            text = f"p{wanted.percentile:g} within {latency * 1e3:g} ms at {wanted.qps:g} qps"
            return (Suggestion(text, {**wanted.as_json(), "latency_seconds": latency}),)
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


def _refused(sized: Sized, refused: Refused) -> Checked:
    return Checked(
        outcome="infeasible" if refused.reason.is_permanent else "waits",
        feasible=not refused.reason.is_permanent,
        reason=refused.reason.value,
        summary=f"It would not start now: {refused.detail or refused.reason.value}.",
        units=sized.units,
        platforms=tuple(sorted(sized.platforms or ())),
        predicted=_known(sized.predicted),
        low=_known(sized.low),
        high=_known(sized.high),
        probability_met=_known(sized.probability),
        examined=refused.examined,
        eligible=refused.eligible,
        dropped=refused.dropped,
        snapshot=refused.sequence,
    )


def _placed(sized: Sized, placed: Placed, snapshot: Snapshot) -> Checked:
    topology = snapshot.topology
    servers = [topology.server_name[i] for i in topology.unit_server[placed.units]]
    distinct = list(dict.fromkeys(servers))
    units = "1 unit" if sized.units == 1 else f"{sized.units} units"
    count = "1 server" if len(distinct) == 1 else f"{len(distinct)} servers"
    return Checked(
        outcome="placed",
        feasible=True,
        reason="Starting",
        summary=f"It would start now: {units} on {count}, {distinct[0]} first.",
        units=sized.units,
        platforms=tuple(sorted(sized.platforms or ())),
        servers=distinct,
        predicted=_known(sized.predicted),
        low=_known(sized.low),
        high=_known(sized.high),
        probability_met=_known(sized.probability),
        examined=placed.examined,
        eligible=placed.eligible,
        rank_threshold=placed.rank_threshold,
        probability=placed.probability,
        dropped=placed.dropped,
        candidates=tuple(
            {
                "server": topology.server_name[candidate.server],
                "quality": _known(candidate.quality),
                "target": _known(candidate.target),
                "closeness": _known(candidate.closeness),
                "verdict": str(candidate.verdict),
            }
            for candidate in placed.candidates[:SHOWN_CANDIDATES]
        ),
        snapshot=placed.sequence,
    )
