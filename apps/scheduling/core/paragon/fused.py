"""Paragon's search in compiled kernels, from servers that are examined once for each signature."""

from typing import TYPE_CHECKING, Final

import numpy as np

from apps.common.core.arrays import as_readonly
from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core import baselines, policies
from apps.scheduling.core.batch_state import BatchState, TopologyFacts
from apps.scheduling.core.filters import FILTERS, Eligibility
from apps.scheduling.core.fused import CompiledPolicy
from apps.scheduling.core.paragon import selection as paragon
from apps.scheduling.core.refusals import refused
from apps.scheduling.core.scorers import Scores
from apps.scheduling.core.types import EXPLAINED, Placed, Refused, Request

if TYPE_CHECKING:
    from apps.scheduling.core.paragon.rankings import ParagonRankings


class FusedParagon(CompiledPolicy):
    """Same decisions as the assembled policy.

    Jobs of several units, or with a locality or spread constraint, use the assembled form.
    """

    def __init__(
        self, assembled: policies.AssembledPolicy, limit: int, *, sees_platforms: bool = True
    ) -> None:
        super().__init__(assembled, is_full=True)
        self._limit, self._sees_platforms = int(limit), sees_platforms
        self._rankings: ParagonRankings | None = None

    def _state(self, snapshot: Snapshot, facts: TopologyFacts, *, writable: bool) -> BatchState:
        if self._rankings is None:
            # only processes that decide import numba
            from apps.scheduling.core.paragon.rankings import ParagonRankings  # noqa: PLC0415

            self._rankings = ParagonRankings(sees_platforms=self._sees_platforms)
        return self._rankings.state(snapshot, facts)

    def _decide(self, state: BatchState, request: Request, seed: int) -> Placed | Refused:
        if request.units > 1 or request.measure_rank:
            return super()._decide(state, request, seed)
        assert self._rankings is not None  # noqa: S101 - it made the state
        found, fits = self._rankings.search(request, EXPLAINED, limit=self._limit, seed=seed)
        *by_filter, units = fits.counts.tolist()
        by_filter[0] = state.busy
        dropped = {name: n for name, n in zip(FILTERS, by_filter, strict=True) if n}
        eligibility = Eligibility(_NOT_READ, _NO_ROOM, units, dropped)
        if not units:
            return refused(state, request, eligibility, examined=0, seed=seed)
        scores = Scores(
            *(found.unit, found.server, found.key, np.full(found.unit.size, np.nan), _UNKNOWN),
            *(-found.norm, found.headroom, int(fits.reached.sum()), None, EXPLAINED),
        )
        scored = policies.ScoredSample(eligibility, scores, _FIRST)
        return self._placed(state, request, scored, seed=seed)


def paragon_greedy(limit: int = paragon.LIMIT) -> policies.AssembledPolicy:
    """``baselines.paragon_greedy``, compiled."""
    return FusedParagon(baselines.paragon_greedy(limit), limit)


def heterogeneity_oblivious(limit: int = paragon.LIMIT) -> policies.AssembledPolicy:
    """``baselines.heterogeneity_oblivious``, compiled."""
    return FusedParagon(baselines.heterogeneity_oblivious(limit), limit, sees_platforms=False)


def reservation_paragon(limit: int = paragon.LIMIT) -> policies.AssembledPolicy:
    """``baselines.reservation_paragon``, compiled."""
    return FusedParagon(baselines.reservation_paragon(limit), limit)


_UNKNOWN: Final = float("nan")
_NOT_READ: Final = as_readonly(np.empty(0, dtype=np.bool_))  # of a single unit: none is picked
_NO_ROOM: Final = as_readonly(np.empty(0, dtype=np.int32))
_FIRST: Final = as_readonly(np.zeros(1, dtype=np.int64))
