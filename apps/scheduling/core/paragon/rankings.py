"""What Paragon's search finds on each server, by request signature, kept between decisions."""

import numpy as np

from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.expected.performance import BLOCK
from apps.scheduling.core.paragon import kernels
from apps.scheduling.core.rankings import by_signature as rankings
from apps.scheduling.core.rankings import log as ranking_log
from apps.scheduling.core.rankings.by_signature import Rankings
from apps.scheduling.core.scorers import speed_steps
from apps.scheduling.core.types import Request


class ParagonRankings(Rankings):
    """The servers as each signature sees them, for the state that a policy follows.

    Parameters
    ----------
    sees_platforms : False = heterogeneity-oblivious (P13)
    """

    def __init__(self, *, sees_platforms: bool) -> None:
        super().__init__()
        self._sees_platforms = sees_platforms

    def search(
        self, request: Request, count: int, *, limit: int, seed: int
    ) -> tuple[kernels.Found, kernels.Fits]:
        """Return the best servers in the state for one unit, and all servers of its signature."""
        state, signature, seen = self._read(request)
        fits: kernels.Fits = signature.ranking
        changed = state.changed_since(seen)
        if changed is None:
            kernels.fit_all(state.cluster, fits, signature.demand)
        else:
            kernels.fit_changed(state.cluster, fits, signature.demand, changed)
        listed = min(count, int(fits.reached.sum()))
        found = kernels.search(state.cluster, fits, signature.demand, listed, limit, seed)
        return found, fits

    def _new_signature(
        self, facts: TopologyFacts, request: Request, row: int
    ) -> rankings._Signature:
        seen = np.full(1, ranking_log.NEVER, dtype=np.int64)
        fits = self._new_fits(facts, request)
        return rankings._Signature(row, rankings.demand(facts, request), fits, seen)

    def _new_fits(self, facts: TopologyFacts, request: Request) -> kernels.Fits:
        servers, platforms = facts.server_units.size, len(facts.topology.platform_name)
        sources = (
            np.argsort(-request.caused, kind="stable"),
            np.argsort(request.tolerated, kind="stable"),
        )
        speed = np.zeros(platforms, dtype=np.int64)
        return kernels.Fits(
            order=np.concatenate(sources),
            speed=speed_steps(request, platforms) if self._sees_platforms else speed,
            passed=np.full(servers, kernels.NOT_ELIGIBLE, dtype=np.int8),
            value=np.zeros(servers, dtype=np.int64),
            free=np.zeros(servers, dtype=np.int32),
            test=np.zeros(servers, dtype=np.int8),
            counts=np.zeros(8, dtype=np.int64),
            reached=np.zeros(kernels.CONSTRAINTS + 1, dtype=np.int64),
            bound=np.full((2, -(-servers // BLOCK)), kernels.NOTHING, dtype=np.int64),
        )
