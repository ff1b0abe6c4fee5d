"""Free units that an applicant may use, with the capacity that it takes: S servers."""

import numpy as np

from apps.inventory.core.snapshot import Shorts, Snapshot
from apps.scheduling.core.admission.types import Applicant
from apps.scheduling.core.batch_state import BatchState, TopologyFacts
from apps.scheduling.core.filters import by_constraints, free_with_capacity

_Key = tuple[int, float, float, float]


class FreeUnits:
    """The free units of one evaluation; those with the capacity for equal units are remembered.

    Attributes
    ----------
    state : the cluster
    """

    def __init__(self, snapshot: Snapshot, facts: TopologyFacts) -> None:
        self.state = BatchState.of(snapshot, facts, writable=False)
        self._seen = {id(snapshot): self.state}
        self._known: dict[_Key, Shorts] = {}

    def of(self, applicant: Applicant) -> Shorts:
        """(S,) int32 free units that a job may use, also beyond its size. O(S).

        Not those that are reserved for others, nor those whose capacity is.
        """
        request, state = applicant.request, self._state(applicant.seen)
        unit = request.unit_memory_bytes, request.unit_network_bps, request.unit_storage_bytes
        key = id(state.snapshot), *unit
        if key not in self._known:
            self._known[key] = free_with_capacity(state, request)
        filters = by_constraints(request, state.snapshot, state.facts)
        usable = np.logical_and.reduce([*filters.values()])
        return np.where(usable, self._known[key], np.int32(0))

    def _state(self, seen: Snapshot | None) -> BatchState:
        """Return the state of a snapshot, which is kept: its id is not used again. O(U) once."""
        if seen is None:
            return self.state
        if id(seen) not in self._seen:
            self._seen[id(seen)] = BatchState.of(seen, self.state.facts, writable=False)
        return self._seen[id(seen)]
