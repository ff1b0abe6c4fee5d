"""Fit the generator's mixture to a SWIM trace, and compare two traces."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from apps.testbed.core.arrivals import HOUR_S, MINUTES
from apps.testbed.core.classes import similarity_classes
from apps.testbed.core.traces import Floats, SwimTrace

SMALLEST_COMPONENT: Final = 20  # jobs; fewer do not give a reliable covariance
BLOCK_BYTES: Final = 128 * 2**20


@dataclass(frozen=True, slots=True)
class SizeComponent:
    """Log-normal distribution of the sizes of one class of jobs.

    Attributes
    ----------
    weight : share of all jobs, 0-1
    mean : (3,) of log10(1 + bytes) of input, shuffle and output
    cov : (3, 3) covariance; zero rows for constant sizes (map-only: shuffle 0)
    """

    weight: float
    mean: tuple[float, ...]
    cov: tuple[tuple[float, ...], ...]


def size_logs(trace: SwimTrace) -> Floats:
    """(n, 3) log10(1 + bytes) of input, shuffle and output."""
    sizes = np.stack([trace.input_bytes, trace.shuffle_bytes, trace.output_bytes], axis=1)
    return np.log10(1.0 + sizes)


def fit_mixture(trace: SwimTrace, k: int, rng: np.random.Generator) -> tuple[SizeComponent, ...]:
    """Fit by moments: k-means classes, each split into jobs with and without shuffle."""
    logs = size_logs(trace)
    has_shuffle = (logs[:, 1] > 0).astype(np.int64)
    group = 2 * similarity_classes(logs, k, rng) + has_shuffle
    for small in np.flatnonzero(np.bincount(group) < SMALLEST_COMPONENT):
        group[group == small] = small ^ 1  # too small: merge with the other half
    return tuple(_moments(logs[group == g], len(logs)) for g in np.unique(group))


def _moments(logs: Floats, total: int) -> SizeComponent:
    cov = np.cov(logs.T, bias=True) if len(logs) > 1 else np.zeros((3, 3))
    return SizeComponent(
        weight=round(len(logs) / total, 6),
        mean=tuple(round(float(value), 4) for value in logs.mean(axis=0)),
        cov=tuple(tuple(round(float(value), 5) for value in row) for row in cov),
    )


def hourly_counts(submit_s: Floats, hours: int = 24) -> NDArray[np.int64]:
    """(hours,) jobs submitted in each hour; the last hour includes all later jobs."""
    hour = np.minimum(submit_s // HOUR_S, hours - 1).astype(np.int64)
    return np.bincount(hour, minlength=hours).astype(np.int64)


def burst_shape(submit_s: Floats, hours: int = 24) -> float:
    """Estimate the Gamma shape of the counts per minute; infinity if they are Poisson.

    Method of moments within each hour: variance = m + m²/shape, hours weighted by m².
    """
    minutes = np.floor(submit_s[submit_s < hours * HOUR_S] / 60.0).astype(np.int64)
    count = np.bincount(minutes, minlength=hours * MINUTES).reshape(hours, MINUTES)
    mean = count.mean(axis=1)
    excess = float((count.var(axis=1, ddof=1) - mean).sum())
    return float((mean**2).sum() / excess) if excess > 0 else float("inf")


def ks_distance(first: Floats, second: Floats) -> float:
    """Largest distance between two empirical distribution functions (Kolmogorov-Smirnov)."""
    grid = np.sort(np.concatenate([first, second]))
    left = np.searchsorted(np.sort(first), grid, side="right") / first.size
    right = np.searchsorted(np.sort(second), grid, side="right") / second.size
    return float(np.abs(left - right).max())


@dataclass(frozen=True, slots=True)
class TraceFigure:
    """One statistic of two traces."""

    figure: str
    first: float
    second: float


def compare_traces(
    first: SwimTrace, second: SwimTrace
) -> tuple[list[TraceFigure], dict[str, float]]:
    """Statistics of both traces, and the KS distance of each marginal."""
    names = ("input_bytes", "shuffle_bytes", "output_bytes")
    rows = [TraceFigure("jobs", len(first), len(second))]
    for name in names:
        pair = getattr(first, name), getattr(second, name)
        rows.append(TraceFigure(f"{name}: total, TB", *(float(x.sum()) / 1e12 for x in pair)))
        rows += [
            TraceFigure(f"{name}: p{q}", *(float(np.percentile(x, q)) for x in pair))
            for q in (50, 90, 99)
        ]
    rows.append(TraceFigure("share without shuffle", *(_map_only(t) for t in (first, second))))
    rows.append(TraceFigure("128 MiB blocks", *(_blocks(t) for t in (first, second))))
    rows.append(TraceFigure("burst shape", *(burst_shape(t.submit_s) for t in (first, second))))
    distance = {n: ks_distance(getattr(first, n), getattr(second, n)) for n in names}
    distance["all bytes"] = ks_distance(_total(first), _total(second))
    distance["submit time"] = ks_distance(first.submit_s, second.submit_s)
    return rows, distance


def _total(trace: SwimTrace) -> Floats:
    return trace.input_bytes + trace.shuffle_bytes + trace.output_bytes


def _map_only(trace: SwimTrace) -> float:
    return float((trace.shuffle_bytes == 0).mean())


def _blocks(trace: SwimTrace) -> float:
    return float(np.ceil(_total(trace) / BLOCK_BYTES).sum())
