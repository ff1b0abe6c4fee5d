"""Predicted cost of placements in unit-seconds: units times cluster seconds of their run time.

Run times are at the pessimistic end of their 90 % interval, like those that sizing counts on.
"""

from typing import Final, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints

ROUNDING: Final = 1e-9


class Cheapest(NamedTuple):
    """The cheapest option: row and column of its size and platform, and its unit-seconds."""

    row: int
    column: int
    cost: float


def unit_seconds(
    units: Ints | int, rate: Floats, *, input_bytes: float, duration_s: float | None
) -> Floats:
    """Return the cost of each option; infinite if its end is unknown, NaN if impossible.

    Parameters
    ----------
    units : broadcast over ``rate``
    rate : bytes per second of all units together; NaN = impossible
    input_bytes : to process; 0 = the job ends only by its duration
    duration_s : after which it ends in any case; None = never
    """
    run_s: Floats = np.where(np.isnan(rate), np.nan, np.inf)
    if input_bytes > 0.0:
        run_s = input_bytes / rate
    if duration_s is not None:
        run_s = np.minimum(run_s, duration_s)
    return np.asarray(units * run_s, dtype=np.float64)


def cheapest(cost: Floats, among: Bools) -> Cheapest:
    """Return the cheapest of some options, the first of those that differ by rounding."""
    left = np.where(among, cost, np.inf)
    first = int(np.argmax(left <= left.min() * (1.0 + ROUNDING)))
    row, column = np.unravel_index(first, cost.shape)
    return Cheapest(int(row), int(column), float(cost[row, column]))


def too_expensive(ceiling: float, cost: float) -> str:
    """Return the sentence of a refusal."""
    return (
        f"the highest cost (max_cost) is {_amount(ceiling)} unit-seconds, and the cheapest "
        f"placement is predicted to cost {_amount(cost)}"
    )


def _amount(unit_s: float) -> str:
    return f"{unit_s:,.4g}" if unit_s < 1000.0 else f"{unit_s:,.0f}"
