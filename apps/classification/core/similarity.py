"""Similarity of applications, and the columns that explain it.

a, b rows of deviations from the library's average, each column in its own standard deviations and
each matrix of the same total weight; v_k the right singular vectors of all rows: the similarity
concepts, the strongest first. With S(a, b) = 2 a·b / (|a|² + |b|²), which is 1 for equal rows, 0
for unrelated and -1 for opposite ones, a concept contributes 2 (a·v_k)(b·v_k) / (|a|² + |b|²);
the contributions of all concepts add up to S.

Source: the concepts are Paragon's (§2.1, P2); their contributions to a pair are ours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.classification.core.matrix import MatrixName, Scale
from apps.inventory.core.snapshot import Floats

# the base rate does not describe behaviour, and few applications have settings
LEFT_OUT: Final = (MatrixName.BASE_RATE, MatrixName.FRAMEWORK)
COMPARED: Final = tuple(name for name in MatrixName if name not in LEFT_OUT)
MAX_DRIVERS: Final = 3
_NEGLIGIBLE: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Driver:
    """A column in which both applications lie on the same side of the average.

    Attributes
    ----------
    is_above : both lie above it
    """

    matrix: MatrixName
    column: str
    is_above: bool


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A similar application, with the explanation of the similarity.

    Attributes
    ----------
    similarity : S, in [-1, 1]
    concept : number of the concept that contributes most, 1 = the strongest of the library
    concept_share : its contribution as a share of the similarity; above 1 if other concepts
        reduce it
    drivers : columns with the most weight in that concept; may be empty
    """

    name: str
    similarity: float
    concept: int
    concept_share: float
    drivers: tuple[Driver, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """The space in which n applications are compared; m columns of several matrices.

    Attributes
    ----------
    names : n applications
    places : m (matrix, column)
    mean, weight : (m,) of the columns, in comparison space; weight 0 if all rows are equal
    rows : (n, m) weighted deviations
    concepts : (k, m) orthonormal basis of the rows, the strongest first
    """

    names: tuple[str, ...]
    places: tuple[tuple[MatrixName, str], ...]
    mean: Floats
    weight: Floats
    rows: Floats
    concepts: Floats


def space_of(
    names: Sequence[str], values: Mapping[MatrixName, tuple[Sequence[str], Floats]]
) -> Space:
    """Compute the space of known applications.

    Parameters
    ----------
    names : n applications
    values : for each matrix its columns and (n, columns) values; NaN counts as average

    Cost: one singular value decomposition, O(n·m·min(n, m)).
    """
    parts = [(name, *values[name]) for name in COMPARED if name in values]
    places = tuple((name, column) for name, columns, _ in parts for column in columns)
    if not parts or not len(names):
        nothing = np.zeros((0, len(places)))
        flat = np.zeros(len(places))
        return Space((), places, flat, flat, nothing, nothing)
    compared = np.hstack([_compared(name, array) for name, _, array in parts])
    share = np.concatenate([np.full(len(c), 1.0 / max(1, len(c))) for _, c, _ in parts])
    known = ~np.isnan(compared)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, compared, 0.0).sum(axis=0) / count
    spread = np.sqrt((np.where(known, compared - mean, 0.0) ** 2).sum(axis=0) / count)
    varies = spread > 1e-9 * np.maximum(np.abs(mean), 1.0)
    weight = np.where(varies, np.sqrt(share) / np.where(varies, spread, 1.0), 0.0)
    rows = np.where(known, (compared - mean) * weight, 0.0)
    _, strength, concepts = np.linalg.svd(rows, full_matrices=False)
    spanned = strength > _NEGLIGIBLE * max(float(strength[0]), 1.0)
    return Space(tuple(names), places, mean, weight, rows, concepts[spanned])


def nearest(
    space: Space,
    row: Mapping[MatrixName, tuple[Sequence[str], Floats]],
    *,
    limit: int = 5,
    leave_out: str = "",
) -> list[Neighbour]:
    """Return the applications most similar to a row, best first; only positive similarities.

    Parameters
    ----------
    row : values of the application by matrix: columns and (columns,) values
    leave_out : name to exclude, the application itself

    Cost: O(n·m) and O(k·m) for each neighbour.
    """
    a = _placed(space, row)
    own = float(a @ a)
    norms = own + np.einsum("nm,nm->n", space.rows, space.rows)
    similarity = 2.0 * (space.rows @ a) / np.maximum(norms, _NEGLIGIBLE)
    order = [
        int(i)
        for i in np.argsort(-similarity, kind="stable")
        if similarity[i] > 0.0 and space.names[i] != leave_out
    ]
    return [_neighbour(space, a, i, float(similarity[i])) for i in order[:limit]]


def _neighbour(space: Space, a: Floats, i: int, similarity: float) -> Neighbour:
    b = space.rows[i]
    added = 2.0 * (space.concepts @ a) * (space.concepts @ b) / float(a @ a + b @ b)
    k = int(np.argmax(added))
    side = np.sign(space.concepts[k]) * np.sign(float(space.concepts[k] @ a))
    agreed = (np.sign(a) == side) & (np.sign(b) == side) & (side != 0)
    order = np.argsort(-np.abs(space.concepts[k]), kind="stable")
    drivers = [
        Driver(*space.places[j], is_above=bool(a[j] > 0)) for j in map(int, order) if agreed[j]
    ]
    return Neighbour(
        name=space.names[i],
        similarity=similarity,
        concept=k + 1,
        concept_share=float(added[k]) / similarity,
        drivers=tuple(drivers[:MAX_DRIVERS]),
    )


def _placed(space: Space, row: Mapping[MatrixName, tuple[Sequence[str], Floats]]) -> Floats:
    """(m,) weighted deviations of a row; 0 for missing columns."""
    values: dict[tuple[MatrixName, str], float] = {
        (name, column): value
        for name, (columns, array) in row.items()
        if name in COMPARED
        for column, value in zip(columns, _compared(name, array), strict=True)
    }
    at = np.array([values.get(place, np.nan) for place in space.places], dtype=np.float64)
    return np.where(np.isnan(at), 0.0, (at - space.mean) * space.weight)


def _compared(name: MatrixName, values: Floats) -> Floats:
    """Values in the comparison space of their matrix."""
    array = np.asarray(values, dtype=np.float64)
    if name.scale is not Scale.LOG:
        return array
    with np.errstate(divide="ignore", invalid="ignore"):
        logs: Floats = np.where(array > 0, np.log(array), np.nan)
    return logs
