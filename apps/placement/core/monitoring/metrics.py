"""Metrics of containers from monitors, and their thresholds from profiles.

c containers, N sources of interference. Monitors measure one unit; a container of k units on a
server of M units uses k/M of what M such units would. The loss of a container next to another one
of the same kind cannot be measured on a shared cluster, so it is predicted from the profile, which
has the caused and tolerated score of each source. Source: ClavisMO §2, C1; predicting instead of
measuring is ours.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from apps.common.core.interference import SOURCES
from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.monitoring.classes import (
    MIN_THRESHOLD,
    TAZ_LOSS,
    FittedThreshold,
    Metric,
    fit_threshold,
)
from apps.placement.core.rebalancing.cluster import pressure, retained_share

MIN_READINGS: Final = 20  # readings of a platform, below which those of all platforms are used
_NETWORK: Final = frozenset({"network_bandwidth"})
_DISK: Final = frozenset({"storage_bandwidth"})
_CORE: Final = frozenset({"core"})
# which sources a metric stands for
METRIC_SOURCES: Final[Mapping[Metric, tuple[int, ...]]] = {
    Metric.MEMORY: tuple(
        i for i, name in enumerate(SOURCES) if name not in _NETWORK | _DISK | _CORE
    ),
    Metric.NETWORK: tuple(i for i, name in enumerate(SOURCES) if name in _NETWORK),
    Metric.DISK: tuple(i for i, name in enumerate(SOURCES) if name in _DISK),
}


def container_metrics(per_unit: Floats, size: Ints, units: Ints) -> Floats:
    """(c, 3) metrics of containers, in the order of `Metric`.

    Parameters
    ----------
    per_unit : (c, 3) readings of a unit; NaN for no reading
    size, units : (c,) units of the container, and of its server
    """
    share: Floats = per_unit * (size / units)[:, None]
    return share


def self_interference_loss(size: Ints, units: Ints, caused: Floats, tolerated: Floats) -> Floats:
    """(c, 3) predicted loss of speed next to an identical container, by metric.

    Parameters
    ----------
    size, units : (c,) units of the container, and of its server
    caused, tolerated : (c, N) scores of its profile
    """
    felt = pressure(size[:, None] * caused, units)
    lost = [
        1.0 - retained_share(felt[:, METRIC_SOURCES[m]], tolerated[:, METRIC_SOURCES[m]])
        for m in Metric
    ]
    return np.stack(lost, axis=1)


def fit_thresholds(
    metrics: Floats, lost: Floats, platform: Ints
) -> dict[tuple[int, Metric], FittedThreshold]:
    """Fit the threshold of each metric on each platform.

    A platform with fewer than `MIN_READINGS`, or with all losses on one side, uses the readings of
    all platforms. If these are all below a tenth, the threshold is infinite; if all above, it is
    the smallest reading.

    Parameters
    ----------
    metrics, lost : (c, 3) as above; rows with NaN are ignored
    platform : (c,) any integers
    """
    found: dict[tuple[int, Metric], FittedThreshold] = {}
    for metric in Metric:
        value, cost = metrics[:, metric], lost[:, metric]
        is_read = ~np.isnan(value) & ~np.isnan(cost)
        anywhere = _learn(value[is_read], cost[is_read])
        for one in np.unique(platform).tolist():
            here = is_read & (platform == one)
            own = None
            if np.count_nonzero(here) >= MIN_READINGS:
                own = _learn_both_sides(value[here], cost[here])
            found[one, metric] = own or anywhere
    return found


def _learn(value: Floats, lost: Floats) -> FittedThreshold:
    both = _learn_both_sides(value, lost)
    if both is not None:
        return both
    never = value.size == 0 or float(lost.max()) <= TAZ_LOSS
    return FittedThreshold(
        np.inf if never else max(float(value.min()), MIN_THRESHOLD), 1.0, value.size
    )


def _learn_both_sides(value: Floats, lost: Floats) -> FittedThreshold | None:
    """Fit a threshold; None if all losses are on one side."""
    if value.size == 0 or float(lost.max()) <= TAZ_LOSS or float(lost.min()) > TAZ_LOSS:
        return None
    return fit_threshold(value, lost)
