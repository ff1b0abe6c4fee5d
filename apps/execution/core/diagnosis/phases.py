"""Changes of what a job itself does, from its counters."""

from typing import Final, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Floats

COUNTER_NOISE: Final = 0.05  # deviation of the logarithm of one reading
MIN_SIDE: Final = 3  # reports on each side of a change
MIN_CHANGE: Final = 0.2  # of the logarithm: smaller ones are drift
SURE: Final = 5.0  # deviations


class PhaseChange(NamedTuple):
    """The strongest change of a counter.

    at_s : first report after it
    counter : index
    ratio : mean after it over mean before it
    """

    at_s: float
    counter: int
    ratio: float


def phase_change(at_s: Floats, counters: Floats, *, is_service: bool) -> PhaseChange | None:
    """Return the strongest change of the counters, or None. O(T·C).

    Parameters
    ----------
    at_s : (T,)
    counters : (T, C) usage of the job's units while they work; NaN = not reported
    is_service : its counters rise with its utilisation, so only their ratios to each other count
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(np.where(counters > 0.0, counters, np.nan))
    usable = ~np.isnan(logs).any(axis=1)
    logs, times = logs[usable], at_s[usable]
    if logs.shape[0] < 2 * MIN_SIDE or not logs.shape[1]:
        return None
    if is_service:
        if logs.shape[1] < 2:
            return None
        logs = logs - logs.mean(axis=1, keepdims=True)
    n = logs.shape[0]
    sums = np.cumsum(logs, axis=0)
    before = np.arange(MIN_SIDE, n - MIN_SIDE + 1)
    step = (sums[-1] - sums[before - 1]) / (n - before)[:, None] - sums[before - 1] / before[
        :, None
    ]
    noise = COUNTER_NOISE * np.sqrt(1.0 / before + 1.0 / (n - before))[:, None]
    strength = np.where(np.abs(step) >= MIN_CHANGE, np.abs(step) / noise, 0.0)
    row, counter = np.unravel_index(int(np.argmax(strength)), strength.shape)
    if strength[row, counter] < SURE:
        return None
    ratio = float(np.exp(step[row, counter]))
    return PhaseChange(float(times[before[row]]), int(counter), ratio)
