"""Lower bound of F over all placements of the running containers."""

from collections.abc import Mapping

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.rebalancing.cluster import RunningCluster


def bound(cluster: RunningCluster, weights: Mapping[str, float]) -> float:
    """Lower bound of F over all placements of the containers on the servers. O((n + c) log).

    The minimum over m, the number of servers that are on. Their power is at least the m smallest
    idle powers plus the cheapest dynamic power of all units, and at least the power of the servers
    with the fewest watts per unit, filled completely. At most the m highest intensities count
    for D. C is at least 0.
    """
    intensity = -np.sort(-cluster.intensity)
    credited = np.concatenate([[0.0], np.cumsum(intensity)])
    servers, units = cluster.units.size, float(cluster.size.sum())
    min_on = _min_servers(cluster.units, units)
    cost = cluster.watt_costs(weights)
    span = (cluster.peak_watts - cluster.idle_watts) / cluster.units
    idle = np.concatenate([[0.0], np.cumsum(np.sort(cost * cluster.idle_watts))])
    on = np.arange(min_on, servers + 1)
    by_parts = idle[on] + _cheapest(cost * span, cluster.units, units)
    by_servers = _cheapest(cost * cluster.peak_watts / cluster.units, cluster.units, units)
    credit = credited[np.minimum(on, intensity.size)]
    diversity = weights.get("D", 0.0) * credit / cluster.scales()[1]
    values = np.maximum(by_parts, by_servers) - diversity
    return float(values.min()) if values.size else 0.0


def gap(value: float, bound: float, weights: Mapping[str, float]) -> float:
    """Relative gap (F - bound)/(F + beta) between a value and a bound, at least 0."""
    scale = value + weights.get("D", 0.0)
    return max(value - bound, 0.0) / scale if scale > 0.0 else 0.0


def _min_servers(units: Ints, required: float) -> int:
    capacity = np.cumsum(-np.sort(-units))
    return int(np.searchsorted(capacity, required)) + 1 if required > 0 else 0


def _cheapest(cost: Floats, units: Ints, required: float) -> float:
    """Cost of the required units on the cheapest servers, with divisible servers."""
    order = np.argsort(cost)
    available = units[order]
    before = np.cumsum(available) - available
    used = np.minimum(available, np.maximum(required - before, 0.0))
    return float(used @ cost[order])
