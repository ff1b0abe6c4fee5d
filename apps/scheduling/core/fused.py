"""Policies with filter, sample and score in compiled kernels."""

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Final

import numpy as np

from apps.common.core.arrays import as_readonly
from apps.inventory.core.snapshot import Bools, Floats, Ints, Shorts, Snapshot
from apps.scheduling.core import policies, scorers
from apps.scheduling.core.batch_state import BatchState, TopologyFacts
from apps.scheduling.core.cluster.capacity import requested_per_unit
from apps.scheduling.core.expected.performance import ALONE, DEFAULT, Share, Weights
from apps.scheduling.core.filters import FILTERS, Eligibility
from apps.scheduling.core.refusals import gains_little, refused
from apps.scheduling.core.scorers import Scores
from apps.scheduling.core.tarcil.batch_arrays import LIMIT, Rule
from apps.scheduling.core.tarcil.encoding import MARGIN, Form
from apps.scheduling.core.tarcil.guarantee import default_sample
from apps.scheduling.core.types import (
    DEFAULT_SAMPLE,
    Placed,
    Refused,
    Request,
    Within,
    stored_candidates,
)

if TYPE_CHECKING:
    from apps.scheduling.core.expected.rankings import ExpectedRankings


class CompiledPolicy(policies.AssembledPolicy):
    """An assembled policy with a compiled filter.

    Jobs in one rack use the assembled form.
    """

    def __init__(self, assembled: policies.AssembledPolicy, *, is_full: bool = False) -> None:
        super().__init__(
            assembled.name,
            assembled.version,
            sample=assembled.sample,
            near=assembled.near,
            score=assembled.score,
            is_full=is_full,
        )
        self.size, self.gains_enough = assembled.size, assembled.gains_enough

    def _state(self, snapshot: Snapshot, facts: TopologyFacts, *, writable: bool) -> BatchState:
        return BatchState.of(
            snapshot,
            facts,
            writable=writable,
            weighs_neighbours=self.weighs_neighbours,
            counter=_count_free_units,
        )

    def _decide_in_turn(
        self, state: BatchState, requests: Sequence[Request], seeds: Sequence[int]
    ) -> list[Placed | Refused]:
        """Decide on runs of jobs that can be batched in one call each, on the others in turn."""
        outcomes: list[Placed | Refused] = []
        while len(outcomes) < len(requests):
            rest = slice(len(outcomes), None)
            run = list(takewhile(self._can_batch, requests[rest]))
            if len(run) > 1:
                outcomes += self._decide_run(state, run, seeds[rest][: len(run)])
                continue
            request, seed = requests[len(outcomes)], seeds[len(outcomes)]
            outcome = self._decide_sized(state, request, seed)
            outcomes.append(outcome)
            if isinstance(outcome, Placed) and len(outcomes) < len(requests):
                state.allocate(outcome.units, request)
        return outcomes

    def _can_batch(self, request: Request) -> bool:
        """Whether `_decide_run` decides on a request."""
        return False

    def _decide_run(
        self, state: BatchState, requests: Sequence[Request], seeds: Sequence[int]
    ) -> list[Placed | Refused]:
        """Decide on requests in order, and allocate their units."""
        raise NotImplementedError

    def _filter(self, state: BatchState, request: Request) -> Eligibility:
        if request.locality not in {None, Within.SERVER}:
            return super()._filter(state, request)
        # only processes that decide import numba; the web process reads the registry
        from apps.scheduling.core.tarcil import kernels  # noqa: PLC0415

        facts = state.facts
        mask, room, counts = kernels.filter_servers(
            as_readonly(state.free_count, np.int32),
            state.server_open,
            facts.labelled(request.labels),
            facts.barred(request),
            facts.allowed(request.platforms),
            facts.server_platform,
            facts.share,
            requested_per_unit(request),
            state.server_free,
            request.units,
            request.locality == Within.SERVER,
        )
        *by_filter, units = counts.tolist()
        by_filter[0] = state.busy
        dropped = {name: n for name, n in zip(FILTERS, by_filter, strict=True) if n}
        return Eligibility(mask, room, units, dropped)

    def _pick(
        self, state: BatchState, request: Request, eligibility: Eligibility, scores: Scores
    ) -> Ints:
        if request.locality or request.spread:
            return super()._pick(state, request, eligibility, scores)
        from apps.scheduling.core.tarcil import kernels  # noqa: PLC0415

        return kernels.first_with_room(
            as_readonly(scores.servers, np.int32),
            as_readonly(eligibility.room, np.int32),
            request.units,
        )


class FusedTarcil(CompiledPolicy):
    """Same decisions as ``policies.tarcil``, fifteen times faster.

    Jobs with a locality constraint use the assembled form.
    """

    weighs_neighbours = False

    def __init__(self, name: str = "tarcil", *, form: Form = Form.GUARDED) -> None:
        super().__init__(policies.tarcil(name, form=form))
        self._form = int(form)

    def _can_batch(self, request: Request) -> bool:
        few = default_sample(1, request.sample_size or DEFAULT_SAMPLE) <= LIMIT
        return request.units == 1 and few and self.size is None and not request.measure_rank

    def _decide_run(
        self, state: BatchState, requests: Sequence[Request], seeds: Sequence[int]
    ) -> list[Placed | Refused]:
        from apps.scheduling.core.tarcil import batches as tarcil_batches  # noqa: PLC0415

        rule = Rule(self._form, MARGIN)
        batch = tarcil_batches.TarcilBatch(state, requests, seeds)
        outcomes: list[Placed | Refused] = []
        while len(outcomes) < len(requests):
            outcomes += batch.decide(rule)
            if len(outcomes) < len(requests):  # the next job is refused
                request, seed = requests[len(outcomes)], seeds[len(outcomes)]
                outcomes.append(self._decide_sized(state, request, seed))
        return outcomes

    def _score_sample(
        self, state: BatchState, request: Request, eligibility: Eligibility, seed: int
    ) -> Scores:
        if request.locality:
            return super()._score_sample(state, request, eligibility, seed)
        from apps.scheduling.core.tarcil import kernels  # noqa: PLC0415

        facts = state.facts
        units, servers, key, quality, target, close, headroom = kernels.score_sample(
            state.unit_free,
            eligibility.servers,
            eligibility.units,
            facts.unit_server,
            facts.server_units,
            facts.server_platform,
            state.server_caused,
            _vector(request.caused),
            _vector(request.tolerated),
            scorers.speed_steps(request, len(facts.topology.platform_name)),
            policies.sample_count(request, eligibility),
            seed,
            self._form,
            MARGIN,  # an argument, as constants are compiled into the cache
        )
        return Scores(units, servers, key, quality, target, close, headroom)

    def _ranks(
        self, state: BatchState, request: Request, scored: policies.ScoredSample, seed: int
    ) -> Floats:
        from apps.scheduling.core.tarcil import kernels  # noqa: PLC0415

        if scored.eligibility.units == 1:
            return np.ones(1)
        facts = state.facts
        below = kernels.count_outranked(
            state.unit_free,
            as_readonly(scored.eligibility.servers, np.bool_),
            facts.first_unit,
            facts.server_units,
            facts.server_platform,
            state.server_caused,
            _vector(request.caused),
            _vector(request.tolerated),
            scorers.speed_steps(request, len(facts.topology.platform_name)),
            seed,
            self._form,
            MARGIN,  # an argument, as constants are compiled into the cache
            np.ascontiguousarray(scored.scores.key[scored.picked]),
        )
        return below / (scored.eligibility.units - 1)


class FusedExpected(CompiledPolicy):
    """Same decisions as ``policies.expected``, from rankings that are kept between decisions.

    Jobs with a locality or spread constraint use the assembled form.
    """

    def __init__(self, weights: Weights = DEFAULT, share: Share = ALONE) -> None:
        super().__init__(policies.expected(weights, share), is_full=True)
        self._weights, self._share = weights, share
        self._rankings: ExpectedRankings | None = None

    def _state(self, snapshot: Snapshot, facts: TopologyFacts, *, writable: bool) -> BatchState:
        if self._rankings is None:
            # only processes that decide import numba
            from apps.scheduling.core.expected.rankings import ExpectedRankings  # noqa: PLC0415

            self._rankings = ExpectedRankings(self._weights, self._share)
        return self._rankings.state(snapshot, facts)

    def _can_batch(self, request: Request) -> bool:
        return request.units == 1 and self.size is None

    def _decide_run(
        self, state: BatchState, requests: Sequence[Request], seeds: Sequence[int]
    ) -> list[Placed | Refused]:
        from apps.scheduling.core.expected import batches  # noqa: PLC0415

        assert self._rankings is not None  # noqa: S101 - it made the state
        outcomes: list[Placed | Refused] = []
        found = batches.new_found(len(requests))
        rows = self._rankings.rows(requests)
        patient = [request.is_patient for request in requests[: len(rows)]]
        while len(outcomes) < len(rows):
            start, busy = len(outcomes), state.busy
            end = self._rankings.decide(rows, patient, seeds[: len(rows)], found, start)
            outcomes += batches.placements(
                state,
                requests[start:end],
                seeds[start:end],
                batches.rows_of(found, start, end),
                busy,
            )
            if end < len(rows):  # the next job is refused
                outcomes.append(self._decide_sized(state, requests[end], seeds[end]))
        return outcomes

    def _decide(self, state: BatchState, request: Request, seed: int) -> Placed | Refused:
        if request.locality or request.spread:
            return super()._decide(state, request, seed)
        assert self._rankings is not None  # noqa: S101 - it made the state
        count = max(request.units, stored_candidates(request.units))
        best, ranking = self._rankings.best(request, count, seed)
        *by_filter, units = ranking.counts.tolist()
        by_filter[0] = state.busy
        dropped = {name: n for name, n in zip(FILTERS, by_filter, strict=True) if n}
        servers, room = _NOT_READ, _NO_ROOM
        if request.units > 1:
            servers, room = self._rankings.rooms(ranking)
        eligibility = Eligibility(servers, room, units, dropped)
        if units < request.min_units:
            return refused(state, request, eligibility, examined=0, seed=seed)
        scores = Scores(
            *(best.units, best.servers, best.key, np.full(best.units.size, np.nan), _UNKNOWN),
            *(
                best.score,
                best.headroom,
                units,
                best.expectations,
                stored_candidates(request.units),
            ),
        )
        picked = _FIRST if request.units == 1 else self._pick(state, request, eligibility, scores)
        if picked.size < min(request.units, units) and scores.units.size < units:
            scores = self._score_all(state, request, eligibility, seed)
            picked = self._pick(state, request, eligibility, scores)
        if picked.size < request.min_units:
            examined = scores.units.size
            return refused(state, request, eligibility, examined=examined, seed=seed)
        scored = policies.ScoredSample(eligibility, scores, picked)
        if self._should_wait(state, request, scored):
            return gains_little(state, request, eligibility, examined=units, seed=seed)
        return self._placed(state, request, scored, seed=seed)


_UNKNOWN: Final = float("nan")
_NOT_READ: Final = as_readonly(np.empty(0, dtype=np.bool_))  # of a single unit: none is picked
_NO_ROOM: Final = as_readonly(np.empty(0, dtype=np.int32))
_FIRST: Final = as_readonly(np.zeros(1, dtype=np.int64))


def _count_free_units(facts: TopologyFacts, unit_free: Bools) -> Shorts:
    from apps.scheduling.core.tarcil import kernels  # noqa: PLC0415

    return kernels.count_free(
        as_readonly(unit_free, np.bool_), facts.first_unit, facts.server_units
    )


def _vector(scores: Floats) -> Floats:
    return as_readonly(scores, np.float64)
