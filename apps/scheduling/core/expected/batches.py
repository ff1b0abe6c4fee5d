"""Placements of a run of jobs of one unit that `expected` has decided in one call.

Imported by processes that decide, never by the web process.
"""

from collections.abc import Sequence

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.scheduling.core.batch_state import BatchState
from apps.scheduling.core.filters import FILTERS
from apps.scheduling.core.policies import NO_RANKS, RANK_THRESHOLD
from apps.scheduling.core.rankings.batch import Found
from apps.scheduling.core.rankings.kernels import ELIGIBLE
from apps.scheduling.core.records.run_candidates import RunCandidates
from apps.scheduling.core.types import EXPLAINED, Placed, Request


def new_found(jobs: int) -> Found:
    """Return the arrays of the candidates of jobs."""
    shape = (jobs, EXPLAINED)
    return Found(
        size=np.empty(jobs, dtype=np.int64),
        counts=np.empty((jobs, 8), dtype=np.int64),
        units=np.empty(shape, dtype=np.int64),
        servers=np.empty(shape, dtype=np.int32),
        key=np.zeros((*shape, 4), dtype=np.int64),
        score=np.empty(shape),
        headroom=np.empty((*shape, N_SOURCES)),
        expectations=np.empty((*shape, 4)),
    )


def placements(
    state: BatchState, requests: Sequence[Request], seeds: Sequence[int], found: Found, busy: int
) -> list[Placed]:
    """Return the placements of jobs; ``busy`` units were not free before the first."""
    sizes, counts = found.size.tolist(), found.counts.tolist()
    taken, sequence = found.units[:, :1].astype(np.int32), state.snapshot.sequence
    placed = []
    for j, (request, seed) in enumerate(zip(requests, seeds, strict=True)):
        by_filter = counts[j]
        eligible, by_filter[0] = by_filter.pop(ELIGIBLE), busy + j
        dropped = {name: n for name, n in zip(FILTERS, by_filter, strict=True) if n}
        candidates = RunCandidates(found, j, sizes[j], eligible)
        placed.append(
            Placed(
                *(request.job, taken[j], candidates, eligible, eligible, dropped),
                *(RANK_THRESHOLD, 0.0, seed, sequence, NO_RANKS),
            )
        )
    return placed


def rows_of(found: Found, begin: int, end: int) -> Found:
    """Return the candidates of some of the jobs."""
    return Found._make(values[begin:end] for values in found)
