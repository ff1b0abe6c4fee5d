"""Heterogeneity-aware max-min fair time shares (Gavel, Narayanan et al., OSDI 2020).

A share X_mj is the part of its time that job m spends on accelerators of type j. With throughputs
T_mj, numbers of accelerators z_m, weights w_m and G_j accelerators of type j (§3.1, §4.1):

    maximise  min_m  z_m / w_m * sum_j T_mj X_mj / sum_j T_mj G_j / G
    where     sum_j X_mj <= 1,  sum_m z_m X_mj <= G_j,  X_mj >= 0

The quotient is the speed of a job relative to an equal division of its time over the cluster. The
first program says nothing about jobs that could be faster still. They are raised in turn, the
jobs that cannot be raised stay fixed (water filling, §4.3): no job can gain without a loss of one
that has as little or less. Ours: a job is fixed when its constraint has a positive dual value,
where Gavel solves another mixed-integer program to find the bottlenecks.
"""

from typing import Any, Final

import numpy as np
from scipy import optimize, sparse

from apps.testbed.core.accelerators.jobs import AcceleratorError, equal_share_speed
from apps.testbed.core.traces import Bools, Floats, Ints

DUAL: Final = 1e-6  # less is rounding; the duals of a program sum to 1
SLACK: Final = 1e-7  # relative; what the solver accepts as feasible


def max_min_shares(
    speed: Floats, count: Ints, available: Ints, weight: Floats | None = None
) -> Floats:
    """Return the (n, J) max-min fair shares of the time. At most n linear programs of n·J columns.

    Parameters
    ----------
    speed : (n, J) with the requested number of accelerators; 0 = cannot run; each job runs
        on some type
    count : (n,) accelerators of each job
    available : (J,)
    weight : (n,) > 0; equal without
    """
    jobs, types = speed.shape
    if jobs == 0:
        return np.zeros((0, types))
    worth = relative_speed(speed, count, available, weight)
    ceiling = worth.max(axis=1)
    level, is_open = np.zeros(jobs), np.ones(jobs, dtype=np.bool_)
    shares = np.zeros((jobs, types))
    while is_open.any():
        shares, lowest, dual = _raise(worth, count, available, level, is_open)
        is_fixed = is_open & ((dual > DUAL) | (ceiling <= lowest * (1.0 + SLACK)))
        level[is_fixed] = lowest
        is_open &= ~is_fixed
    return shares


def relative_speed(
    speed: Floats, count: Ints, available: Ints, weight: Floats | None = None
) -> Floats:
    """(n, J) z_m T_mj / (w_m T_m(X_equal)): what a job gets from a full share of each type."""
    scale = count / equal_share_speed(speed, available)
    return speed * (scale if weight is None else scale / weight)[:, None]


def equal_parts(count: Ints, total: int) -> Floats:
    """(n,) part of its time that each job runs if all get as many accelerator-seconds.

    The part is min(1, c / z_m), with the largest c for which ``total`` accelerators suffice.
    """
    if count.size == 0:
        return np.zeros(0)
    result: Floats = np.minimum(1.0, _level(count, float(total)) / count)
    return result


def _level(count: Ints, total: float) -> float:
    """Return the largest c with sum_m min(z_m, c) <= total, at most the largest z_m."""
    left, ordered = total, np.sort(count)
    for place, number in enumerate(ordered.tolist()):
        if number * (ordered.size - place) > left:
            return left / (ordered.size - place)
        left -= number
    return float(ordered[-1])


def _raise(
    worth: Floats, count: Ints, available: Ints, level: Floats, is_open: Bools
) -> tuple[Floats, float, Floats]:
    """Raise the lowest relative speed of the open jobs; the others keep their level.

    Returns
    -------
    (n, J) shares, the lowest relative speed, and (n,) dual values of the jobs
    """
    jobs, types = worth.shape
    cells = jobs * types
    job = np.repeat(np.arange(jobs), types)
    cell = np.arange(cells)
    own = sparse.csr_array((np.ones(cells), (job, cell)), shape=(jobs, cells + 1))
    used = sparse.csr_array(
        (count[job].astype(np.float64), (cell % types, cell)), shape=(types, cells + 1)
    )
    speed = sparse.csr_array(
        (
            np.concatenate([-worth.ravel(), is_open.astype(np.float64)]),
            (np.concatenate([job, np.arange(jobs)]), np.append(cell, np.full(jobs, cells))),
        ),
        shape=(jobs, cells + 1),
    )
    high = np.append(np.where(worth.ravel() > 0.0, 1.0, 0.0), np.inf)
    found: Any = optimize.linprog(
        np.append(np.zeros(cells), -1.0),
        A_ub=sparse.vstack([speed, own, used]),
        b_ub=np.concatenate([-level * (1.0 - SLACK), np.ones(jobs), available]),
        bounds=np.stack([np.zeros(cells + 1), high], axis=1),
        method="highs",
    )
    if not found.success:
        raise AcceleratorError(f"max-min shares of {jobs} jobs: {found.message}")
    shares = np.clip(found.x[:cells], 0.0, 1.0).reshape(jobs, types)
    return _feasible(shares, count, available), float(found.x[-1]), -found.ineqlin.marginals[:jobs]


def _feasible(shares: Floats, count: Ints, available: Ints) -> Floats:
    """Remove what the solver's tolerance allows beyond the limits."""
    shares = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1.0)
    used = count @ shares
    return shares / np.maximum(used / available, 1.0)
