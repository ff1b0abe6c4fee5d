"""Classes of similar jobs: k-means on the logarithms of their sizes.

Source: Chen et al., "The Case for Evaluating MapReduce Performance Using Workload Suites" (MASCOTS
2011), ten classes in FB-2009; k-means++ seeding by Arthur and Vassilvitskii (2007). Ours is
Lloyd's algorithm on unscaled logarithms with restarts; classes are numbered by size.
"""

from typing import Final

import numpy as np

from apps.testbed.core.traces import Floats, Ints

RESTARTS: Final = 4
MAX_ROUNDS: Final = 100


def similarity_classes(features: Floats, k: int, rng: np.random.Generator) -> Ints:
    """Cluster the rows; classes are numbered by increasing sum of their mean features.

    Parameters
    ----------
    features : (n, d) finite, e.g. log10 of sizes; not modified
    k : maximum number of classes, >= 1; limited by the number of distinct rows

    Returns
    -------
    (n,) class numbers 0..k'-1, k' <= k, none empty

    Cost O(restarts · rounds · n · k · d).
    """
    if features.ndim != 2 or not features.size:
        raise ValueError(f"features must be (n, d) with n, d >= 1, not {features.shape}")
    if not np.isfinite(features).all():
        raise ValueError("features must be finite")
    k = min(k, len(np.unique(features, axis=0)))
    runs = [_lloyd(features, _seed_centres(features, k, rng)) for _ in range(RESTARTS)]
    centres, classes = min(runs, key=lambda run: _spread(features, *run))
    used, compact = np.unique(classes, return_inverse=True)
    rank = np.argsort(np.argsort(centres[used].sum(axis=1), kind="stable"), kind="stable")
    return rank[compact].astype(np.int64)


def _distances(features: Floats, centres: Floats) -> Floats:
    """(n, k) squared distances, by the expanded square, which avoids an (n, k, d) array."""
    cross = features @ centres.T
    squares = (features**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1)[None, :]
    return np.maximum(squares - 2.0 * cross, 0.0)


def _seed_centres(features: Floats, k: int, rng: np.random.Generator) -> Floats:
    """(k, d) initial centres, each drawn with probability proportional to squared distance."""
    centres = features[rng.integers(len(features))][None, :]
    while len(centres) < k:
        near = _distances(features, centres).min(axis=1)
        total = near.sum()
        # All rows lie on a centre up to rounding: draw uniformly.
        chance = near / total if total > 0 else None
        centres = np.vstack([centres, features[rng.choice(len(features), p=chance)]])
    return centres


def _lloyd(features: Floats, centres: Floats) -> tuple[Floats, Ints]:
    classes = _distances(features, centres).argmin(axis=1)
    for _ in range(MAX_ROUNDS):
        centres = _means(features, classes, centres)
        reassigned = _distances(features, centres).argmin(axis=1)
        if np.array_equal(reassigned, classes):
            break
        classes = reassigned
    return centres, classes


def _means(features: Floats, classes: Ints, centres: Floats) -> Floats:
    """(k, d) means of each class; an empty class keeps its centre."""
    count = np.bincount(classes, minlength=len(centres))
    sums = np.zeros_like(centres)
    np.add.at(sums, classes, features)
    return np.where(count[:, None] > 0, sums / np.maximum(count, 1)[:, None], centres)


def _spread(features: Floats, centres: Floats, classes: Ints) -> float:
    return float(((features - centres[classes]) ** 2).sum())
