"""The best candidates of a decision, as its record and its explanation show them."""

from collections.abc import Iterator, Sequence
from typing import overload

from apps.inventory.core.snapshot import Ints
from apps.scheduling.core.scorers import Scores
from apps.scheduling.core.types import Candidate, Expectation, Verdict


class RankedCandidates(Sequence[Candidate]):
    """The best candidates of a decision, built when they are first read.

    Building them takes longer than the decision, and most replays never read them.

    Attributes
    ----------
    picked : positions of the chosen units
    """

    def __init__(self, scores: Scores, picked: Ints) -> None:
        self._scores, self.picked = scores, picked
        self._built: tuple[Candidate, ...] | None = None

    @property
    def scores(self) -> Scores:
        """The scores, best first."""
        return self._scores

    def __len__(self) -> int:
        return min(self.scores.units.size, self.scores.listed)

    @overload
    def __getitem__(self, index: int) -> Candidate: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Candidate, ...]: ...

    def __getitem__(self, index: int | slice) -> Candidate | tuple[Candidate, ...]:
        return self._all[index]

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self._all)

    @property
    def _all(self) -> tuple[Candidate, ...]:
        if self._built is None:
            self._built = _candidates(self.scores, self.picked.tolist())
        return self._built


def _candidates(scores: Scores, picked: list[int]) -> tuple[Candidate, ...]:
    """Return the best candidates, from lists, as numpy scalars are ten times slower."""
    best = slice(0, scores.listed)
    chosen, last = set(picked), max(picked)
    target = scores.target
    columns = zip(
        scores.units[best].tolist(),
        scores.servers[best].tolist(),
        scores.quality[best].tolist(),
        scores.closeness[best].tolist(),
        scores.key[best].tolist(),
        scores.headroom[best],
        _expectations(scores, best),
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
            expectation,
        )
        for position, (unit, server, quality, close, key, headroom, expectation) in enumerate(
            columns
        )
    )


def _expectations(scores: Scores, best: slice) -> list[Expectation | None]:
    if scores.expectations is None:
        return [None] * len(scores.units[best])
    return [Expectation(*row) for row in scores.expectations[best].tolist()]


def _verdict(position: int, chosen: set[int], last: int, *, is_noisy: bool) -> Verdict:
    if position in chosen:
        return Verdict.CHOSEN
    if position < last:
        return Verdict.NO_ROOM
    return Verdict.TOO_NOISY if is_noisy else Verdict.OUTRANKED
