"""The figures that a world must share with the measurements, of arrays of `data_sets`."""

import numpy as np

from apps.inventory.core.snapshot import Floats

MIN_VARIATION = 1e-3  # of the durations of tasks; less is rounding
SWEEPS = 50  # alternating projections; converges geometrically


def heterogeneity(values: Floats) -> Floats:
    """Spread of rows x columns, and the share of it in one, two and three components.

    Parameters
    ----------
    values : (n, k, columns) logarithms; rows with nothing measured are ignored
    """
    rows = values.reshape(-1, values.shape[-1])
    rows = rows[~np.isnan(rows).all(axis=1)]
    rest = doubly_centred(rows)
    known = rest[:, ~np.isnan(rest).any(axis=0)]
    square = np.linalg.svd(doubly_centred(known), compute_uv=False) ** 2
    share = np.cumsum(square) / square.sum()
    return np.array([np.nanstd(rest), *share[:3]])


def doubly_centred(values: Floats) -> Floats:
    """(n, m) what remains of a table after its row and column effects; NaN stays NaN."""
    rest = values.copy()
    for _ in range(SWEEPS if np.isnan(values).any() else 1):
        rest -= np.nanmean(rest, axis=1, keepdims=True)
        rest -= np.nanmean(rest, axis=0, keepdims=True)
    return rest


def scale_up(values: Floats) -> Floats:
    """Mean and standard deviation of the log speed-up on 4 and on 8 units; values (n, k, 2)."""
    rows = values.reshape(-1, 2)
    return np.concatenate((np.nanmean(rows, axis=0), np.nanstd(rows, axis=0)))


def scale_out(values: Floats) -> Floats:
    """Mean and standard deviation of the jobs' mean exponents; values (n, k)."""
    exponents = np.nanmean(values, axis=1)
    return np.array([exponents.mean(), exponents.std()])


def slowdown(values: Floats) -> Floats:
    """Mean log of the log slowdown by source, its deviation, and the correlation of sources.

    Parameters
    ----------
    values : (n, 1, 6) log slowdown, > 0
    """
    logs: Floats = np.log(values[:, 0])
    rest = logs - logs.mean(axis=0)
    scaled: Floats = rest / rest.std(axis=0)
    between: Floats = scaled.T @ scaled / len(scaled)
    shared = between[np.triu_indices(len(between), 1)].mean()
    return np.array([*logs.mean(axis=0), rest.std(), shared])


def class_correlation(values: Floats) -> Floats:
    """Pearson correlation of the two classes of a program; values (n, 1, 2)."""
    caused, sensitivity = values[:, 0, 0], values[:, 0, 1]
    return np.array([np.corrcoef(caused, sensitivity)[0, 1]])


def pair_correlation(values: Floats) -> Floats:
    """Correlation of a job's mean loss and the mean loss it causes; mean over the GPUs.

    Parameters
    ----------
    values : (n, n, GPUs) loss of the first next to the second
    """
    known = ~np.isnan(values)
    loss = np.where(known, values, 0.0)
    found = []
    for gpu in range(values.shape[2]):
        pairs = known[:, :, gpu]
        ran = pairs.any(axis=1) & pairs.any(axis=0)
        suffered = loss[ran, :, gpu].sum(axis=1) / pairs[ran].sum(axis=1)
        caused = loss[:, ran, gpu].sum(axis=0) / pairs[:, ran].sum(axis=0)
        if suffered.size and np.ptp(suffered) > 0.0 and np.ptp(caused) > 0.0:
            found.append(float(np.corrcoef(suffered, caused)[0, 1]))
    return np.array([np.mean(found) if found else np.nan])


def noise(values: Floats) -> Floats:
    """Mean and standard deviation of log noise; values (n, 1)."""
    return np.array([values.mean(), values.std()])


def task_durations(values: Floats) -> Floats:
    """Mean and deviation of the log variation in a job, mean log of slow tasks over its median.

    Parameters
    ----------
    values : (jobs, tasks) log duration over the median of the job; padded with NaN
    """
    found = np.empty((len(values), 3))
    for i, row in enumerate(values):
        logs = row[~np.isnan(row)]
        durations = np.exp(logs)
        variation = max(durations.std(ddof=1) / durations.mean(), MIN_VARIATION)
        found[i] = np.log(variation), np.quantile(logs, 0.9), logs.max()
    return np.array([found[:, 0].mean(), found[:, 0].std(), *found[:, 1:].mean(axis=0)])


def service_capacity(values: Floats) -> Floats:
    """Mean log slowdown of the capacity by microbenchmark; values (n, 1, 6)."""
    mean: Floats = values[:, 0].mean(axis=0)
    return mean


def service_latency(values: Floats) -> Floats:
    """Median log ratio of the latency to that alone by microbenchmark; values (n, 1, 4)."""
    middle: Floats = np.median(values[:, 0], axis=0)
    return middle


def server_speed(values: Floats) -> Floats:
    """Median over the tests of the log ratio to the slowest 5 % and 1 %; values (n, 1, 2)."""
    middle: Floats = np.median(values[:, 0], axis=0)
    return middle
