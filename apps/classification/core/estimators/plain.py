"""The plain baselines: column means, and nearest rows."""

from dataclasses import dataclass

import numpy as np

from apps.classification.core.estimators.protocol import (
    Learner,
    Predictor,
    Rows,
    Spread,
    known_columns,
)
from apps.inventory.core.snapshot import Bools, Floats

FLOOR = 0.02  # of a deviation: neighbours that agree to the digit still differ from a new row


@dataclass(frozen=True, slots=True, eq=False)
class _ColumnMean:
    mean: Floats
    deviation: Floats

    def predict(self, z: Floats, known: Bools, error: Floats) -> Spread:
        shift = _level(z - self.mean, known)
        return Spread(self.mean + shift, np.broadcast_to(self.deviation, z.shape))


def column_mean(rows: Rows, rng: np.random.Generator) -> Predictor:
    """Column means, moved by the mean distance of the known cells from theirs.

    On the log scale the move is a factor. It knows that some columns are high and some rows are
    high, and nothing else.
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

    def predict(self, z: Floats, known: Bools, error: Floats) -> Spread:
        at = known_columns(known)
        if at.shape[1] == 0:
            mean, deviation = self.z.mean(axis=0), self.z.std(axis=0) + FLOOR
            return Spread(np.tile(mean, (len(z), 1)), np.tile(deviation, (len(z), 1)))
        seen = np.take_along_axis(z, at, axis=1)
        away = seen[:, None, :] - self.z[:, at].transpose(1, 0, 2)
        shift = away.mean(axis=2) if self.moved else np.zeros(away.shape[:2])
        distance = ((away - shift[:, :, None]) ** 2).mean(axis=2)
        nearest = np.argsort(distance, axis=1, kind="stable")[:, : self.count]
        moved = self.z[nearest] + np.take_along_axis(shift, nearest, axis=1)[:, :, None]
        return Spread(moved.mean(axis=1), moved.std(axis=1) + FLOOR)


def nearest_rows(count: int, *, moved: bool = True) -> Learner:
    """Mean of the ``count`` rows nearest at the known cells; each first moved to them if so."""

    def learn(rows: Rows, rng: np.random.Generator) -> Predictor:
        return _Nearest(rows.z, count, moved)

    return learn


def _level(offsets: Floats, known: Bools) -> Floats:
    """(q, 1) mean offset of the known cells, 0 when none is known."""
    count = known.sum(axis=1, keepdims=True)
    total = np.where(known, offsets, 0.0).sum(axis=1, keepdims=True)
    return total / np.maximum(count, 1)
