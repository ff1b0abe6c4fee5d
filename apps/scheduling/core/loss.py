"""Predicted loss of performance by interference, from what a job tolerates.

The tolerated pressure is the one that costs exactly 5 % of the speed (Paragon §2.3, P3). The shape
on both sides of it is assumed, as no profile measures it: the fourth power below, a decay above.
"""

import math
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Shorts, Singles

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


def exposure(caused: Singles, tolerated: Singles, units: Shorts) -> Floats:
    """(S, N) log performance that the jobs of servers lose per point of pressure, at most 0.

    The mean slope over the pressure of one further neighbour, summed over the busy units, so that
    a unit just below its tolerated pressure counts as exposed.

    Parameters
    ----------
    caused, tolerated : (S, W, N) of the jobs on the busy units, 0-100; `UNKNOWN`, also at places
        without a job, counts as not exposed
    units : (S,) all units of each server; a server of one has no neighbours
    """
    size = units[:, None, None]
    own, limit = caused.astype(np.float64), tolerated.astype(np.float64)
    others = np.maximum(size - 1, 1)
    now = np.clip((own.sum(axis=1, keepdims=True) - own) / others, 0.0, 100.0)
    total: Floats = np.where(size > 1, _slope(now, limit, NEIGHBOUR / others), 0.0).sum(axis=1)
    return total


def tolerance(caused: Singles, tolerated: Singles, busy: Bools, units: Shorts) -> Floats:
    """(S, N) further pressure that every job of a server tolerates, at most `IDLE`.

    The minimum of tolerated - pressure over the busy units; negative if one is exceeded already.
    Source: t_server of Paragon §3.2 (P5), which takes the minimum of what the jobs tolerate. A
    server has many units here, so the pressure that they receive already is subtracted.

    Parameters
    ----------
    caused, tolerated : (S, W, N) of the jobs on the busy units, 0-100; `UNKNOWN` does not count
    busy : (S, W) places with a job
    units : (S,) all units of each server
    """
    own, limit = caused.astype(np.float64), tolerated.astype(np.float64)
    others = np.maximum(units[:, None, None] - 1, 1)
    now = (own.sum(axis=1, keepdims=True) - own) / others
    left = np.where(busy[..., None], limit - now, IDLE)
    least: Floats = left.min(axis=1, initial=IDLE)
    return least


def slope(pressure: Floats, tolerated: Floats, units: int) -> Floats:
    """Return the (..., N) mean slope from a pressure on, over one neighbour; 0 if M = 1."""
    if units < 2:
        return np.zeros_like(pressure)
    return _slope(pressure, tolerated, NEIGHBOUR / (units - 1))


def _slope(pressure: Floats, tolerated: Floats, step: Floats | float) -> Floats:
    ahead = log_performance(pressure + step, tolerated)
    return (ahead - log_performance(pressure, tolerated)) / step
