"""Baselines (column means, nearest rows), and estimators with a single learner."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.classification.core.estimators.protocol import (
    Learner,
    Observed,
    Panel,
    Predictor,
    Rows,
    Spread,
    blended,
)
from apps.inventory.core.snapshot import Floats

FLOOR: Final = 0.02  # of a deviation: equal neighbours still differ from the new row


@dataclass(frozen=True, slots=True)
class Single:
    """The members of an estimator with one learner."""

    learner: Learner
    count: int = 1

    def learn(self, rows: Rows, rng: np.random.Generator, which: tuple[int, ...]) -> Panel:
        """Train the learner."""
        return _Alone(self.learner(rows, rng))


@dataclass(frozen=True, slots=True, eq=False)
class _Alone:
    predictor: Predictor

    def each(self, observed: Observed) -> Spread:
        mean, deviation = self.predictor.predict(observed)
        return Spread(mean[None], deviation[None])

    def blend(self, observed: Observed, share: Floats) -> Spread:
        return blended(self.each(observed), share)


@dataclass(frozen=True, slots=True, eq=False)
class _ColumnMean:
    mean: Floats
    deviation: Floats

    def predict(self, observed: Observed) -> Spread:
        away = observed.z - self.mean[observed.at]
        mean = self.mean + _level(away)
        return Spread(mean, np.broadcast_to(self.deviation, mean.shape))


def column_mean(rows: Rows, rng: np.random.Generator) -> Predictor:
    """Column means plus the mean offset of the known cells.

    On the log scale the shift is a factor. The model has only row and column effects.
    """
    mean = rows.z.mean(axis=0)
    rest = rows.z - mean
    rest = rest - rest.mean(axis=1, keepdims=True)
    return _ColumnMean(mean, np.sqrt((rest**2).mean(axis=0)) + FLOOR)


@dataclass(frozen=True, slots=True, eq=False)
class _Nearest:
    z: Floats
    count: int
    moved: bool

    def predict(self, observed: Observed) -> Spread:
        if observed.at.shape[1] == 0:
            mean, deviation = self.z.mean(axis=0), self.z.std(axis=0) + FLOOR
            rows = (len(observed.at), 1)
            return Spread(np.tile(mean, rows), np.tile(deviation, rows))
        away = observed.z[:, None, :] - self.z[:, observed.at].transpose(1, 0, 2)
        shift = away.mean(axis=2) if self.moved else np.zeros(away.shape[:2])
        distance = ((away - shift[:, :, None]) ** 2).mean(axis=2)
        nearest = np.argsort(distance, axis=1, kind="stable")[:, : self.count]
        moved = self.z[nearest] + np.take_along_axis(shift, nearest, axis=1)[:, :, None]
        return Spread(moved.mean(axis=1), moved.std(axis=1) + FLOOR)


def nearest_rows(count: int, *, moved: bool = True) -> Learner:
    """Mean of the ``count`` nearest rows; if ``moved``, each is shifted to the known cells."""

    def learn(rows: Rows, rng: np.random.Generator) -> Predictor:
        return _Nearest(rows.z, count, moved)

    return learn


def _level(away: Floats) -> Floats:
    """(q, 1) mean offset of the known cells, 0 if none is known."""
    return away.sum(axis=1, keepdims=True) / max(away.shape[1], 1)
