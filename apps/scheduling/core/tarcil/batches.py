"""Runs of jobs of one unit for the compiled batches of Tarcil: tables in, placements out.

Imported by processes that decide, never by the web process.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

import numpy as np

from apps.common.core.arrays import as_readonly
from apps.inventory.core.snapshot import Ints
from apps.scheduling.core.batch_state import BatchState
from apps.scheduling.core.cluster.capacity import requested_per_unit
from apps.scheduling.core.filters import FILTERS
from apps.scheduling.core.policies import NO_RANKS, RANK_THRESHOLD
from apps.scheduling.core.records.ranked_candidates import RankedCandidates
from apps.scheduling.core.scorers import Scores, speed_steps
from apps.scheduling.core.tarcil import batch_arrays as arrays
from apps.scheduling.core.tarcil import batch_kernels as kernels
from apps.scheduling.core.tarcil.guarantee import default_sample, miss_probability
from apps.scheduling.core.types import Placed, Request

_FIRST: Final = as_readonly(np.zeros(1, dtype=np.int64))


class TarcilBatch:
    """Jobs of one unit, decided in one call unless one of them finds no eligible unit."""

    def __init__(
        self, state: BatchState, requests: Sequence[Request], seeds: Sequence[int]
    ) -> None:
        self._state, self._requests, self._seeds = state, requests, seeds
        self._next = 0
        self._servers = _servers(state)
        self._filters, filter_row = _filters(state, self._servers, requests)
        speed, speed_row = _speeds(state, requests)
        samples = [default_sample(1, request.sample_size) for request in requests]
        rows = np.empty(len(requests), dtype=arrays.JOB)
        rows["caused"] = [request.caused for request in requests]
        rows["tolerated"] = [request.tolerated for request in requests]
        rows["speed_row"], rows["filter_row"] = speed_row, filter_row
        rows["sample"], rows["seed"] = samples, seeds
        self._jobs = arrays.Jobs(as_readonly(rows), speed)
        self._found = arrays.Found(
            np.zeros(len(requests), dtype=arrays.OUTCOME),
            np.empty((len(requests), max(samples)), dtype=arrays.CANDIDATE),
        )
        self._scratch = arrays.Scratch(
            np.empty(1, dtype=arrays.WORK),
            # memory is only used if units are listed
            np.empty(state.unit_free.size, dtype=np.int32),
        )

    def decide(self, rule: arrays.Rule) -> list[Placed]:
        """Decide on the next jobs until one finds no eligible unit; that one is passed over."""
        start, busy = self._next, self._state.busy
        end = self.run_kernel(rule)
        self._next, self._state.busy = end + 1, busy + end - start
        outcomes = self._found.outcomes[:end]
        sizes, counts = outcomes["size"].tolist(), outcomes["counts"].tolist()
        return [self._placed(j, sizes[j], counts[j], busy + j - start) for j in range(start, end)]

    def run_kernel(self, rule: arrays.Rule) -> int:
        """Decide on the next jobs; return the first without an eligible unit, or their number."""
        return kernels.decide(
            self._servers, self._filters, self._jobs, rule, self._found, self._scratch, self._next
        )

    def _placed(self, j: int, size: int, by_filter: list[int], busy: int) -> Placed:
        eligible, by_filter[0] = by_filter.pop(), busy
        return Placed(
            job=self._requests[j].job,
            units=self._found.candidates["unit"][j, :1].astype(np.int32),
            candidates=RankedCandidates(self._scores(j, size), _FIRST),
            examined=size,
            eligible=eligible,
            dropped={name: n for name, n in zip(FILTERS, by_filter, strict=True) if n},
            rank_threshold=RANK_THRESHOLD,
            probability=0.0 if size >= eligible else miss_probability(RANK_THRESHOLD, size),
            seed=self._seeds[j],
            sequence=self._state.snapshot.sequence,
            ranks=NO_RANKS,
        )

    def _scores(self, j: int, size: int) -> Scores:
        found = self._found.candidates[j, :size]
        return Scores(
            found["unit"],
            found["server"],
            found["key"],
            found["quality"],
            float(self._found.outcomes["target"][j]),
            found["close"],
            found["headroom"],
        )


def _servers(state: BatchState) -> arrays.Servers:
    own, facts = state.own, state.facts
    assert own is not None  # noqa: S101 - a batch takes units
    return arrays.Servers(
        own.unit_free,
        state.free_count,
        own.server_caused,
        own.server_free,
        facts.unit_server,
        facts.server_units,
        facts.server_platform,
        facts.share,
    )


def _rows(keys: Iterable[Hashable]) -> tuple[list[int], Ints]:
    """Return the position of the first of each distinct key, and the number of each key."""
    numbers: dict[Hashable, int] = {}
    first: list[int] = []
    row: list[int] = []
    for position, key in enumerate(keys):
        number = numbers.setdefault(key, len(numbers))
        if number == len(first):
            first.append(position)
        row.append(number)
    return first, as_readonly(np.array(row, dtype=np.int64))


def _filters(
    state: BatchState, servers: arrays.Servers, requests: Sequence[Request]
) -> tuple[arrays.Filters, Ints]:
    """Evaluate the distinct filters of requests. O(F·S)."""
    first, row = _rows(
        (
            *(r.platforms, r.labels, r.excluded, r.pool),
            *(r.unit_memory_bytes, r.unit_network_bps, r.unit_storage_bytes),
        )
        for r in requests
    )
    facts = state.facts
    filters = arrays.Filters(
        np.empty((len(first), facts.server_units.size), dtype=np.uint8),
        np.zeros((len(first), 8), dtype=np.int64),
        as_readonly(np.array([requested_per_unit(requests[i]) for i in first])),
    )
    for f, request in enumerate(requests[i] for i in first):
        tested = arrays.Constraints(
            state.server_open,
            facts.allowed(request.platforms),
            facts.labelled(request.labels),
            facts.barred(request),
        )
        kernels.evaluate_filter(servers, filters, f, tested)
    return filters, row


def _speeds(state: BatchState, requests: Sequence[Request]) -> tuple[Ints, Ints]:
    """Return the distinct speeds of the platforms, and which of them each request has."""
    # requests share the array of their profile, or of the platforms
    first, row = _rows(id(request.platform_speed) for request in requests)
    platforms = len(state.facts.topology.platform_name)
    return as_readonly(np.array([speed_steps(requests[i], platforms) for i in first])), row
