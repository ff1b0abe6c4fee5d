"""Rankings of the servers by expected performance, and runs of jobs of one unit decided by them.

Imported by processes that decide, never by the web process.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from apps.common.core.arrays import as_readonly
from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Bools, Ints, Shorts
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.expected.performance import ALONE, BLOCK, DEFAULT, Share, Weights
from apps.scheduling.core.rankings import batch as ranking_batch
from apps.scheduling.core.rankings import by_signature as rankings
from apps.scheduling.core.rankings import leaders as ranking_leaders
from apps.scheduling.core.rankings import log as ranking_log
from apps.scheduling.core.rankings import scores as ranking_scores
from apps.scheduling.core.rankings import search as ranking_search
from apps.scheduling.core.rankings.by_signature import Rankings
from apps.scheduling.core.rankings.kernels import Demand
from apps.scheduling.core.types import Request

_TOGETHER: Final = 520  # servers of which the terms are in the cache when all are ranked


class ExpectedRankings(Rankings):
    """The rankings of the policy `expected`, for the state that it follows."""

    def __init__(self, weights: Weights = DEFAULT, share: Share = ALONE) -> None:
        super().__init__(share)
        self._weights = weights
        self._table: ranking_batch.Table | None = None
        self._places: ranking_batch.Places | None = None

    def rooms(self, ranking: ranking_scores.Ranking) -> tuple[Bools, Shorts]:
        """Return the eligible servers and the room on each server. O(S)."""
        return ranking_scores.rooms(ranking)

    def best(
        self, request: Request, count: int, seed: int
    ) -> tuple[ranking_search.Best, ranking_scores.Ranking]:
        """Return the best units in the state for a request, and the ranking of its signature."""
        state, signature, seen = self._read(request)
        assert self._places is not None  # noqa: S101 - made with the first signature
        ranked = state.cluster, signature.ranking, signature.demand, self._weights
        ranking_scores.update(*ranked, state.log, seen, self._places.sums)
        draw = ranking_search.Draw(count, request.units == 1, seed)
        best = ranking_search.best_units(*ranked, self._places.blocks, draw)
        return best, signature.ranking

    def rows(self, requests: Sequence[Request]) -> list[int]:
        """Return the rows of the signatures of the first requests: as many as the table holds."""
        state = self._state
        rows: list[int] = []
        assert state is not None  # noqa: S101 - `state` was called before
        known: dict[tuple[Any, ...], int] = {}
        used: set[int] = set()
        for request in requests:
            key = _quick_key(request)
            row = known.get(key)
            if row is None:
                if len(used) >= rankings.MAX_SIGNATURES:
                    break
                row = known[key] = self._signature(state, request).row
                used.add(row)
            rows.append(row)
        return rows

    def decide(
        self,
        rows: Sequence[int],
        patient: Sequence[bool],
        seeds: Sequence[int],
        found: ranking_batch.Found,
        start: int,
    ) -> int:
        """Decide on requests of one unit from ``start`` on, and take their units.

        Returns the first without a unit that it takes, or their number.
        """
        state = self._state
        assert state is not None  # noqa: S101 - `state` was called before
        assert self._table is not None  # noqa: S101 - made with the first signature
        assert self._places is not None  # noqa: S101 - the same
        jobs = ranking_batch.Jobs(_numbers(rows), _numbers(seeds), _flags(patient))
        end = ranking_batch.decide(
            *(state.cluster, state.log, self._table, self._weights, jobs, found, self._places),
            *(start, state.busy),
        )
        state.busy += end - start
        state.taken.append(found.servers[start:end, 0])
        return end

    def _new_signature(
        self, facts: TopologyFacts, request: Request, row: int
    ) -> rankings._Signature:
        table = self._table_of(facts)
        demand = rankings.demand(facts, request)
        for name in Demand._fields:
            getattr(table, name)[row] = getattr(demand, name)
        leaders = ranking_leaders.Leaders._make(values[row] for values in table.leaders)
        ranking = ranking_scores.Ranking(
            *(table.base[row], table.counts[row], table.bound[row], table.idle[row]), leaders
        )
        for values in (*ranking[:-1], *leaders):
            values.fill(0)
        table.seen[row] = ranking_log.NEVER
        views = {name: getattr(table, name)[row] for name in Demand._fields[:-1]}
        seen = table.seen[row : row + 1]
        return rankings._Signature(row, demand._replace(**views), ranking, seen)

    def _table_of(self, facts: TopologyFacts) -> ranking_batch.Table:
        servers, platforms = facts.server_units.size, len(facts.topology.platform_name)
        table = self._table
        shape = (rankings.MAX_SIGNATURES, servers, platforms)
        if table is None or (*table.labelled.shape, table.allowed.shape[1]) != shape:
            table = self._table = _new_table(*shape)
            self._places = _new_places(servers)
        return table


def _quick_key(request: Request) -> tuple[Any, ...]:
    """Key of a request of one unit among those of a batch: most share the arrays of a profile."""
    return (
        *(id(request.caused), id(request.tolerated), id(request.platform_speed)),
        *(request.platforms, request.labels, request.excluded, request.pool),
        *(request.unit_memory_bytes, request.unit_network_bps, request.unit_storage_bytes),
    )


def _numbers(values: Sequence[int]) -> Ints:
    return as_readonly(np.array(values, dtype=np.int64))


def _flags(values: Sequence[bool]) -> Bools:
    return as_readonly(np.array(values, dtype=np.bool_))


def _new_table(rows: int, servers: int, platforms: int) -> ranking_batch.Table:
    """Return an empty table; memory is only used by the rows that are in use."""
    sources, blocks = (rows, N_SOURCES), -(-servers // BLOCK)
    return ranking_batch.Table(
        seen=np.full(rows, ranking_log.NEVER, dtype=np.int64),
        base=np.empty((rows, servers, 2)),
        counts=np.empty((rows, 8), dtype=np.int64),
        bound=np.empty((rows, blocks, 2)),
        idle=np.empty((rows, 1)),
        leaders=_new_leaders(rows, servers),
        caused=np.empty(sources),
        tolerated=np.empty(sources),
        log_speed=np.empty((rows, platforms)),
        allowed=np.empty((rows, platforms), dtype=np.bool_),
        labelled=np.empty((rows, servers), dtype=np.bool_),
        excluded=np.empty((rows, servers), dtype=np.bool_),
        requested=np.empty((rows, 3)),
        per_tolerated=np.empty(sources),
        usual=np.empty((rows, 1)),
        units=np.empty(rows, dtype=np.int64),
    )


def _new_leaders(rows: int, servers: int) -> ranking_leaders.Leaders:
    shape = (rows, ranking_leaders.max_leaders(servers))
    return ranking_leaders.Leaders(
        server=np.empty(shape, dtype=np.int32),
        base=np.empty(shape),
        busy=np.empty(shape),
        floor=np.empty((rows, 2)),
        numbers=np.empty((rows, 3), dtype=np.int64),
    )


def _new_places(servers: int) -> ranking_batch.Places:
    blocks = -(-servers // BLOCK)
    return ranking_batch.Places(
        ranking_scores.Scratch(
            np.empty(ranking_log.ENTRIES),
            np.empty(ranking_log.ENTRIES),
            np.empty(ranking_log.ENTRIES, dtype=np.int64),
            ranking_log.new_terms(_TOGETHER),
        ),
        ranking_search.Blocks(np.empty(blocks), np.empty(-(-blocks // ranking_search.GROUP))),
        np.zeros(1, dtype=np.int64),
    )
