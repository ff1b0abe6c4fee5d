"""Free units that a request may use, with the capacity that it takes: S servers."""

import numpy as np

from apps.inventory.core.snapshot import Shorts, Snapshot
from apps.scheduling.core.batch_state import BatchState, TopologyFacts
from apps.scheduling.core.filters import by_constraints, free_with_capacity
from apps.scheduling.core.types import Request


class FreeUnits:
    """The free units of one evaluation; those with the capacity for equal units are remembered.

    Attributes
    ----------
    state : the cluster
    """

    def __init__(self, snapshot: Snapshot, facts: TopologyFacts) -> None:
        self.state = BatchState.of(snapshot, facts, writable=False)
        self._known: dict[tuple[float, float, float], Shorts] = {}

    def of(self, request: Request) -> Shorts:
        """(S,) int32 free units that a request may use, also beyond its size. O(S)."""
        unit = request.unit_memory_bytes, request.unit_network_bps, request.unit_storage_bytes
        if unit not in self._known:
            self._known[unit] = free_with_capacity(self.state, request)
        filters = by_constraints(request, self.state.snapshot, self.state.facts)
        usable = np.logical_and.reduce([*filters.values()])
        return np.where(usable, self._known[unit], np.int32(0))
