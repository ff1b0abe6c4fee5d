"""Preview of how another profile of an application would change its jobs.

S servers, N = 10 sources, m jobs. Uses the sizing of the agent and the scorer of its default
policy, so that previews agree with decisions.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.estimates import Estimate
from apps.classification.core.profile import Profile
from apps.common.core.interference import SOURCES
from apps.inventory.core.snapshot import Bools, Floats, Snapshot
from apps.scheduling.core.batch_state import BatchState, TopologyFacts
from apps.scheduling.core.filters import eligible
from apps.scheduling.core.requests import (
    cluster_facts,
    facts_if_open,
    request_of,
    size_of,
    size_or_late,
)
from apps.scheduling.core.scorers import tarcil
from apps.scheduling.core.sizing.allowances import DEFAULT, Allowances
from apps.scheduling.core.sizing.sizes import ClusterFacts, Sized
from apps.scheduling.core.tarcil import encoding
from apps.scheduling.core.types import Request
from apps.workloads.core.spec import JobSpec
from apps.workloads.core.targets import CompletionTime, TargetKind

PERFORMANCE_UNIT: Final = {
    TargetKind.COMPLETION_TIME: "seconds",
    TargetKind.THROUGHPUT_LATENCY: "seconds",
    TargetKind.IPS: "instructions/s",
    TargetKind.BEST_EFFORT: "share of the work/s",
}


class SizingOutcome(NamedTuple):
    """Sizing and servers of one job with one profile.

    Attributes
    ----------
    feasible : whether some size meets the target, if necessary on servers that are closed now
    units : this size, or the best one; None = the job could run nowhere
    platforms : where it is sufficient, sorted
    predicted : performance in the target's unit, its ends NaN for an infeasible job; None = not
        predicted
    suggestion : remedy for an infeasible job; empty for others
    good_servers : indices of open servers with room and acceptable interference; empty for
        running jobs
    """

    feasible: bool
    units: int | None
    platforms: tuple[str, ...]
    predicted: Estimate | None
    suggestion: str
    good_servers: frozenset[int]


class HeldUnits(NamedTuple):
    """Units of one server held by a running job.

    Attributes
    ----------
    server : index
    units : >= 1
    caused : (N,) interference assumed of each unit at its placement, 0-100
    """

    server: int
    units: int
    caused: Floats


class ServerHeadroom(NamedTuple):
    """Headroom of a running job on one server: tolerated less actual interference, in points.

    Attributes
    ----------
    before, after : minimum over the sources; negative = too much interference
    source : source of the minimum afterwards
    """

    server: int
    before: float
    after: float
    source: str

    @property
    def is_changed(self) -> bool:
        """Whether the server is acceptable with only one of the profiles."""
        return (self.before >= 0.0) != (self.after >= 0.0)


@dataclass(frozen=True, slots=True)
class JobPreview:
    """One job with both profiles.

    Attributes
    ----------
    headrooms : on the servers of the job, in the order of its held units
    """

    before: SizingOutcome
    after: SizingOutcome
    headrooms: tuple[ServerHeadroom, ...]

    @property
    def gained(self) -> tuple[str, ...]:
        """Platforms that are sufficient only with the new profile."""
        return tuple(p for p in self.after.platforms if p not in self.before.platforms)

    @property
    def lost(self) -> tuple[str, ...]:
        """Platforms that are sufficient only with the old profile."""
        return tuple(p for p in self.before.platforms if p not in self.after.platforms)

    @property
    def is_changed(self) -> bool:
        """Whether its size, possible servers or acceptance of its current servers change."""
        old, new = self.before, self.after
        return (
            (old.feasible, old.units, old.platforms, old.good_servers)
            != (new.feasible, new.units, new.platforms, new.good_servers)
        ) or any(headroom.is_changed for headroom in self.headrooms)


class _ProfileView(NamedTuple):
    """One profile on one snapshot.

    Attributes
    ----------
    good : (S,) True for servers whose free units the policy counts as hits
    """

    profile: Profile
    facts: ClusterFacts
    if_open: ClusterFacts
    good: Bools


class _PreviewedSpec(NamedTuple):
    spec: JobSpec
    elapsed_s: float
    waits: bool


def preview(
    jobs: Iterable[tuple[JobSpec, float, Sequence[HeldUnits]]],
    before: Profile,
    after: Profile,
    snapshot: Snapshot,
    allowances: Allowances = DEFAULT,
) -> Iterator[JobPreview]:
    """Size jobs with both profiles and evaluate their servers, one job at a time; O(m·S).

    Parameters
    ----------
    jobs : spec, elapsed seconds and held units of each; no units = it waits
    """
    state = BatchState.of(snapshot, TopologyFacts(snapshot.topology), writable=False)
    earlier, later = _view(before, state, allowances), _view(after, state, allowances)
    outcomes: dict[str, tuple[SizingOutcome, SizingOutcome]] = {}
    for spec, elapsed_s, held in jobs:
        # jobs of one service are often alike: decide about each kind once
        is_timed = isinstance(spec.target, CompletionTime)
        alike = f"{bool(held)} {elapsed_s if is_timed else 0.0} {spec!r}"
        if alike not in outcomes:
            job = _PreviewedSpec(spec, elapsed_s, waits=not held)
            outcomes[alike] = _outcome(job, earlier, state), _outcome(job, later, state)
        headrooms = tuple(
            _server_headroom(held_units, before, after, snapshot) for held_units in held
        )
        yield JobPreview(*outcomes[alike], headrooms)


def _view(profile: Profile, state: BatchState, allowances: Allowances) -> _ProfileView:
    topology = state.snapshot.topology
    request = Request("preview", 1, profile.caused.value, profile.assumed_tolerance)
    # all free units of a server have the same score, so score only its first
    scores = tarcil(state, request, topology.server_first_unit.astype(np.int64), 0)
    return _ProfileView(
        profile,
        cluster_facts(state.snapshot, profile.platforms, allowances),
        facts_if_open(state.snapshot, profile.platforms, allowances),
        good=scores.key[:, 0] >= encoding.BASE,
    )


def _outcome(job: _PreviewedSpec, view: _ProfileView, state: BatchState) -> SizingOutcome:
    sized = size_or_late(job.spec, view.profile, view.facts, elapsed_s=job.elapsed_s)
    if isinstance(sized, Sized):
        good = _good_servers(job.spec, view, sized, state) if job.waits else frozenset[int]()
        return _sized(sized, view.facts, good)
    if_open = size_of(job.spec, view.profile, view.if_open)
    if isinstance(if_open, Sized):
        return _sized(if_open, view.if_open, frozenset())
    predicted = _estimate(sized.best, math.nan, math.nan)
    return SizingOutcome(False, sized.units or None, (), predicted, sized.suggestion, frozenset())


def _sized(sized: Sized, facts: ClusterFacts, good: frozenset[int]) -> SizingOutcome:
    sufficient = sized.platforms
    if sufficient is None:
        open_units = zip(facts.platforms, facts.units, strict=True)
        sufficient = frozenset(name for name, units in open_units if units)
    predicted = _estimate(sized.predicted, sized.low, sized.high)
    return SizingOutcome(True, sized.units, tuple(sorted(sufficient)), predicted, "", good)


def _good_servers(
    spec: JobSpec, view: _ProfileView, sized: Sized, state: BatchState
) -> frozenset[int]:
    request = request_of(spec, view.profile, sized, state.snapshot.topology, job="preview")
    return frozenset(np.flatnonzero(eligible(state, request).servers & view.good).tolist())


def _estimate(value: float, low: float, high: float) -> Estimate | None:
    return Estimate(value, low, high) if math.isfinite(value) else None


def _server_headroom(
    held_units: HeldUnits, before: Profile, after: Profile, snapshot: Snapshot
) -> ServerHeadroom:
    """Compare the tolerance of a job with the interference of all other units of the server.

    These include its own other units, with the interference that each profile predicts.
    """
    total = snapshot.server_caused[held_units.server].astype(np.float64)
    other_jobs = total - held_units.units * held_units.caused
    minima = []
    source = ""
    for profile, own in ((before, held_units.caused), (after, after.caused.value)):
        others = np.maximum(other_jobs + (held_units.units - 1) * own, 0.0)
        units = snapshot.topology.server_units[held_units.server, None]
        headroom = profile.assumed_tolerance - encoding.pressure(others[None, :], units)[0]
        minima.append(float(headroom.min()))
        source = SOURCES[int(headroom.argmin())]
    return ServerHeadroom(held_units.server, minima[0], minima[1], source)
