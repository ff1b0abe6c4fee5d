"""How far the known cells of a row lie from the library, and how much wider its intervals are.

The score of a row is -ln of the mean of exp(-d²/2) over the rows of the library, d the Mahalanobis
distance of its known cells from a component around each row (`WIDTH`). It grows with the leverage
of the cells, in directions in which the library varies, and much faster with their residual, in
directions in which it does not.

Intervals are calibrated on held-out rows of the library and on strange versions of them. Both are
sorted into bins by score; in each bin the width covers 90 % of the hidden cells, if a share
`STRANGE` of new applications is strange (Vovk, Gammerman and Shafer, "Algorithmic learning in a
random world" (2005), §4.6: conformal prediction by category). A row is unfamiliar if at most
`FALSE_FLAGS` of the held-out rows of the library have its score.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import numpy as np

from apps.classification.core.estimators.covariance import group_weights, shrunk_covariance
from apps.classification.core.estimators.protocol import Observed, Rows
from apps.inventory.core.snapshot import Bools, Floats, Ints

WIDTH: Final = 0.4  # of a component, in deviations of the rows
NOISE: Final = 0.02  # deviation of a measured cell
BY_APPLICATION: Final = 0.5  # a row of an application of c rows counts c^-0.5
MAX_CENTRES: Final = 100
SCALED: Final = 2.0  # a strange row that is this much more sensitive than the library
STRANGE: Final = 0.2
FALSE_FLAGS: Final = 0.045
MIN_APPLICATIONS: Final = 15  # with fewer, every new row would be among the 5 % strangest
SMALLEST: Final = 1e-9  # width, in deviations
MIN_DRAWS: Final = 60  # of held-out rows
FAMILIAR_BINS: Final = (0.5, 0.8)  # ends, as shares of the held-out rows
STRANGE_BINS: Final = 0.5  # end, as a share of the strange rows that are unfamiliar


@dataclass(frozen=True, slots=True, eq=False)
class Neighbourhood:
    """(m, n) columns of the components, at most `MAX_CENTRES`, and their (m, m) covariance."""

    columns: Floats
    covariance: Floats

    @classmethod
    def of(cls, rows: Rows) -> Self:
        """Prepare a library; O(n·m²)."""
        weight = group_weights(rows.groups, BY_APPLICATION)
        mean = weight @ rows.z
        rest = rows.z - mean
        at = np.linspace(0, len(rest) - 1, min(len(rest), MAX_CENTRES)).round().astype(np.int64)
        centre = mean + np.sqrt(1.0 - WIDTH**2) * rest[at]
        covariance = WIDTH**2 * shrunk_covariance(rest, weight).covariance
        return cls(np.ascontiguousarray(centre.T), covariance)

    def scores(self, observed: Observed) -> Floats:
        """(q,) scores, at least 0; 0 for rows without known cells. O(q·(n + k)·k²)."""
        q, k = observed.at.shape
        if k == 0:
            return np.zeros(q)
        # web processes only read stored estimates, and must not import numba
        from apps.classification.core.estimators.familiarity_kernel import (  # noqa: PLC0415
            fill_scores,
        )

        scores = np.empty(q)
        noise = observed.error**2 + NOISE**2
        fill_scores(self.columns, self.covariance, observed.at, observed.z, noise, scores)
        return scores


@dataclass(frozen=True, slots=True)
class Widening:
    """Factors of the width of intervals by score.

    Attributes
    ----------
    ends : (B,) ascending scores at which bins end; the last bin has no end
    factors : (B + 1,) of the width in each bin, >= 1, ascending
    limit : rows with a higher score are unfamiliar
    """

    ends: tuple[float, ...] = ()
    factors: tuple[float, ...] = (1.0,)
    limit: float = float("inf")

    def of(self, scores: Floats) -> Floats:
        """(q,) factors."""
        return np.array(self.factors)[np.searchsorted(self.ends, scores)]


NONE: Final = Widening()


class HeldOutErrors(NamedTuple):
    """S held-out rows, or strange versions of them.

    Attributes
    ----------
    score : (S,)
    offset : (S, m) distance of the truth from the prediction, in deviations
    cells : (S, m) hidden cells
    """

    score: Floats
    offset: Floats
    cells: Bools


def strange_rows(z: Floats, mean: Floats, rng: np.random.Generator, columns: Ints) -> Floats:
    """(S, m) versions of (S, m) rows that a library with this (m,) mean has not seen.

    By turns, rows with `SCALED` times the deviation from the mean, which stand for applications
    that are more sensitive to known factors; rows whose deviations are shuffled among the columns,
    which stand for applications that depend on other factors; and rows with both.

    Parameters
    ----------
    columns : (m,) all columns, in an order independent of the caller's
    """
    rest = z - mean
    order = np.argsort(rng.random(rest.shape), axis=1)
    shuffled = np.empty_like(rest)
    shuffled[:, columns] = np.take_along_axis(rest[:, columns], order, axis=1)
    kind = (np.arange(len(z)) % 3)[:, None]
    return mean + np.where(kind == 1, 1.0, SCALED) * np.where(kind == 0, rest, shuffled)


def calibrate(
    usual: HeldOutErrors, strange: HeldOutErrors, share: Floats, groups: int
) -> Widening:
    """Return the factors for rows of new applications.

    Parameters
    ----------
    share : (S,) weight of each held-out row, sum 1; its strange version has the same
    groups : number of applications
    """
    if groups < MIN_APPLICATIONS or len(share) < MIN_DRAWS or not usual.score.any():
        return NONE
    # + 1 / groups: the quantile is itself an estimate
    limit = quantile(usual.score, share, min(1.0, (1.0 - FALSE_FLAGS) * (1.0 + 1.0 / groups)))
    is_unfamiliar = strange.score > limit
    ends = [quantile(usual.score, share, end) for end in FAMILIAR_BINS] + [limit]
    if is_unfamiliar.any():
        ends.append(quantile(strange.score[is_unfamiliar], share[is_unfamiliar], STRANGE_BINS))
    weight = np.concatenate([(1.0 - STRANGE) * share, STRANGE * share])
    score, offset, cells = (np.concatenate(part) for part in zip(usual, strange, strict=True))
    of_cell = np.broadcast_to((weight / np.maximum(cells.sum(axis=1), 1))[:, None], offset.shape)
    is_usual = cells & (np.arange(len(cells)) < len(share))[:, None]
    plain = max(quantile(offset[is_usual], of_cell[is_usual], 0.9), SMALLEST)
    bins = np.searchsorted(ends, score)
    factors = [1.0]
    for i in range(len(ends) + 1):
        inside = cells & (bins == i)[:, None]
        width = quantile(offset[inside], of_cell[inside], 0.9) if inside.any() else 0.0
        factors.append(max(factors[-1], width / plain))
    return Widening(tuple(ends), tuple(factors[1:]), limit)


def quantile(values: Floats, weight: Floats, share: float) -> float:
    """Return the smallest value up to which the values have this share of the weight."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    at = int(np.searchsorted(reached, share * reached[-1]))
    return float(values[order[min(at, values.size - 1)]])
