"""Types and numbers of accelerators with the largest goodput (Sia, SOSP 2023).

Source: Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster
scheduling", §3. A configuration j is a type and a number of accelerators, A_ij whether job i
gets it, and G_ij its goodput, throughput times statistical efficiency, divided by the lowest of
the job and multiplied by the smallest number that it runs on. Then

    G_ij <- r_i G_ij  unless j is the job's configuration of the last round
    r_i = (T_i - N_i S) / (T_i + S)    age T_i, N_i restarts, S seconds per restart

    p > 0:  maximise  sum_ij A_ij G_ij^p - lambda sum_i (1 - sum_j A_ij)
    p < 0:  minimise  sum_ij A_ij G_ij^p + lambda sum_i (1 - sum_j A_ij)

with at most one configuration per job and no more accelerators of a type than there are. A job
younger than S, or one that did not run in the last round, has r_i = 1. Ours: the efficiency is 1,
since the measurements hold the throughput only; and the program is solved to optimality.
"""

from typing import Final

import numpy as np

from apps.placement.core.solver.program import MixedIntegerProgram
from apps.testbed.core.accelerators.jobs import NONE, AcceleratorError, Assignment, RoundState
from apps.testbed.core.traces import Floats, Ints

POWER: Final = -0.5
WAITING: Final = 1.1  # lambda, the price of a job without accelerators
LIMIT_S: Final = 120.0
GAP: Final = 1e-4  # relative; a result that was not proven to this is an error


def goodputs(state: RoundState, *, is_adaptive: bool) -> Floats:
    """Return (a, J, K) goodput of each configuration relative to the job's lowest; 0 = impossible.

    Parameters
    ----------
    is_adaptive : any measured number of accelerators, instead of the requested one
    """
    possible = (state.speed > 0.0) & (state.counts <= state.available[:, None])
    if not is_adaptive:
        possible &= (state.counts == state.count[:, None])[:, None, :]
    lowest = np.where(possible, state.speed, np.inf).min(axis=(1, 2), keepdims=True)
    smallest = np.where(possible, state.counts, np.inf).min(axis=(1, 2), keepdims=True)
    return (
        np.where(possible, state.speed / lowest, 0.0)
        * _kept(state)
        * np.where(np.isfinite(smallest), smallest, 0.0)
    )


def restart_factor(age_s: Floats, restarts: Ints, restart_s: float) -> Floats:
    """Return (a,) r_i: the part of its goodput that a job keeps through a restart."""
    kept = np.maximum(age_s - restarts * restart_s, 0.0) / np.maximum(age_s + restart_s, 1e-9)
    result: Floats = np.where(age_s < restart_s, 1.0, kept)
    return result


def _kept(state: RoundState) -> Floats:
    """Return (a, J, K) r_i where a job would restart, else 1."""
    factor = restart_factor(state.age_s, state.restarts, state.restart_s)
    is_same = (np.arange(state.available.size) == state.on_type[:, None])[:, :, None] & (
        state.counts == state.on_count[:, None]
    )[:, None, :]
    is_free = is_same | (state.on_type == NONE)[:, None, None]
    result: Floats = np.where(is_free, 1.0, factor[:, None, None])
    return result


def gains(goodput: Floats, power: float, waiting: float) -> Floats:
    """Return (a, J, K) gains of the objective by configuration; -inf = impossible."""
    is_possible = goodput > 0.0
    worth = np.where(is_possible, goodput, 1.0) ** power
    result: Floats = np.where(is_possible, waiting + np.copysign(worth, power), -np.inf)
    return result


def best_assignment(gain: Floats, counts: Ints, available: Ints) -> Assignment:
    """Return the assignment with the largest sum of gains, by an integer program.

    Raises
    ------
    AcceleratorError : it was not solved to optimality within two minutes.
    """
    jobs = gain.shape[0]
    types, numbers = np.full(jobs, NONE), np.zeros(jobs, dtype=np.int64)
    job, on, option = np.nonzero(gain > 0.0)
    if job.size:
        taken = _solved(gain[job, on, option], job, on, counts[option], available)
        types[job[taken]], numbers[job[taken]] = on[taken], counts[option][taken]
    return Assignment(types, numbers)


def _solved(gain: Floats, job: Ints, on: Ints, number: Ints, available: Ints) -> Ints:
    """Return the places of the configurations that are taken."""
    program = MixedIntegerProgram()
    column = program.columns(-gain, 1.0, is_whole=True)
    for each in np.unique(job):
        program.row(0.0, 1.0, (column[job == each], 1.0))
    for each in np.unique(on):
        mine = on == each
        program.row(0.0, float(available[each]), (column[mine], number[mine].astype(np.float64)))
    found = program.solve(limit_s=LIMIT_S)
    taken = np.flatnonzero(found.values > 0.5) if found.values is not None else column[:0]
    reached = float(gain[taken].sum())
    if reached < -found.bound - GAP * abs(found.bound):
        raise AcceleratorError(f"goodput {reached:g} of at most {-found.bound:g} was found")
    return taken
