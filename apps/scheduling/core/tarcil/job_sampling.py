"""The number of candidates of a job, which follows the load (T4)."""

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from apps.inventory.core.snapshot import Snapshot, Topology
from apps.scheduling.core import scorers
from apps.scheduling.core.batch_state import BatchState, TopologyFacts
from apps.scheduling.core.registry import POLICIES, draws_sample
from apps.scheduling.core.tarcil.guarantee import miss_probability, sample_size
from apps.scheduling.core.types import DEFAULT_SAMPLE, Placed, Request
from apps.workloads.core.guarantees import JobLimits, QualityGuarantee
from apps.workloads.core.spec import JobSpec

UNCAPPED: Final = 1_000_000_000
# what R = 8 gives while the whole top is free
DEFAULT_GUARANTEE: Final = QualityGuarantee(0.8, 0.8**DEFAULT_SAMPLE)
# policies whose R follows the load for jobs that name neither R nor a guarantee
FOLLOWING_LOAD: Final = frozenset({"tarcil", "tarcil_monotone", "tarcil_printed", "quietest"})
CHANGED: Final = 0.01  # changes of the cluster per unit after which a share is computed again
MAX_SHARES: Final = 4096


@dataclass(frozen=True, slots=True)
class Sampling:
    """R of one decision, and what it follows from.

    Attributes
    ----------
    size : R, candidates per unit; None = the policy's default
    guarantee : of the job; None = it names none
    needed : R of the guarantee before the cap; None = no unit of the top is free
    top_free_share : share of the best 1 - x of the units that is free
    """

    size: int | None = None
    guarantee: QualityGuarantee | None = None
    needed: int | None = None
    top_free_share: float = 1.0

    def as_json(self) -> dict[str, Any] | None:
        """Return the guarantee and its R, as stored with a decision; None without a guarantee."""
        if self.guarantee is None:
            return None
        return {
            **self.guarantee.as_json(),
            "top_free_share": self.top_free_share,
            "needed_size": self.needed,
            "size": self.size,
        }


DEFAULT_SAMPLING: Final = Sampling()


def job_limits(policies: list[str], max_sample: int) -> JobLimits:
    """Return the limits of an installation on the fields of jobs.

    Parameters
    ----------
    policies : that jobs may name; empty = all
    """
    known = tuple(name for name in sorted(POLICIES) if not policies or name in policies)
    drawing = tuple(name for name in known if draws_sample(name))
    return JobLimits(known, drawing, max_sample, lambda x, p: sample_size(x, p, cap=UNCAPPED))


class TopFreeShares:
    """Free shares of the top by request, remembered while the cluster changes little."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[int, float]] = {}
        self._topology: Topology | None = None

    def of(self, request: Request, snapshot: Snapshot, facts: TopologyFacts, x: float) -> float:
        """Return `top_free_share` of a snapshot with at most `CHANGED` changes per unit less."""
        if snapshot.topology is not self._topology:
            self._topology = snapshot.topology
            self._known.clear()
        scores = request.caused.tobytes(), request.tolerated.tobytes()
        servers = request.platforms, request.labels, request.excluded, request.pool
        key = (x, *scores, *servers)
        at, share = self._known.get(key, (-1, 0.0))
        if at < 0 or snapshot.sequence - at > CHANGED * snapshot.unit_free.size:
            if len(self._known) >= MAX_SHARES:
                self._known.clear()
            share = top_free_share(request, snapshot, facts, x)
            self._known[key] = snapshot.sequence, share
        return share


def sampling_of(
    spec: JobSpec,
    request: Request,
    snapshot: Snapshot,
    facts: TopologyFacts,
    *,
    max_sample: int,
    shares: TopFreeShares | None = None,
) -> Sampling:
    """Return R of a job at this moment.

    R follows the load: the fewer units of the top are free, the larger it is. It is conservative,
    as Tarcil's draw may hit busy units and ours takes eligible ones only. O(S·N).

    Parameters
    ----------
    shares : for jobs that name neither R nor a guarantee, which have the `DEFAULT_GUARANTEE`;
        None = their policy is not one of `FOLLOWING_LOAD`
    """
    if spec.sample_size is not None:
        return Sampling(min(spec.sample_size, max_sample))
    if spec.guarantee is not None:
        share = top_free_share(request, snapshot, facts, spec.guarantee.rank_threshold)
        return _sampling(spec.guarantee, share, max_sample)
    if shares is None:
        return Sampling()
    share = shares.of(request, snapshot, facts, DEFAULT_GUARANTEE.rank_threshold)
    return sampling_at(share, max_sample)


def sampling_at(top_free_share: float, max_sample: int) -> Sampling:
    """Return R of a job that names neither R nor a guarantee, by the free share of the top."""
    return replace(_sampling(DEFAULT_GUARANTEE, top_free_share, max_sample), guarantee=None)


def _sampling(guarantee: QualityGuarantee, share: float, max_sample: int) -> Sampling:
    if share == 0.0:
        return Sampling(max_sample, guarantee, None, share)
    x, p = guarantee.rank_threshold, guarantee.probability
    needed = sample_size(x, p, top_free_share=share, cap=UNCAPPED)
    return Sampling(min(needed, max_sample), guarantee, needed, share)


def top_free_share(request: Request, snapshot: Snapshot, facts: TopologyFacts, x: float) -> float:
    """Return the share of the best 1 - x of the units that is free; 0 without any unit.

    Ranks all units, free and busy, of the open servers that match the request, by the quality
    of their server for the job (Tarcil Eq. 3-5). O(S·N + S log S).
    """
    topology = snapshot.topology
    allowed = facts.allowed(request.platforms)[topology.server_platform]
    usable = allowed & facts.labelled(request.labels) & snapshot.server_open
    matching = np.flatnonzero(usable & ~facts.barred(request))
    if not matching.size:
        return 0.0
    state = BatchState.of(snapshot, facts, writable=False)
    first = topology.server_first_unit[matching].astype(np.int64)
    best = scorers.ranked(scorers.tarcil(state, request, first, seed=0)).servers
    units = topology.server_units[best].astype(np.float64)
    top = max(1.0, (1.0 - x) * float(units.sum()))
    # of the server at the boundary, only a part of the units is in the top
    inside = np.clip(top - (np.cumsum(units) - units), 0.0, units) / units
    return float(np.dot(inside, state.free_count[best]) / np.dot(inside, units))


def with_guarantee(placed: Placed, sampling: Sampling) -> Placed:
    """Return a placement whose probability is about the rank threshold of the job's guarantee."""
    if sampling.guarantee is None:
        return placed
    x = sampling.guarantee.rank_threshold
    chance = placed.probability  # 0 if it compared everything
    if chance > 0.0:
        chance = miss_probability(x, placed.examined, placed.units.size, placed.draws)
    return replace(placed, rank_threshold=x, probability=chance)
