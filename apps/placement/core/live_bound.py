"""What no placement of the running cluster can be better than."""

from collections.abc import Mapping

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.live import Cluster


def bound(cluster: Cluster, weights: Mapping[str, float]) -> float:
    """No placement of the containers on the servers has an F below this. O((n + c) log).

    With m servers on: their watts are at least those of the m smallest idle ones and of the units
    where a unit costs least, and at least what filling the servers with the fewest watts a unit
    costs; of D at most the m greatest intensities are credited; C may be 0. The least over m.
    """
    intensity = -np.sort(-cluster.intensity)
    credited = np.concatenate([[0.0], np.cumsum(intensity)])
    servers, units = cluster.units.size, float(cluster.size.sum())
    least_on = _fewest_servers(cluster.units, units)
    cost = cluster.watt_costs(weights)
    span = (cluster.peak_watts - cluster.idle_watts) / cluster.units
    idle = np.concatenate([[0.0], np.cumsum(np.sort(cost * cluster.idle_watts))])
    on = np.arange(least_on, servers + 1)
    charged = idle[on] + _filled(cost * span, cluster.units, units)
    whole = _filled(cost * cluster.peak_watts / cluster.units, cluster.units, units)
    most = credited[np.minimum(on, intensity.size)]
    values = np.maximum(charged, whole) - weights.get("D", 0.0) * most / cluster.scales()[1]
    return float(values.min()) if values.size else 0.0


def gap(value: float, least: float, weights: Mapping[str, float]) -> float:
    """Return (F - bound)/(F + beta), at least 0: how far F is above a bound."""
    room = value + weights.get("D", 0.0)
    return max(value - least, 0.0) / room if room > 0.0 else 0.0


def _fewest_servers(units: Ints, wanted: float) -> int:
    filled = np.cumsum(-np.sort(-units))
    return int(np.searchsorted(filled, wanted)) + 1 if wanted > 0 else 0


def _filled(cost: Floats, units: Ints, wanted: float) -> float:
    """Cost of so many units where each costs least, servers being divisible."""
    order = np.argsort(cost)
    taken = np.minimum(units[order], np.maximum(wanted - _before(units[order]), 0.0))
    return float(taken @ cost[order])


def _before(units: Ints) -> Ints:
    return np.cumsum(units) - units
