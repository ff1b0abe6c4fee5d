"""Peers from scikit-learn, which only this comparison needs."""

from collections.abc import Callable
from typing import Final

import numpy as np
from sklearn.impute import KNNImputer

from apps.classification.core.estimates import Estimates
from apps.classification.core.estimators.protocol import backward, forward
from apps.inventory.core.snapshot import Floats
from benchmarks._held_out import Case, Method

NEIGHBOURS: Final = 5


def peers() -> dict[str, Method]:
    """KNNImputer on logarithms as they are, and with every row moved to the column means.

    It has no intervals: they are empty, and cover nothing.
    """
    return {"sklearn_knn_plain": _imputer(_in_place), "sklearn_knn": _imputer(_moved)}


def _imputer(prepare: Callable[[Floats, Floats], tuple[Floats, Floats, Floats]]) -> Method:
    def answer(case: Case) -> Estimates:
        z = forward(case.library, case.scale)
        safe = np.where(case.known, case.observed, 1.0)
        rows = np.where(case.known, forward(safe, case.scale), np.nan)
        library, queries, offset = prepare(z, rows)
        imputer = KNNImputer(n_neighbors=NEIGHBOURS, keep_empty_features=True).fit(library)
        value = backward(imputer.transform(queries) + offset, case.scale)
        return Estimates(value, value, value, case.known)

    return answer


def _in_place(library: Floats, rows: Floats) -> tuple[Floats, Floats, Floats]:
    return library, rows, np.zeros((1, library.shape[1]))


def _moved(library: Floats, rows: Floats) -> tuple[Floats, Floats, Floats]:
    mean = np.nanmean(library, axis=0)
    level = np.nanmean(library - mean, axis=1, keepdims=True)
    shift = np.nanmean(rows - mean, axis=1, keepdims=True)
    return library - mean - level, rows - mean - shift, mean + shift
