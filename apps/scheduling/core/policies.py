"""Policies assembled from four parts: filter, sample, score, pick.

A decision selects the units that could run the job (filter), draws candidates (sample), rates them
(score) and chooses (pick). If the sample cannot satisfy the request (spread, memory per unit), all
eligible units are scored instead.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Self

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints, Shorts, Snapshot, Topology
from apps.scheduling.core import filters, pickers, samplers, scorers
from apps.scheduling.core.batch_state import BatchState, TopologyFacts
from apps.scheduling.core.expected import performance as expectation
from apps.scheduling.core.expected.performance import Share, Weights
from apps.scheduling.core.filters import Eligibility
from apps.scheduling.core.records.ranked_candidates import RankedCandidates
from apps.scheduling.core.refusals import gains_little, refused
from apps.scheduling.core.scorers import Scores
from apps.scheduling.core.tarcil.encoding import Form
from apps.scheduling.core.tarcil.guarantee import default_sample, miss_probability
from apps.scheduling.core.tarcil.rank import ranks
from apps.scheduling.core.types import DEFAULT_SAMPLE, Placed, Refused, Request

NO_RANKS = np.empty(0)
RANK_THRESHOLD = 0.8  # of the guarantee stored with each decision: "outside the top 20 %"

Sampler = Callable[[BatchState, Request, Eligibility, int, int], Ints]
Scorer = Callable[[BatchState, Request, Ints, int], Scores]
GainsEnough = Callable[[Floats, Callable[[], float]], bool]


class ScoredSample(NamedTuple):
    """A scored sample: the scores best first, and the picked positions."""

    eligibility: Eligibility
    scores: Scores
    picked: Ints


class AssembledPolicy:
    """A policy assembled from samplers and a scorer.

    Parameters
    ----------
    name, version : as in ``Policy``
    sample : draws candidates among the eligible units
    near : the same for jobs with a locality constraint
    score : rates the candidates
    is_full : True if the sample always contains the best units

    Attributes
    ----------
    weighs_neighbours : whether the score may depend on what the jobs on a server tolerate
    gains_enough : whether a unit gains enough for a job that may wait; None = any does
    """

    weighs_neighbours = True

    def __init__(
        self,
        name: str,
        version: int,
        *,
        sample: Sampler,
        near: Sampler,
        score: Scorer,
        is_full: bool = False,
    ) -> None:
        self._name, self._version = name, version
        self.sample, self.near, self.score = sample, near, score
        self._is_full, self._compares = is_full, True
        self.gains_enough: GainsEnough | None = None
        self.size: Callable[[Request], int] | None = None
        self._candidates = DEFAULT_SAMPLE
        self._facts_cache: TopologyFacts | None = None

    def sized_by(self, size: Callable[[Request], int]) -> Self:
        """Let the policy choose the number of units of a job."""
        self.size = size
        return self

    def waiting_unless(self, gains_enough: GainsEnough) -> Self:
        """Refuse a job that may wait, unless the chosen unit gains enough."""
        self.gains_enough = gains_enough
        return self

    def drawing(self, candidates: int) -> Self:
        """Draw R candidates per unit, unless the job names R."""
        self._candidates = candidates
        return self

    def without_comparison(self) -> Self:
        """Choose units without comparing them, so that R does not apply."""
        self._compares = False
        return self

    @property
    def name(self) -> str:
        """Name in the registry."""
        return self._name

    @property
    def version(self) -> int:
        """Incremented when the same input may give a different outcome."""
        return self._version

    @property
    def draws_sample(self) -> bool:
        """Whether it compares R random candidates; not if it rates all units or compares none."""
        return self._compares and not self._is_full

    def place(
        self, snapshot: Snapshot, requests: Sequence[Request], rng: np.random.Generator
    ) -> list[Placed | Refused]:
        """Return one outcome per request, in order; each draws one seed."""
        seeds: list[int] = rng.integers(0, 1 << 63, size=len(requests), dtype=np.int64).tolist()
        facts = self._facts(snapshot.topology)
        if not snapshot.unit_free.size:
            return _refuse_all(snapshot, facts, requests, seeds)
        state = self._state(snapshot, facts, writable=len(requests) > 1)
        return self._decide_in_turn(state, requests, seeds)

    def replay(
        self,
        snapshot: Snapshot,
        request: Request,
        *,
        seed: int,
        earlier: Sequence[tuple[Shorts, Request]] = (),
    ) -> Placed | Refused:
        """Repeat a decision from its snapshot and its stored seed.

        Parameters
        ----------
        earlier : units and requests of the jobs that the batch has placed before
        """
        facts = self._facts(snapshot.topology)
        state = self._state(snapshot, facts, writable=bool(earlier))
        for units, other in earlier:
            state.allocate(units, other)
        return self._decide_sized(state, request, seed)

    def _decide_in_turn(
        self, state: BatchState, requests: Sequence[Request], seeds: Sequence[int]
    ) -> list[Placed | Refused]:
        """Decide on each request, and allocate its units if others follow."""
        outcomes = []
        for position, (request, seed) in enumerate(zip(requests, seeds, strict=True), start=1):
            outcome = self._decide_sized(state, request, seed)
            if isinstance(outcome, Placed) and position < len(requests):
                state.allocate(outcome.units, request)
            outcomes.append(outcome)
        return outcomes

    def _decide_sized(self, state: BatchState, request: Request, seed: int) -> Placed | Refused:
        units = request.units if self.size is None else self.size(request)
        if units == request.units:
            return self._decide(state, unconstrained(request), seed)
        outcome = self._decide(state, unconstrained(replace(request, units=units)), seed)
        return replace(outcome, wanted=units) if isinstance(outcome, Placed) else outcome

    def _facts(self, topology: Topology) -> TopologyFacts:
        if self._facts_cache is None or self._facts_cache.topology is not topology:
            self._facts_cache = TopologyFacts(topology)
        return self._facts_cache

    def _state(self, snapshot: Snapshot, facts: TopologyFacts, *, writable: bool) -> BatchState:
        return BatchState.of(
            snapshot, facts, writable=writable, weighs_neighbours=self.weighs_neighbours
        )

    def _decide(self, state: BatchState, request: Request, seed: int) -> Placed | Refused:
        eligibility = self._filter(state, request)
        if eligibility.units < request.min_units:
            return refused(state, request, eligibility, examined=0, seed=seed)
        scores = self._score_sample(state, request, eligibility, seed)
        picked = self._pick(state, request, eligibility, scores)
        target = min(request.units, eligibility.units)
        if picked.size < target and scores.units.size < eligibility.units:
            scores = self._score_all(state, request, eligibility, seed)
            picked = self._pick(state, request, eligibility, scores)
        if picked.size < request.min_units:
            examined = scores.units.size
            return refused(state, request, eligibility, examined=examined, seed=seed)
        scored = ScoredSample(eligibility, scores, picked)
        if self._should_wait(state, request, scored):
            examined = scores.units.size
            return gains_little(state, request, eligibility, examined=examined, seed=seed)
        measured = NO_RANKS
        if request.measure_rank:
            measured = self._ranks(state, request, scored, seed)
        return self._placed(state, request, scored, seed=seed, measured=measured)

    def _should_wait(self, state: BatchState, request: Request, scored: ScoredSample) -> bool:
        """Whether a job that may wait should do so: its best unit gains too little."""
        expectations = scored.scores.expectations
        if not request.is_patient or self.gains_enough is None or expectations is None:
            return False
        usual = partial(expectation.attainable_speed, state.facts, request)
        return not self.gains_enough(expectations[scored.picked[0]], usual)

    def _filter(self, state: BatchState, request: Request) -> Eligibility:
        return filters.eligible(state, request)

    def _score_sample(
        self, state: BatchState, request: Request, eligibility: Eligibility, seed: int
    ) -> Scores:
        count = sample_count(request, eligibility, self._candidates)
        sample = self.near if request.locality else self.sample
        units = sample(state, request, eligibility, count, seed)
        return scorers.ranked(self.score(state, request, units, seed))

    def _score_all(
        self, state: BatchState, request: Request, eligibility: Eligibility, seed: int
    ) -> Scores:
        units = samplers.everything(state, request, eligibility, eligibility.units, seed)
        return scorers.ranked(self.score(state, request, units, seed))

    def _pick(
        self, state: BatchState, request: Request, eligibility: Eligibility, scores: Scores
    ) -> Ints:
        """Positions of the units to take, best first."""
        if request.locality:
            return pickers.together(state, request, eligibility, scores)
        if request.spread:
            return pickers.apart(state, request, eligibility, scores)
        return pickers.best(state, request, eligibility, scores)

    def _ranks(
        self, state: BatchState, request: Request, scored: ScoredSample, seed: int
    ) -> Floats:
        """(k,) rank D of each picked unit among the eligible units."""
        eligibility, units = scored.eligibility, scored.scores.units[scored.picked]
        every = samplers.everything(state, request, eligibility, eligibility.units, seed)
        return ranks(self.score(state, request, every, seed), units)

    def _placed(
        self,
        state: BatchState,
        request: Request,
        scored: ScoredSample,
        *,
        seed: int,
        measured: Floats = NO_RANKS,
    ) -> Placed:
        eligibility, scores, picked = scored
        examined = int(scores.units.size) if scores.examined is None else scores.examined
        is_all = self._is_full or examined >= eligibility.units
        draws, chance = None, 0.0
        if not is_all and not self._compares:
            units = 1 if request.locality else picked.size  # units of one place are alike
            draws, chance = 1, miss_probability(RANK_THRESHOLD, units, units)
        elif not is_all:
            if request.locality:
                draws = sample_count(request, eligibility, self._candidates)
            chance = miss_probability(RANK_THRESHOLD, examined, picked.size, draws)
        return Placed(
            job=request.job,
            units=scores.units[picked].astype(np.int32),
            candidates=RankedCandidates(scores, picked),
            examined=examined,
            eligible=eligibility.units,
            dropped=eligibility.dropped,
            rank_threshold=RANK_THRESHOLD,
            probability=chance,
            seed=seed,
            sequence=state.snapshot.sequence,
            ranks=measured,
            draws=draws,
        )


def tarcil(name: str = "tarcil", *, form: Form = Form.GUARDED) -> AssembledPolicy:
    """Tarcil assembled from its parts: the readable form, and the oracle of the kernels.

    Source: Tarcil §3 (T1-T5).
    """
    return AssembledPolicy(
        name,
        3,
        # R·m of the eligible units, each equally likely
        sample=samplers.uniform,
        # R units and the other eligible units of their server or rack
        near=samplers.neighbourhoods,
        # match between the interference on each unit and the job's tolerance
        score=partial(scorers.tarcil, form=form),
    )


def expected(
    weights: Weights = expectation.DEFAULT, share: Share = expectation.ALONE
) -> AssembledPolicy:
    """Best expected performance of the job and its neighbours; the oracle of the kernels."""
    return AssembledPolicy(
        "expected",
        3,
        sample=samplers.everything,
        near=samplers.everything,
        # predicted performance of the job there, of the jobs there, and of jobs to come
        score=partial(expectation.score, weights=weights, share=share),
        is_full=True,
        # a job that may wait does so rather than slow its neighbours down by what it gains
    ).waiting_unless(partial(expectation.gains_enough, weights=weights))


def least_loaded(name: str = "least_loaded") -> AssembledPolicy:
    """Emptiest servers first, by cores, then memory; ignores interference and platforms (P13)."""
    return AssembledPolicy(
        name,
        1,
        sample=samplers.emptiest,
        near=samplers.everything,
        score=scorers.load,
        is_full=True,
    )


def at_random() -> AssembledPolicy:
    """Random eligible units, each equally likely."""
    return AssembledPolicy(
        "random",
        3,
        sample=samplers.uniform_once,
        near=samplers.neighbourhoods,
        score=scorers.coin,
    ).without_comparison()


def roomiest() -> AssembledPolicy:
    """Random servers among those with the most free resources and least interference (P9).

    For short jobs of applications without a profile, whose requests have what is typical of all
    applications. Among the servers whose interference such a job tolerates, those count whose
    platform is fast and whose resources are free. Source: Paragon §3.5.
    """
    return AssembledPolicy(
        "roomiest",
        2,
        # some servers drawn from the best fifth
        sample=samplers.roomiest,
        near=samplers.roomiest,
        # their units are equally good
        score=scorers.coin,
    ).without_comparison()


def _refuse_all(
    snapshot: Snapshot, facts: TopologyFacts, requests: Sequence[Request], seeds: Sequence[int]
) -> list[Placed | Refused]:
    """Refuse requests on a cluster without servers: kernels draw among at least one unit."""
    state = BatchState.of(snapshot, facts, writable=False)
    return [
        refused(state, request, filters.eligible(state, request), examined=0, seed=seed)
        for request, seed in zip(requests, seeds, strict=True)
    ]


def sample_count(
    request: Request, eligibility: Eligibility, candidates: int = DEFAULT_SAMPLE
) -> int:
    """Return R·m, or R with a locality constraint, at most the number of eligible units."""
    units = 1 if request.locality else request.units
    return min(default_sample(units, request.sample_size or candidates), eligibility.units)


def unconstrained(request: Request) -> Request:
    """Drop locality and spread of a single unit, which every server meets.

    All jobs of some kinds have a locality, and the filters of a locality read every unit.
    """
    if request.units > 1 or (request.locality is None and request.spread is None):
        return request
    return replace(request, locality=None, spread=None)
