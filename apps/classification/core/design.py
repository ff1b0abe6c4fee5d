"""Choosing which columns of a new row to measure.

Source: Paragon §2.2 and Quasar §3.2 (P1, Q2) measure two random columns; experimental design
(Pukelsheim, 1993) measures those that leave the least to guess.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from apps.classification.core.estimators.protocol import EmptyLibraryError, check_values
from apps.classification.core.matrix import Scale
from apps.classification.core.rehearsal import Rehearsal, rehearsal
from apps.inventory.core.snapshot import Bools, Floats, Ints

# Sets whose held-out errors differ by less than this many standard errors of their difference are
# told apart by the Gaussian's deviations, which vary less from library to library.
ALIKE: Final = 0.5
EXCHANGES: Final = 1
ROUNDING: Final = 1e-9
RANDOM: Final = "random"
FIXED: Final = "fixed"
A_OPTIMAL: Final = "a_optimal"
INFORMATIVE: Final = "informative"


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What a design is asked; every index is a column.

    Attributes
    ----------
    library : (b, n, m) matrices whose columns are measured together
    scale, groups : as `choose` takes them
    k : columns wanted
    candidates : (c,) that may be measured, c >= k, in the order of `spread_order` or of the user
    already : (a,) that are measured
    cost : (m,) of measuring each, > 0
    """

    library: Floats
    scale: Scale
    groups: Ints
    k: int
    candidates: Ints
    already: Ints
    cost: Floats


Design = Callable[[Question, np.random.Generator], Sequence[int]]


def choose(  # noqa: PLR0913 - each is a fact of its own, and most have a default
    library: Floats,
    k: int,
    *,
    scale: Scale,
    method: str,
    rng: np.random.Generator,
    allowed: Bools | None = None,
    already: Bools | None = None,
    groups: Ints | None = None,
    cost: Floats | None = None,
    order: Sequence[int] | None = None,
) -> Ints:
    """Choose k columns to measure of a row that the library does not have, in order of choice.

    Parameters
    ----------
    library : (n, m) rows of other applications, NaN where not measured; or (b, n, m), such as
        interference tolerated and caused, where one probe measures a column of all b matrices
    k : >= 1 columns, beside those ``already`` measured
    method : one of `DESIGNS`
    rng : only ``random`` draws from it
    allowed : (m,) True where a column can be measured; None is everywhere
    already : (m,) True where the row is measured; None is nowhere
    groups : (n,) the application of each row, None when every row is one
    cost : (m,) of measuring each column, in any unit, > 0; None when all cost the same.
        ``informative`` and ``a_optimal`` take the column that lowers the expected error most for
        its cost; the others do not look at it
    order : of the columns for ``fixed``, and among columns that are as good; None is
        `spread_order`

    Returns
    -------
    (k,) column numbers. The order of the rows never matters.

    Raises
    ------
    EmptyLibraryError : a design that learns from the library got no row with a known cell.
    ValueError : unknown method, fewer than k columns to choose from, shapes that disagree, or a
        cell or cost that cannot be one.

    ``informative`` takes 0.3 s for two of 100 columns from 1,000 rows (O(k·m) calls of
    `Rehearsal.errors`), and next to nothing when the same library is asked again.
    """
    if method not in DESIGNS:
        raise ValueError(f"method must be one of {', '.join(DESIGNS)}, got {method!r}")
    matrices = _matrices(library, scale)
    _, n, m = matrices.shape
    seen = _mask(already, m, "already", default=False)
    free = _mask(allowed, m, "allowed", default=True) & ~seen
    if not 1 <= k <= int(free.sum()):
        raise ValueError(f"k must lie between 1 and the {free.sum()} columns allowed, got {k}")
    ordered = _order(order, m)
    question = Question(
        library=matrices,
        scale=scale,
        groups=_groups(groups, n),
        k=k,
        candidates=ordered[free[ordered]],
        already=np.flatnonzero(seen),
        cost=_cost(cost, m),
    )
    return np.array(DESIGNS[method](question, rng), dtype=np.int64)


def spread_order(m: int) -> Ints:
    """(m,) columns: the first, the last, then always the middle of the widest gap, leftmost first.

    It depends on m only. Columns of scaling curves are sorted, so that their ends come first.
    """
    order = list(range(m))[:1] + list(range(m))[1:][-1:]
    gaps = [(0, m - 1)] if m > 2 else []
    while gaps:
        low, high = max(gaps, key=lambda gap: (gap[1] - gap[0], -gap[0]))
        gaps.remove((low, high))
        middle = (low + high) // 2
        order.append(middle)
        gaps += [gap for gap in ((low, middle), (middle, high)) if gap[1] - gap[0] > 1]
    return np.array(order, dtype=np.int64)


def _random(question: Question, rng: np.random.Generator) -> Sequence[int]:
    """As the papers: every column is as likely."""
    return rng.choice(np.sort(question.candidates), question.k, replace=False).tolist()


def _fixed(question: Question, rng: np.random.Generator) -> Sequence[int]:
    return question.candidates[: question.k].tolist()


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """Greedy choice with exchanges: a column is added, and later replaced, by the best one.

    Column c of matrix i is column c + i · (their number) of the rehearsal.
    """

    rehearsal: Rehearsal
    matrices: int
    already: tuple[int, ...]
    cost: Floats
    by_errors: bool

    def best(self, chosen: Sequence[int], candidates: Sequence[int]) -> int:
        """Return the candidate that leaves the least error, or lowers it most for its cost."""
        sets = np.array([[*self.already, *chosen, column] for column in candidates])
        if not self.by_errors:
            return candidates[_least(self._worth(self._deviations, sets).sum(axis=1))]
        worth = self._worth(self._errors, sets)
        value = worth.sum(axis=1)
        best = _least(value)
        alike = value - value[best] <= ALIKE * _standard_error(worth - worth[best])
        tied = np.flatnonzero(alike)
        if tied.size == 1:
            return candidates[best]
        left = self._worth(self._deviations, sets[tied]).sum(axis=1)
        return candidates[int(tied[_least(left)])]

    def _worth(self, criterion: Callable[[Ints], Floats], sets: Ints) -> Floats:
        """(P, G) parts of what a set is judged by, lower is better.

        The criterion itself; where costs differ, minus what the last column takes off it for each
        unit of its cost.
        """
        cost = self.cost[sets[:, -1]]
        if np.all(cost == cost[0]):
            return criterion(sets)
        return (criterion(sets) - criterion(sets[:1, :-1])) / cost[:, None]

    def _errors(self, sets: Ints) -> Floats:
        return self.rehearsal.errors(self._in_all(sets))

    def _deviations(self, sets: Ints) -> Floats:
        return self.rehearsal.deviations(self._in_all(sets))[:, None]

    def _in_all(self, sets: Ints) -> Ints:
        count = self.cost.size
        return np.concatenate([sets + i * count for i in range(self.matrices)], axis=1)


def _learnt(question: Question, rng: np.random.Generator, *, by_errors: bool) -> Sequence[int]:
    known = ~np.isnan(question.library)
    rows = np.flatnonzero(known.any(axis=(0, 2)))
    if not rows.size:
        raise EmptyLibraryError("the library has no row to compare with")
    columns = np.flatnonzero(known.any(axis=1).all(axis=0))
    if not columns.size:
        return question.candidates[: question.k].tolist()
    number = np.full(known.shape[2], -1)
    number[columns] = np.arange(columns.size)
    cells = question.library[:, rows][:, :, columns]
    told = ~np.isnan(cells).all(axis=(0, 2))
    search = _Search(
        rehearsal(np.hstack(list(cells[:, told])), question.scale, question.groups[rows][told]),
        len(cells),
        tuple(c for c in number[question.already].tolist() if c >= 0),
        question.cost[columns],
        by_errors,
    )
    # nothing is known of what a column without a cell would tell: those come last
    at = [c for c in number[question.candidates].tolist() if c >= 0]
    chosen = columns[_searched(search, at, min(question.k, len(at)))].tolist()
    rest = [c for c in question.candidates.tolist() if c not in chosen]
    return [*chosen, *rest][: question.k]


def _searched(search: _Search, candidates: Sequence[int], k: int) -> list[int]:
    chosen: list[int] = []
    while len(chosen) < k:
        chosen.append(search.best(chosen, [c for c in candidates if c not in chosen]))
    for _ in range(EXCHANGES if k > 1 else 0):
        for i in range(k):
            # itself first: a column that is only as good does not take its place
            free = [chosen[i], *(c for c in candidates if c not in chosen)]
            cheap = [c for c in free if search.cost[c] <= search.cost[chosen[i]]]
            chosen[i] = search.best(chosen[:i] + chosen[i + 1 :], cheap)
    return chosen


DESIGNS: Final[dict[str, Design]] = {
    RANDOM: _random,
    FIXED: _fixed,
    A_OPTIMAL: partial(_learnt, by_errors=False),
    INFORMATIVE: partial(_learnt, by_errors=True),
}


def _least(values: Floats) -> int:
    """Return where the least of some values is; the first of those that differ by rounding."""
    least = float(values.min())
    return int(np.argmax(values <= least + ROUNDING * abs(least)))


def _standard_error(differences: Floats) -> Floats:
    """(P,) of sums over the (P, G) paired differences of applications."""
    count = differences.shape[1]
    centred = differences - differences.mean(axis=1, keepdims=True)
    return np.sqrt((centred**2).sum(axis=1) * count / max(count - 1, 1))


def _matrices(library: Floats, scale: Scale) -> Floats:
    """(b, n, m) checked cells of one or more matrices."""
    if library.ndim not in {2, 3}:
        raise ValueError(f"library must have two or three dimensions, got shape {library.shape}")
    check_values(library, ~np.isnan(library), scale, name="library")
    return library if library.ndim == 3 else library[None]


def _mask(given: Bools | None, m: int, name: str, *, default: bool) -> Bools:
    mask = np.full(m, default) if given is None else np.asarray(given, dtype=np.bool_)
    if mask.shape != (m,):
        raise ValueError(f"{name} must have {m} columns, got shape {mask.shape}")
    return mask


def _groups(given: Ints | None, n: int) -> Ints:
    groups = np.arange(n) if given is None else np.asarray(given)
    if groups.shape != (n,):
        raise ValueError(f"groups must name {n} applications, got shape {groups.shape}")
    return groups


def _cost(given: Floats | None, m: int) -> Floats:
    cost = np.ones(m) if given is None else np.asarray(given, dtype=np.float64)
    if cost.shape != (m,) or not (np.isfinite(cost) & (cost > 0)).all():
        raise ValueError(f"cost must be {m} positive finite numbers, got {cost}")
    return cost


def _order(given: Sequence[int] | None, m: int) -> Ints:
    order = spread_order(m) if given is None else np.array(given, dtype=np.int64)
    if not np.array_equal(np.sort(order), np.arange(m)):
        raise ValueError(f"order must name each of {m} columns once, got {given}")
    return order
