"""Predicted slowdown of an application next to another one, from what both tolerate and cause.

N = 10 sources of interference. The model is that of the policy `expected`
(`scheduling.core.loss`), and its pressure is Tarcil's Eq. 3: the units of the neighbour,
over all units of the server but one. Only the neighbour presses; units of the application itself
are no interference.
"""

from typing import Final

import numpy as np

from apps.classification.core.estimates import HALF_WIDTH_90, Estimate, Estimates
from apps.classification.core.scores import Scores
from apps.inventory.core.snapshot import Floats
from apps.scheduling.core.loss import log_performance

FULL: Final = 100.0
DRAWS: Final = 4_000
TAILS: Final = (0.05, 0.95)


def predicted_slowdown(
    own: Scores,
    neighbour: Scores,
    *,
    units: int,
    server_units: int,
    rng: np.random.Generator,
) -> Estimate:
    """Return the time next to the neighbour over the time alone, with its 90 % interval.

    The interval has the errors of all scores, drawn independently; not that of the model's form.

    Parameters
    ----------
    units : of the neighbour
    server_units : of the server, more than `units`
    rng : of the draws

    Raises
    ------
    ValueError : the server has no unit for the application.
    """
    if not 1 <= units < server_units:
        raise ValueError(f"units must lie between 1 and {server_units - 1}, got {units}")
    share = units / (server_units - 1)
    value = _slowdown(own.tolerated.value, neighbour.caused.value * share)
    draws = _slowdown(
        _drawn(own.tolerated, rng), _drawn(neighbour.caused, rng) * share
    )  # fmt: skip
    low, high = np.quantile(draws, TAILS)
    return Estimate(float(value), float(min(low, value)), float(max(high, value)))


def _slowdown(tolerated: Floats, pressure: Floats) -> Floats:
    """(...) slowdown for (..., N) scores."""
    logs = log_performance(np.minimum(pressure, FULL), tolerated)
    slowdown: Floats = np.exp(-logs.sum(axis=-1))
    return slowdown


def _drawn(estimates: Estimates, rng: np.random.Generator) -> Floats:
    """(DRAWS, N) scores: normal on each side of the estimate, within 0-100."""
    value, low, high = estimates.ends
    standard = rng.standard_normal((DRAWS, value.size)) / HALF_WIDTH_90
    spread = np.where(standard < 0.0, value - low, high - value)
    return np.clip(value + standard * spread, 0.0, FULL)
