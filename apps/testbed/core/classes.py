"""Classes of similar jobs: k-means on the logarithms of their sizes.

Source: Chen et al., "The Case for Evaluating MapReduce Performance Using Workload Suites" (MASCOTS
2011), which finds ten classes in FB-2009 this way; k-means++ seeding by Arthur and Vassilvitskii
(2007). Ours is plain Lloyd on unscaled logarithms, restarted a few times, with the classes
numbered from small to large.
"""

from typing import Final

import numpy as np

from apps.testbed.core.traces import Floats, Ints

RESTARTS: Final = 4
MAX_ROUNDS: Final = 100


def similarity_classes(features: Floats, k: int, rng: np.random.Generator) -> Ints:
    """Find the class of each row, numbered by increasing sum of the class's mean features.

    Parameters
    ----------
    features : (n, d) finite, e.g. log10 of sizes; not modified
    k : most classes wanted, >= 1; fewer come back when there are fewer different rows

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
    """(n, k) squared distances, by the expanded square: (n, k, d) would be large."""
    cross = features @ centres.T
    squares = (features**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1)[None, :]
    return np.maximum(squares - 2.0 * cross, 0.0)


def _seed_centres(features: Floats, k: int, rng: np.random.Generator) -> Floats:
    """(k, d) first centres: each new one drawn with probability by its squared distance."""
    centres = features[rng.integers(len(features))][None, :]
    while len(centres) < k:
        near = _distances(features, centres).min(axis=1)
        total = near.sum()
        # All rows on a centre by rounding only: any row does.
        chance = near / total if total > 0 else None
        centres = np.vstack([centres, features[rng.choice(len(features), p=chance)]])
    return centres


def _lloyd(features: Floats, centres: Floats) -> tuple[Floats, Ints]:
    classes = _distances(features, centres).argmin(axis=1)
    for _ in range(MAX_ROUNDS):
        centres = _means(features, classes, centres)
        moved = _distances(features, centres).argmin(axis=1)
        if np.array_equal(moved, classes):
            break
        classes = moved
    return centres, classes


def _means(features: Floats, classes: Ints, centres: Floats) -> Floats:
    """(k, d) means of each class; an empty class keeps its centre."""
    count = np.bincount(classes, minlength=len(centres))
    sums = np.zeros_like(centres)
    np.add.at(sums, classes, features)
    return np.where(count[:, None] > 0, sums / np.maximum(count, 1)[:, None], centres)


def _spread(features: Floats, centres: Floats, classes: Ints) -> float:
    return float(((features - centres[classes]) ** 2).sum())
