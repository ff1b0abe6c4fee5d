"""The number of candidates of a job that names R or a guarantee (T4)."""

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core import scorers
from apps.scheduling.core.batch_state import BatchState, TopologyFacts
from apps.scheduling.core.guarantee import miss_probability, sample_size
from apps.scheduling.core.registry import POLICIES, draws_sample
from apps.scheduling.core.types import Placed, Request
from apps.workloads.core.spec import JobLimits, JobSpec, QualityGuarantee

UNCAPPED: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Sampling:
    """R of one decision, and what it follows from.

    Attributes
    ----------
    size : R, candidates per unit; None = the policy's default
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


def sampling_of(
    spec: JobSpec, request: Request, snapshot: Snapshot, facts: TopologyFacts, *, max_sample: int
) -> Sampling:
    """Return R of a job at this moment.

    A guarantee follows the load: the fewer units of the top are free, the larger is R. It is
    conservative, as Tarcil's draw may hit busy units and ours takes eligible ones only. O(S·N)
    for a job with a guarantee.
    """
    if spec.guarantee is None:
        size = None if spec.sample_size is None else min(spec.sample_size, max_sample)
        return Sampling(size)
    x, p = spec.guarantee.rank_threshold, spec.guarantee.probability
    share = top_free_share(request, snapshot, facts, x)
    if share == 0.0:
        return Sampling(max_sample, spec.guarantee, None, share)
    needed = sample_size(x, p, top_free_share=share, cap=UNCAPPED)
    return Sampling(min(needed, max_sample), spec.guarantee, needed, share)


def top_free_share(request: Request, snapshot: Snapshot, facts: TopologyFacts, x: float) -> float:
    """Return the share of the best 1 - x of the units that is free; 0 without any unit.

    Ranks all units, free and busy, of the open servers that match the request, by the quality
    of their server for the job (Tarcil Eq. 3-5). O(S·N + S log S).
    """
    topology = snapshot.topology
    allowed = facts.allowed(request.platforms)[topology.server_platform]
    matching = np.flatnonzero(allowed & facts.labelled(request.labels) & snapshot.server_open)
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
    is_certain = placed.probability == 0.0
    chance = 0.0 if is_certain else miss_probability(x, placed.examined, placed.units.size)
    return replace(placed, rank_threshold=x, probability=chance)
