"""Ratios of average errors, with intervals from resampled applications."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Floats
from benchmarks._held_out import Scores

RESAMPLES: Final = 2000


@dataclass(frozen=True, slots=True)
class Ratio:
    """Average error of the default over that of a method: below 1 the default is better."""

    where: str
    method: str
    ratio: float
    low: float
    high: float

    def __str__(self) -> str:
        interval = f"[{self.low:.3f}, {self.high:.3f}]"
        return f"{self.where:<32} default / {self.method:<17} {self.ratio:.3f} {interval}"


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """A ratio and the (R,) logarithms of its resamples."""

    summary: Ratio
    logs: Floats


def ratio(
    where: str,
    name: str,
    parts: Sequence[tuple[Scores, Scores]],
    rng: np.random.Generator,
) -> Sampled:
    """Geometric mean over the parts of a set of ours / theirs, applications resampled in pairs."""
    logs = np.array([_part_logs(ours, theirs, rng) for ours, theirs in parts])
    exact = [np.log(ours.error.mean() / theirs.error.mean()) for ours, theirs in parts]
    resampled = logs.mean(axis=0)
    low, high = np.exp(np.quantile(resampled, [0.05, 0.95]))
    middle = float(np.exp(np.mean(exact)))
    return Sampled(Ratio(where, name, middle, float(low), float(high)), resampled)


def overall(where: str, name: str, sets: Sequence[Sampled]) -> Ratio:
    """Geometric mean over sets."""
    logs = np.array([summary.logs for summary in sets]).mean(axis=0)
    low, high = np.exp(np.quantile(logs, [0.05, 0.95]))
    middle = float(np.exp(np.mean([np.log(summary.summary.ratio) for summary in sets])))
    return Ratio(where, name, middle, float(low), float(high))


def against_best(k: int, by_method: Mapping[str, Sequence[Sampled]]) -> list[Ratio]:
    """Compare with the best single method: over all sets, and with that of each set by itself.

    The second is an unreachable bound: the best method is not known in advance.
    """
    means = {name: overall("", name, sets).ratio for name, sets in by_method.items()}
    first = max(means, key=lambda name: means[name])
    where = f"all real sets, {k} entries"
    sets = list(zip(*by_method.values(), strict=True))
    best = [max(alternatives, key=lambda sampled: sampled.summary.ratio) for alternatives in sets]
    return [
        overall(where, f"best single: {first}", by_method[first]),
        overall(where, "best of each set", best),
    ]


def _part_logs(ours: Scores, theirs: Scores, rng: np.random.Generator) -> Floats:
    _, index = np.unique(ours.application, return_inverse=True)
    count = int(index.max()) + 1
    mine = np.bincount(index, ours.error, count)
    other = np.bincount(index, theirs.error, count)
    drawn = rng.integers(count, size=(RESAMPLES, count))
    return np.log(mine[drawn].sum(axis=1) / other[drawn].sum(axis=1))
