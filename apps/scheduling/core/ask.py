"""From a job and what is believed about its application to the request a policy gets."""

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from apps.classification.core.profile import Profile
from apps.inventory.core.snapshot import Floats, Ints, Snapshot, Topology
from apps.scheduling.core.sizing import ClusterFacts, Infeasible, Sized, Work, locality_of, size
from apps.scheduling.core.types import Request, Within
from apps.workloads.core.spec import Constraints, JobSpec
from apps.workloads.core.targets import CompletionTime, Target

START_DELAY_S: Final = 0.25  # wall seconds from commit to the first second of work
CLOSED: Final = "the servers that could meet the target are drained, cordoned or silent"
UNKNOWN_SPEED: Final = 1e-3  # of platforms the library never saw; requests do not allow them


@dataclass(frozen=True, slots=True)
class Ask:
    """One job as scheduling sees it.

    Attributes
    ----------
    job : its id, as text
    units : fixed by the submitter; None = as many as the target needs
    elapsed_s : cluster seconds since submission, with what is still to pass before it starts
    """

    job: str
    target: Target
    constraints: Constraints
    input_bytes: float = 0.0
    tasks: int = 1
    units: int | None = None
    gang: bool = True
    unit_memory_bytes: float = 0.0
    unit_network_bps: float = 0.0
    unit_storage_bytes: float = 0.0
    elapsed_s: float = 0.0


def ask_of(spec: JobSpec, *, job: str) -> Ask:
    """Read a submission as if it had come in just now."""
    return Ask(
        job=job,
        target=spec.target,
        constraints=spec.constraints,
        input_bytes=spec.input_bytes,
        tasks=spec.tasks,
        units=spec.units,
        gang=spec.gang,
        unit_memory_bytes=spec.unit_memory_bytes,
        unit_network_bps=spec.unit_network_bps,
        unit_storage_bytes=spec.unit_storage_bytes,
    )


def cluster_facts(snapshot: Snapshot, platforms: tuple[str, ...]) -> ClusterFacts:
    """Open and free units of each of these platforms, and of their largest server; O(U)."""
    topology = snapshot.topology
    n = len(topology.platform_name)
    opened = np.where(snapshot.server_open, topology.server_units, 0)
    largest = np.zeros(n, dtype=np.int64)
    np.maximum.at(largest, topology.server_platform, opened)
    total = np.bincount(topology.server_platform, weights=opened, minlength=n)
    usable = snapshot.unit_free & snapshot.server_open[topology.unit_server]
    free = np.bincount(topology.server_platform[topology.unit_server], weights=usable, minlength=n)
    place = {name: i for i, name in enumerate(topology.platform_name)}

    def of(counts: Floats | Ints) -> tuple[int, ...]:
        return tuple(int(counts[place[name]]) if name in place else 0 for name in platforms)

    return ClusterFacts(platforms, units=of(total), server_units=of(largest), free=of(free))


def work_of(ask: Ask) -> Work:
    """Return what sizing must know of a job."""
    return Work(
        input_bytes=ask.input_bytes,
        tasks=ask.tasks if ask.tasks > 1 else None,
        elapsed_s=ask.elapsed_s,
        platforms=frozenset(ask.constraints.platforms) or None,
        locality=Within(ask.constraints.locality) if ask.constraints.locality else None,
        unit_memory_bytes=ask.unit_memory_bytes,
    )


def size_of(ask: Ask, profile: Profile, facts: ClusterFacts) -> Sized | Infeasible:
    """Size a job; a size fixed by its submitter outranks ours, with nothing predicted for it."""
    work = work_of(ask)
    if ask.units is None:
        return size(profile, ask.target, work, facts)
    locality = locality_of(profile, work)
    return Sized(ask.units, work.platforms, locality, math.nan, math.nan, math.nan, math.nan)


def size_or_late(ask: Ask, profile: Profile, facts: ClusterFacts) -> Sized | Infeasible:
    """Size a job; one whose promise only waiting broke gets the size that would have kept it.

    Late is better than never, so it is kept as well as it can be.
    """
    sized = size_of(ask, profile, facts)
    if isinstance(sized, Sized) or not isinstance(ask.target, CompletionTime):
        return sized
    at_submission = size_of(replace(ask, elapsed_s=0.0), profile, facts)
    if isinstance(at_submission, Infeasible):
        return sized
    return replace(
        at_submission,
        predicted=at_submission.predicted + ask.elapsed_s,
        low=at_submission.low + ask.elapsed_s,
        high=at_submission.high + ask.elapsed_s,
        probability=0.0,
    )


def is_only_closed(ask: Ask, profile: Profile, snapshot: Snapshot) -> bool:
    """Whether a job that nothing fits would fit if every server were open: waiting may help."""
    if snapshot.server_open.all():
        return False
    facts = facts_if_open(snapshot, profile.platforms)
    return isinstance(size_of(replace(ask, elapsed_s=0.0), profile, facts), Sized)


def facts_if_open(snapshot: Snapshot, platforms: tuple[str, ...]) -> ClusterFacts:
    """Return what `cluster_facts` would be if every server were open."""
    everything = replace(snapshot, server_open=np.ones_like(snapshot.server_open))
    return cluster_facts(everything, platforms)


def request_of(
    ask: Ask, profile: Profile, sized: Sized, topology: Topology, *, measure_rank: bool = False
) -> Request:
    """Ask a policy for the units of a sized job.

    What it tolerates is counted on at the pessimistic end of its interval, as sizing counts on
    speeds: a tolerance that is only inferred, and believed too high, costs the job and nobody
    notices before it runs (docs/policies.md, ``./dev bench caution``).
    """
    allowed = sized.platforms
    if allowed is None and not set(topology.platform_name) <= set(profile.platforms):
        allowed = frozenset(profile.platforms)
    constraints = ask.constraints
    return Request(
        job=ask.job,
        units=sized.units,
        caused=profile.caused,
        tolerated=profile.tolerated_low,
        platform_speed=_speeds(profile, topology),
        unit_memory_bytes=ask.unit_memory_bytes,
        unit_network_bps=ask.unit_network_bps,
        unit_storage_bytes=ask.unit_storage_bytes,
        gang=ask.gang,
        platforms=allowed,
        labels=frozenset(f"{key}={value}" for key, value in constraints.labels.items()),
        locality=sized.locality,
        spread=Within(constraints.spread) if constraints.spread else None,
        measure_rank=measure_rank,
    )


def _speeds(profile: Profile, topology: Topology) -> Floats:
    if profile.platforms == topology.platform_name:
        return profile.platform_speed
    known = dict(zip(profile.platforms, profile.platform_speed.tolist(), strict=True))
    return np.array([known.get(name, UNKNOWN_SPEED) for name in topology.platform_name])
