"""Predicted loss of performance by interference, from what a job tolerates.

The tolerated pressure is the one that costs exactly 5 % of the speed (Paragon §2.3, P3). The shape
on both sides of it is assumed, as no profile measures it: the fourth power below, a decay above.
"""

import math
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Singles

KEPT: Final = 0.95  # share of the speed at the tolerated pressure
LOG_KEPT: Final = math.log(KEPT)
DECAY: Final = 30.0  # points of pressure beyond it that reduce the performance by e
NEIGHBOUR: Final = 50.0  # points that a further neighbour is assumed to cause
IDLE: Final = 100.0  # tolerance of a server without jobs
UNKNOWN: Final = np.inf  # tolerated pressure of a job without a profile: it loses nothing


def log_performance(pressure: Floats, tolerated: Floats) -> Floats:
    """Return the (...) logarithm of the performance that each source leaves alone."""
    share = np.minimum(pressure / np.maximum(tolerated, 1e-9), 1.0)
    squared = share * share
    beyond = np.maximum(pressure - tolerated, 0.0)
    loss: Floats = LOG_KEPT * (squared * squared) - beyond / DECAY
    return loss


def exposure(caused: Singles, tolerated: Singles, busy: Bools, units: int) -> Floats:
    """(N,) log performance that the jobs of a server lose per point of pressure, at most 0.

    The mean slope over the pressure of one further neighbour, summed over the busy units, so that
    a unit just below its tolerated pressure counts as exposed.

    Parameters
    ----------
    caused, tolerated : (M, N) of the jobs on its units, 0-100; `UNKNOWN` counts as not exposed
    busy : (M,)
    units : M
    """
    if units < 2:
        return np.zeros(caused.shape[1])  # no neighbours
    own, limit = caused[busy].astype(np.float64), tolerated[busy].astype(np.float64)
    now = np.clip((own.sum(axis=0) - own) / (units - 1), 0.0, 100.0)
    total: Floats = slope(now, limit, units).sum(axis=0)
    return total


def tolerance(caused: Singles, tolerated: Singles, busy: Bools, units: int) -> Floats:
    """(N,) further pressure that every job of a server tolerates, at most `IDLE`.

    The minimum of tolerated - pressure over the busy units; negative if one is exceeded already.
    Source: t_server of Paragon §3.2 (P5), which takes the minimum of what the jobs tolerate. A
    server has many units here, so the pressure that they receive already is subtracted.

    Parameters
    ----------
    caused, tolerated : (M, N) of the jobs on its units, 0-100; `UNKNOWN` does not count
    busy : (M,)
    units : M
    """
    if not busy.any():
        return np.full(caused.shape[1], IDLE)
    own, limit = caused[busy].astype(np.float64), tolerated[busy].astype(np.float64)
    now = (own.sum(axis=0) - own) / max(units - 1, 1)
    least: Floats = np.minimum((limit - now).min(axis=0), IDLE)
    return least


def slope(pressure: Floats, tolerated: Floats, units: int) -> Floats:
    """Return the (..., N) mean slope from a pressure on, over one neighbour; 0 if M = 1."""
    if units < 2:
        return np.zeros_like(pressure)
    step = NEIGHBOUR / (units - 1)
    ahead = log_performance(pressure + step, tolerated)
    return (ahead - log_performance(pressure, tolerated)) / step
