"""Turn a job and the profile of its application into the request that a policy receives."""

import math
from collections.abc import Collection
from dataclasses import replace
from typing import Final

import numpy as np

from apps.classification.core.profile import Profile
from apps.inventory.core.snapshot import Floats, Ints, Snapshot, Topology
from apps.profiling.core.short import skips_profiling
from apps.scheduling.core.sizing.allowances import DEFAULT, Allowances
from apps.scheduling.core.sizing.goals import Goal
from apps.scheduling.core.sizing.minimum import fixed_size, size, size_on_all
from apps.scheduling.core.sizing.sizes import ClusterFacts, Infeasible, Sized, Work
from apps.scheduling.core.types import Request, Within
from apps.workloads.core.spec import JobSpec
from apps.workloads.core.targets import BestEffort, CompletionTime

START_DELAY_S: Final = 0.25  # wall seconds from commit to the start of work
CLOSED: Final = "all servers that could meet the target are drained, cordoned or down"
UNKNOWN_SPEED: Final = 1e-3  # of platforms without measurements; requests exclude them


def cluster_facts(
    snapshot: Snapshot, platforms: tuple[str, ...], allowances: Allowances = DEFAULT
) -> ClusterFacts:
    """Count the open and free units of platforms, and the units of their largest server. O(U)."""
    topology = snapshot.topology
    n = len(topology.platform_name)
    opened = np.where(snapshot.server_open, topology.server_units, 0)
    largest = np.zeros(n, dtype=np.int64)
    by_size = np.argsort(opened, kind="stable")
    largest[topology.server_platform[by_size]] = opened[by_size]  # the last, largest one remains
    total = np.bincount(topology.server_platform, weights=opened, minlength=n)
    counts = np.add.reduceat(snapshot.unit_free, topology.server_first_unit, dtype=np.int32)
    usable = np.where(snapshot.server_open, counts, 0)
    free = np.bincount(topology.server_platform, weights=usable, minlength=n)
    place = {name: i for i, name in enumerate(topology.platform_name)}

    def of(counts: Floats | Ints) -> tuple[int, ...]:
        return tuple(int(counts[place[name]]) if name in place else 0 for name in platforms)

    return ClusterFacts(platforms, of(total), of(largest), of(free), allowances)


def work_of(spec: JobSpec, *, elapsed_s: float = 0.0) -> Work:
    """Return the part of a job that sizing depends on."""
    return Work(
        input_bytes=spec.input_bytes,
        tasks=spec.tasks if spec.tasks > 1 else None,
        elapsed_s=elapsed_s,
        platforms=frozenset(spec.constraints.platforms) or None,
        locality=Within(spec.constraints.locality) if spec.constraints.locality else None,
        unit_memory_bytes=spec.unit_memory_bytes,
        duration_s=spec.duration_s,
        max_cost=spec.constraints.max_cost,
    )


def size_of(
    spec: JobSpec, profile: Profile, facts: ClusterFacts, *, elapsed_s: float = 0.0
) -> Sized | Infeasible:
    """Size a job. A size fixed by the submitter is kept, without a prediction.

    A job that must share a server is infeasible if it has several units that must be apart.

    Parameters
    ----------
    elapsed_s : cluster seconds from submission to the expected start
    """
    work = work_of(spec, elapsed_s=elapsed_s)
    if spec.units is None:
        sized = size(profile, spec.target, work, facts)
    else:
        sized = fixed_size(profile, spec.target, work, facts, spec.units)
    if isinstance(sized, Sized) and _cannot_spread(spec, sized):
        return Infeasible(0, None, math.inf, _one_server(profile, sized.units))
    return sized


def _cannot_spread(spec: JobSpec, sized: Sized) -> bool:
    """Whether several units must share a server, and also be apart."""
    is_apart = spec.constraints.spread is not None and sized.units > 1
    return is_apart and sized.locality is Within.SERVER


def _one_server(profile: Profile, units: int) -> str:
    kind = profile.kind.replace("_", " ")
    return (
        f"the {units} units cannot be spread, because those of a {kind} application share one"
        " server; remove the spread, or request one unit"
    )


def size_or_late(
    spec: JobSpec, profile: Profile, facts: ClusterFacts, *, elapsed_s: float
) -> Sized | Infeasible:
    """Size a job; if only waiting made its deadline infeasible, it keeps its size at submission.

    Such a job will be late, with probability 0 of meeting its target, but it still runs. It
    accepts each platform on which its run takes no more extra time than it has waited: it waits
    for a faster platform only as long as that would gain.
    """
    sized = size_of(spec, profile, facts, elapsed_s=elapsed_s)
    if isinstance(sized, Sized) or not isinstance(spec.target, CompletionTime):
        return sized
    at_submission = size_of(spec, profile, facts)
    if isinstance(at_submission, Infeasible):
        return sized
    latest = CompletionTime(elapsed_s + at_submission.high + elapsed_s)
    work = work_of(spec, elapsed_s=elapsed_s)
    late = size_on_all(profile, latest, work, facts, at_submission.units)
    return replace(late, probability=0.0)


def best_size(
    spec: JobSpec, profile: Profile, facts: ClusterFacts, found: Infeasible
) -> Sized | Infeasible:
    """Size a job that ran before a correction of its profile made its target infeasible.

    It gets the units with the best performance, without a prediction. Beyond its cost ceiling, or
    without a platform, it stays infeasible.
    """
    if found.platform is None or found.cost is not None:
        return found
    fixed = fixed_size(profile, spec.target, work_of(spec), facts, found.units)
    if isinstance(fixed, Infeasible):
        return fixed
    best = frozenset({found.platform})
    platforms = best if fixed.platforms is None else (fixed.platforms & best or fixed.platforms)
    return replace(fixed, platforms=platforms, probability=0.0)


def is_only_closed(
    spec: JobSpec, profile: Profile, snapshot: Snapshot, allowances: Allowances = DEFAULT
) -> bool:
    """Return True if an infeasible job would be feasible with every server open."""
    if snapshot.server_open.all():
        return False
    facts = facts_if_open(snapshot, profile.platforms, allowances)
    return isinstance(size_of(spec, profile, facts), Sized)


def facts_if_open(
    snapshot: Snapshot, platforms: tuple[str, ...], allowances: Allowances = DEFAULT
) -> ClusterFacts:
    """Return `cluster_facts` as if every server were open."""
    everything = replace(snapshot, server_open=np.ones_like(snapshot.server_open))
    return cluster_facts(everything, platforms, allowances)


def request_of(
    spec: JobSpec,
    profile: Profile,
    sized: Sized,
    topology: Topology,
    *,
    job: str,
    measure_rank: bool = False,
) -> Request:
    """Build the request of a sized job.

    Placement counts on `Profile.assumed_tolerance`.
    """
    constraints, allowed = spec.constraints, sized.platforms
    if constraints.platforms:
        own = frozenset(constraints.platforms)
        allowed = own if allowed is None else allowed & own
    if not set(topology.platform_name) <= set(profile.platforms):
        known = frozenset(profile.platforms)
        allowed = known if allowed is None else allowed & known
    return Request(
        job=job,
        units=sized.units,
        caused=profile.caused.value,
        tolerated=profile.assumed_tolerance,
        platform_speed=platform_speeds(profile, topology),
        unit_memory_bytes=spec.unit_memory_bytes,
        unit_network_bps=spec.unit_network_bps,
        unit_storage_bytes=spec.unit_storage_bytes,
        gang=spec.gang,
        platforms=allowed,
        labels=frozenset(f"{key}={value}" for key, value in constraints.labels.items()),
        locality=sized.locality,
        spread=Within(constraints.spread) if constraints.spread else None,
        excluded=servers_named(topology, constraints.excluded),
        goal=_goal(spec, profile),
        measure_rank=measure_rank,
    )


def servers_named(topology: Topology, names: Collection[str]) -> frozenset[int]:
    """Return the indices of the servers with one of the names; O(S) with any name."""
    if not names:
        return frozenset()
    wanted = frozenset(names)
    return frozenset(i for i, name in enumerate(topology.server_name) if name in wanted)


def after(request: Request, elapsed_s: float) -> Request:
    """Return a request whose goal counts the cluster seconds since the submission."""
    if request.goal is None:
        return request
    return replace(request, goal=replace(request.goal, elapsed_s=elapsed_s))


def is_short(spec: JobSpec) -> bool:
    """Return whether a job of an unknown application is placed without profiling it (P9)."""
    return skips_profiling(
        spec.kind, spec.target, duration_s=spec.duration_s, input_bytes=spec.input_bytes
    )


def _goal(spec: JobSpec, profile: Profile) -> Goal | None:
    """Return what a job must reach; None with a size of the submitter, or best effort.

    None also with a ceiling on the cost, which sizing keeps to.
    """
    is_sized = spec.units is not None or spec.constraints.max_cost is not None
    if is_sized or isinstance(spec.target, BestEffort):
        return None
    work = work_of(spec)
    return Goal(
        profile=profile,
        target=spec.target,
        input_bytes=work.input_bytes,
        tasks=work.tasks,
        platforms=work.platforms,
        unit_memory_bytes=work.unit_memory_bytes,
    )


def platform_speeds(profile: Profile, topology: Topology) -> Floats:
    """(P,) speed of each platform of the topology, `UNKNOWN_SPEED` where the profile has none."""
    if profile.platforms == topology.platform_name:
        return profile.platform_speed.value
    known = dict(zip(profile.platforms, profile.platform_speed.value.tolist(), strict=True))
    return np.array([known.get(name, UNKNOWN_SPEED) for name in topology.platform_name])
