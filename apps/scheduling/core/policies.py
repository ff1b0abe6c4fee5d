"""Policies assembled from their four parts: filter, sample, score, pick.

A decision: which units could run the job (filter), which of them to look at (sample), how good
each is (score), which to take (pick). When the sample was too narrow for what the job wants
(servers apart, memory beside the core), everything eligible is looked at instead.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints, Snapshot, Topology
from apps.scheduling.core import filters, pickers, samplers, scorers
from apps.scheduling.core.board import Board, Facts
from apps.scheduling.core.encoding import Form
from apps.scheduling.core.filters import Eligibility
from apps.scheduling.core.guarantee import default_sample, miss_probability
from apps.scheduling.core.rank import ranks
from apps.scheduling.core.refusals import refused
from apps.scheduling.core.scorers import Scores
from apps.scheduling.core.types import (
    MAX_CANDIDATES,
    Candidate,
    Placed,
    Refused,
    Request,
    Verdict,
)

THRESHOLD = 0.8  # the rank of the guarantee told with each decision: "outside the top 20 %"

Sampler = Callable[[Board, Request, Eligibility, int, int], Ints]
Scorer = Callable[[Board, Request, Ints, int], Scores]


class Seen(NamedTuple):
    """What a decision found: the scores best first, and the positions picked among them."""

    eligibility: Eligibility
    scores: Scores
    picked: Ints


class Assembled:
    """A policy made of a sampler and a scorer.

    Parameters
    ----------
    name, version : as in ``Policy``
    sample : looks at some eligible units, or at all
    near : the same for jobs that want their units near each other
    score : says how good they are
    is_full : the sample misses nothing better, so nothing is left to chance
    """

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
        self._is_full = is_full
        self._known: Facts | None = None

    @property
    def name(self) -> str:
        """Name in the registry."""
        return self._name

    @property
    def version(self) -> int:
        """Raised when the same input may give another answer."""
        return self._version

    def place(
        self, snapshot: Snapshot, requests: Sequence[Request], rng: np.random.Generator
    ) -> list[Placed | Refused]:
        """One outcome per request, in order; one seed is drawn for each."""
        seeds: list[int] = rng.integers(0, 1 << 63, size=len(requests), dtype=np.int64).tolist()
        facts = self._facts(snapshot.topology)
        board = self._board(snapshot, facts, writable=len(requests) > 1)
        outcomes = []
        for position, (request, seed) in enumerate(zip(requests, seeds, strict=True), start=1):
            outcome = self._decide(board, request, seed)
            if isinstance(outcome, Placed) and position < len(requests):
                board.take(outcome.units, request)
            outcomes.append(outcome)
        return outcomes

    def replay(self, snapshot: Snapshot, request: Request, *, seed: int) -> Placed | Refused:
        """Repeat a decision from the snapshot it saw and the seed it stored.

        Only the first decision of a batch saw the snapshot itself; later ones saw it with the
        units of the earlier ones taken.
        """
        board = self._board(snapshot, self._facts(snapshot.topology), writable=False)
        return self._decide(board, request, seed)

    def _facts(self, topology: Topology) -> Facts:
        if self._known is None or self._known.topology is not topology:
            self._known = Facts(topology)
        return self._known

    def _board(self, snapshot: Snapshot, facts: Facts, *, writable: bool) -> Board:
        return Board.of(snapshot, facts, writable=writable)

    def _decide(self, board: Board, request: Request, seed: int) -> Placed | Refused:
        eligibility = self._filter(board, request)
        if eligibility.units < _least(request):
            return refused(board, request, eligibility, examined=0, seed=seed)
        scores = self._look(board, request, eligibility, seed)
        picked = _pick(board, request, eligibility, scores)
        wanted = min(request.units, eligibility.units)
        if picked.size < wanted and scores.units.size < eligibility.units:
            scores = self._look_everywhere(board, request, eligibility, seed)
            picked = _pick(board, request, eligibility, scores)
        if picked.size < _least(request):
            examined = scores.units.size
            return refused(board, request, eligibility, examined=examined, seed=seed)
        seen = Seen(eligibility, scores, picked)
        measured = np.empty(0)
        if request.measure_rank:
            measured = self._ranks(board, request, seen, seed)
        return _placed(board, request, seen, seed=seed, measured=measured, is_full=self._is_full)

    def _filter(self, board: Board, request: Request) -> Eligibility:
        return filters.eligible(board, request)

    def _look(self, board: Board, request: Request, eligibility: Eligibility, seed: int) -> Scores:
        count = sample_count(request, eligibility)
        sample = self.near if request.locality else self.sample
        units = sample(board, request, eligibility, count, seed)
        return scorers.ranked(self.score(board, request, units, seed))

    def _look_everywhere(
        self, board: Board, request: Request, eligibility: Eligibility, seed: int
    ) -> Scores:
        units = samplers.everything(board, request, eligibility, eligibility.units, seed)
        return scorers.ranked(self.score(board, request, units, seed))

    def _ranks(self, board: Board, request: Request, seen: Seen, seed: int) -> Floats:
        """(k,) rank D of each picked unit among the eligible ones."""
        eligibility, units = seen.eligibility, seen.scores.units[seen.picked]
        every = samplers.everything(board, request, eligibility, eligibility.units, seed)
        return ranks(self.score(board, request, every, seed), units)


def tarcil(name: str = "tarcil", *, form: Form = Form.GUARDED) -> Assembled:
    """Tarcil from its parts: the oracle of the kernel, and the form to read.

    Source: Tarcil §3 (T1-T5).
    """
    return Assembled(
        name,
        1,
        # R·m of the units that could run the job, each equally likely
        sample=samplers.uniform,
        # R units and their neighbours on the server or in the rack
        near=samplers.neighbourhoods,
        # how closely each one's interference matches what the job tolerates
        score=partial(scorers.tarcil, form=form),
    )


def least_loaded() -> Assembled:
    """Emptiest servers first, by cores, then memory; blind to interference and platforms (P13)."""
    return Assembled(
        "least_loaded",
        1,
        sample=samplers.emptiest,
        near=samplers.everything,
        score=scorers.load,
        is_full=True,
    )


def at_random() -> Assembled:
    """Any eligible units, each equally likely."""
    return Assembled(
        "random",
        1,
        sample=samplers.uniform_once,
        near=samplers.neighbourhoods,
        score=scorers.coin,
    )


def roomiest() -> Assembled:
    """Random servers among those with the most free resources and least caused interference (P9).

    For short jobs of applications nobody knows: it looks at what their neighbours cause, which is
    known, and at nothing of the job itself. Source: Paragon §3.5.
    """
    return Assembled(
        "roomiest",
        1,
        # a few servers drawn from the best fifth
        sample=samplers.roomiest,
        near=samplers.roomiest,
        # which of their units is all the same
        score=scorers.coin,
    )


def sample_count(request: Request, eligibility: Eligibility) -> int:
    """R·m candidates, R alone where neighbours are examined anyway; at most all there are."""
    units = 1 if request.locality else request.units
    return min(default_sample(units, request.sample_size), eligibility.units)


def _least(request: Request) -> int:
    """Units without which the job does not start."""
    return request.units if request.gang or request.locality else 1


def _pick(board: Board, request: Request, eligibility: Eligibility, scores: Scores) -> Ints:
    if request.locality:
        return pickers.together(board, request, eligibility, scores)
    if request.spread:
        return pickers.apart(board, request, eligibility, scores)
    return pickers.best(board, request, eligibility, scores)


def _placed(
    board: Board, request: Request, seen: Seen, *, seed: int, measured: Floats, is_full: bool
) -> Placed:
    eligibility, scores, picked = seen
    examined = int(scores.units.size)
    is_all = is_full or examined >= eligibility.units
    return Placed(
        job=request.job,
        units=scores.units[picked].astype(np.int32),
        candidates=_candidates(scores, picked.tolist()),
        examined=examined,
        eligible=eligibility.units,
        dropped=eligibility.dropped,
        rank_threshold=THRESHOLD,
        probability=0.0 if is_all else miss_probability(THRESHOLD, examined, picked.size),
        seed=seed,
        sequence=board.snapshot.sequence,
        ranks=measured,
    )


def _candidates(scores: Scores, picked: list[int]) -> tuple[Candidate, ...]:
    """Best few as values, the chosen marked; by lists, as numpy scalars cost ten times more."""
    few = slice(0, MAX_CANDIDATES)
    chosen, last = set(picked), max(picked)
    target = scores.target
    columns = zip(
        scores.units[few].tolist(),
        scores.servers[few].tolist(),
        scores.quality[few].tolist(),
        scores.closeness[few].tolist(),
        scores.key[few].tolist(),
        scores.headroom[few],
        strict=True,
    )
    return tuple(
        Candidate(
            unit,
            server,
            quality,
            target,
            close,
            tuple(key),
            _verdict(position, chosen, last, is_noisy=quality < target),
            headroom,
        )
        for position, (unit, server, quality, close, key, headroom) in enumerate(columns)
    )


def _verdict(position: int, chosen: set[int], last: int, *, is_noisy: bool) -> Verdict:
    if position in chosen:
        return Verdict.CHOSEN
    if position < last:
        return Verdict.NO_ROOM
    return Verdict.TOO_NOISY if is_noisy else Verdict.OUTRANKED
