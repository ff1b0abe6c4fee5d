"""From what monitors and profiles say of containers to metrics, and to where each begins to cost.

c containers, N sources of interference. Monitors tell what one unit does; a container of k units
does k/M of what a server of M such units would. Whether a container is one that loses more than a
tenth beside its like is not tried out on a shared cluster: its profile says what it causes and
tolerates, source by source, so what it would lose beside a container of its kind and size is
predicted. Source: ClavisMO §2, C1; the prediction in place of the trial is ours.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from apps.common.core.interference import SOURCES
from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.classes import DEGRADED, SMALLEST, Metric, Threshold, learn_threshold
from apps.placement.core.live import kept_share, pressure

FEWEST: Final = 20  # readings of a platform, below which those of all platforms are used
_NETWORK: Final = frozenset({"network_bandwidth"})
_DISK: Final = frozenset({"storage_bandwidth"})
_CORE: Final = frozenset({"core"})
# which sources a metric stands for
PARTS: Final[Mapping[Metric, tuple[int, ...]]] = {
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
    per_unit : (c, 3) readings of a unit; NaN where not read
    size, units : (c,) units of the container, and of its server
    """
    share: Floats = per_unit * (size / units)[:, None]
    return share


def lost_beside_its_like(size: Ints, units: Ints, caused: Floats, tolerated: Floats) -> Floats:
    """(c, 3) share of its speed a container would lose to another one like it, by metric.

    Parameters
    ----------
    size, units : (c,) units of the container, and of its server
    caused, tolerated : (c, N) scores of its profile
    """
    felt = pressure(size[:, None] * caused, units)
    lost = [1.0 - kept_share(felt[:, PARTS[m]], tolerated[:, PARTS[m]]) for m in Metric]
    return np.stack(lost, axis=1)


def learn(metrics: Floats, lost: Floats, platform: Ints) -> dict[tuple[int, Metric], Threshold]:
    """Learn where each metric begins to cost on each platform.

    Where a platform has too few readings, or all on one side, those of all platforms decide; where
    these are all below, the metric never costs (infinite); all above, it costs from the least on.

    Parameters
    ----------
    metrics, lost : (c, 3) as above; rows with NaN are left out
    platform : (c,) any numbers
    """
    found: dict[tuple[int, Metric], Threshold] = {}
    for metric in Metric:
        value, cost = metrics[:, metric], lost[:, metric]
        is_read = ~np.isnan(value) & ~np.isnan(cost)
        anywhere = _learn(value[is_read], cost[is_read])
        for one in np.unique(platform).tolist():
            here = is_read & (platform == one)
            own = None
            if np.count_nonzero(here) >= FEWEST:
                own = _learn_both_sides(value[here], cost[here])
            found[one, metric] = own or anywhere
    return found


def _learn(value: Floats, lost: Floats) -> Threshold:
    both = _learn_both_sides(value, lost)
    if both is not None:
        return both
    never = value.size == 0 or float(lost.max()) <= DEGRADED
    return Threshold(np.inf if never else max(float(value.min()), SMALLEST), 1.0, value.size)


def _learn_both_sides(value: Floats, lost: Floats) -> Threshold | None:
    """Learn from readings on both sides; None where all are on one."""
    if value.size == 0 or float(lost.max()) <= DEGRADED or float(lost.min()) > DEGRADED:
        return None
    return learn_threshold(value, lost)
