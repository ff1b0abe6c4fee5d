"""Choose the columns of a new row to measure.

Source: Paragon §2.2 and Quasar §3.2 (P1, Q2) measure two random columns; experimental design
(Pukelsheim, 1993) measures the columns that leave the lowest residual error.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from apps.classification.core.cross_validation import CrossValidation, cross_validation
from apps.classification.core.estimators.protocol import EmptyLibraryError, check_values
from apps.classification.core.matrix import Scale
from apps.inventory.core.snapshot import Bools, Floats, Ints

# Sets whose held-out errors differ by fewer standard errors of the difference are compared by the
# Gaussian's residual deviations, which vary less between libraries.
ALIKE: Final = 0.5
EXCHANGES: Final = 1
ROUNDING: Final = 1e-9
RANDOM: Final = "random"
FIXED: Final = "fixed"
A_OPTIMAL: Final = "a_optimal"
INFORMATIVE: Final = "informative"


@dataclass(frozen=True, slots=True, eq=False)
class DesignProblem:
    """Input of a design; indices are columns.

    Attributes
    ----------
    library : (b, n, m) matrices whose columns are measured together
    scale, groups : see `choose`
    k : number of columns to choose
    candidates : (c,) columns that may be measured, c >= k, in order of preference
    already : (a,) measured columns
    cost : (m,) of measuring each column, > 0
    """

    library: Floats
    scale: Scale
    groups: Ints
    k: int
    candidates: Ints
    already: Ints
    cost: Floats


Design = Callable[[DesignProblem, np.random.Generator], Sequence[int]]


def choose(  # noqa: PLR0913 - independent options, most with a default
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
    """Choose k columns to measure of a row that is not in the library, in order of choice.

    Parameters
    ----------
    library : (n, m) rows of other applications, NaN where not measured; or (b, n, m), such as
        interference tolerated and caused, where one probe measures a column of all b matrices
    k : number of columns to choose, >= 1, not counting ``already`` measured columns
    method : one of `DESIGNS`
    rng : only ``random`` draws from it
    allowed : (m,) True if the column can be measured; None = all
    already : (m,) True if the cell is measured; None = no cell
    groups : (n,) the application of each row, None if each row is its own application
    cost : (m,) of measuring each column, in any unit, > 0; None = equal costs.
        ``informative`` and ``a_optimal`` choose the column with the largest reduction of the
        expected error per cost; the other methods ignore costs
    order : of the columns for ``fixed``, and for ties of other methods; None = `spread_order`

    Returns
    -------
    (k,) column indices, independent of the order of the rows.

    Raises
    ------
    EmptyLibraryError : the method needs a row with a known cell, and there is none.
    ValueError : unknown method, fewer than k columns to choose from, shapes that disagree, or an
        invalid cell or cost.

    ``informative`` takes 0.3 s for two of 100 columns from 1,000 rows (O(k·m) calls of
    `CrossValidation.errors`); results are cached for the same library.
    """
    if method not in DESIGNS:
        raise ValueError(f"method must be one of {', '.join(DESIGNS)}, got {method!r}")
    matrices = _matrices(library, scale)
    _, n, m = matrices.shape
    measured = _mask(already, m, "already", default=False)
    available = _mask(allowed, m, "allowed", default=True) & ~measured
    if not 1 <= k <= int(available.sum()):
        raise ValueError(
            f"k must lie between 1 and the {available.sum()} columns allowed, got {k}"
        )
    ordered = _order(order, m)
    problem = DesignProblem(
        library=matrices,
        scale=scale,
        groups=_groups(groups, n),
        k=k,
        candidates=ordered[available[ordered]],
        already=np.flatnonzero(measured),
        cost=_cost(cost, m),
    )
    return np.array(DESIGNS[method](problem, rng), dtype=np.int64)


def spread_order(m: int) -> Ints:
    """(m,) columns: first, last, then repeatedly the middle of the widest gap, leftmost first.

    Columns of scaling curves are sorted, so the ends of the curve come first.
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


def _random(problem: DesignProblem, rng: np.random.Generator) -> Sequence[int]:
    """Choose uniformly, as in the papers."""
    return rng.choice(np.sort(problem.candidates), problem.k, replace=False).tolist()


def _fixed(problem: DesignProblem, rng: np.random.Generator) -> Sequence[int]:
    return problem.candidates[: problem.k].tolist()


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """Greedy choice with exchanges: add the best column, later replace it if another is better.

    Column c of matrix i is column c + i·m of the cross-validation.
    """

    cross_validation: CrossValidation
    matrices: int
    already: tuple[int, ...]
    cost: Floats
    by_errors: bool

    def best(self, chosen: Sequence[int], candidates: Sequence[int]) -> int:
        """Return the candidate with the lowest error, or the largest reduction per cost."""
        sets = np.array([[*self.already, *chosen, column] for column in candidates])
        if not self.by_errors:
            return candidates[_argmin(self._worth(self._deviations, sets).sum(axis=1))]
        worth = self._worth(self._errors, sets)
        value = worth.sum(axis=1)
        best = _argmin(value)
        alike = value - value[best] <= ALIKE * _standard_error(worth - worth[best])
        tied = np.flatnonzero(alike)
        if tied.size == 1:
            return candidates[best]
        left = self._worth(self._deviations, sets[tied]).sum(axis=1)
        return candidates[int(tied[_argmin(left)])]

    def _worth(self, criterion: Callable[[Ints], Floats], sets: Ints) -> Floats:
        """(P, G) contributions to the objective of each set; lower is better.

        The criterion itself, or, if costs differ, its change by the last column per cost.
        """
        cost = self.cost[sets[:, -1]]
        if np.all(cost == cost[0]):
            return criterion(sets)
        return (criterion(sets) - criterion(sets[:1, :-1])) / cost[:, None]

    def _errors(self, sets: Ints) -> Floats:
        return self.cross_validation.errors(self._in_all(sets))

    def _deviations(self, sets: Ints) -> Floats:
        return self.cross_validation.deviations(self._in_all(sets))[:, None]

    def _in_all(self, sets: Ints) -> Ints:
        count = self.cost.size
        return np.concatenate([sets + i * count for i in range(self.matrices)], axis=1)


def _from_library(
    problem: DesignProblem, rng: np.random.Generator, *, by_errors: bool
) -> Sequence[int]:
    known = ~np.isnan(problem.library)
    rows = np.flatnonzero(known.any(axis=(0, 2)))
    if not rows.size:
        raise EmptyLibraryError("the library has no row with a known cell")
    columns = np.flatnonzero(known.any(axis=1).all(axis=0))
    if not columns.size:
        return problem.candidates[: problem.k].tolist()
    number = np.full(known.shape[2], -1)
    number[columns] = np.arange(columns.size)
    cells = problem.library[:, rows][:, :, columns]
    has_cells = ~np.isnan(cells).all(axis=(0, 2))
    search = _Search(
        cross_validation(
            np.hstack(list(cells[:, has_cells])), problem.scale, problem.groups[rows][has_cells]
        ),
        len(cells),
        tuple(c for c in number[problem.already].tolist() if c >= 0),
        problem.cost[columns],
        by_errors,
    )
    # columns without a known cell cannot be evaluated: they come last
    at = [c for c in number[problem.candidates].tolist() if c >= 0]
    chosen = columns[_searched(search, at, min(problem.k, len(at)))].tolist()
    rest = [c for c in problem.candidates.tolist() if c not in chosen]
    return [*chosen, *rest][: problem.k]


def _searched(search: _Search, candidates: Sequence[int], k: int) -> list[int]:
    chosen: list[int] = []
    while len(chosen) < k:
        chosen.append(search.best(chosen, [c for c in candidates if c not in chosen]))
    for _ in range(EXCHANGES if k > 1 else 0):
        for i in range(k):
            # the column itself first: it wins ties
            available = [chosen[i], *(c for c in candidates if c not in chosen)]
            cheap = [c for c in available if search.cost[c] <= search.cost[chosen[i]]]
            chosen[i] = search.best(chosen[:i] + chosen[i + 1 :], cheap)
    return chosen


DESIGNS: Final[dict[str, Design]] = {
    RANDOM: _random,
    FIXED: _fixed,
    A_OPTIMAL: partial(_from_library, by_errors=False),
    INFORMATIVE: partial(_from_library, by_errors=True),
}


def _argmin(values: Floats) -> int:
    """Return the index of the minimum; the first one among values equal up to rounding."""
    minimum = float(values.min())
    return int(np.argmax(values <= minimum + ROUNDING * abs(minimum)))


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
