"""Response time of a service on c equal units with Poisson queries (M/M/c).

λ queries/s offered, μ = capacity / c served per unit, a = λ/μ the offered load in units. Source:
Gross and Harris, Fundamentals of Queueing Theory, §2.3. What the control plane expects; how a
service really behaves, telemetry tells.
"""

import math

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints

_HALVINGS = 60


def late_share(units: Ints, capacity: Floats, load: float, latency_s: float) -> Floats:
    """Share of queries slower than ``latency_s``; 1 where the load reaches the capacity.

    Parameters
    ----------
    units : (m, 1) c >= 1, broadcast against ``capacity``
    capacity : (m, P) queries/s of all units together, > 0
    load : λ > 0

    O(max c · m · P).
    """
    rate = capacity / units
    offered = load / rate
    waits = _erlang_c(units, offered)
    x = rate * latency_s
    slack = units - 1.0 - offered
    slack = np.where(np.abs(slack) < 1e-9, 1e-9, slack)
    # written as a difference: slack may be negative
    late = np.exp(-x) + waits * (np.exp(-x) - np.exp(-x * (1.0 + slack))) / slack
    return np.where(offered < units, np.clip(late, 0.0, 1.0), 1.0)


def latency_percentile(units: int, capacity: float, load: float, share: float) -> float:
    """Seconds that ``share`` of the queries stay within; infinite where the load reaches the capacity."""
    if load >= capacity:
        return math.inf
    one = np.array([[units]])
    room = np.array([[capacity]])
    high = units / capacity
    while late_share(one, room, load, high).item() > 1.0 - share:
        high *= 2.0
    low = 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if late_share(one, room, load, middle).item() > 1.0 - share:
            low = middle
        else:
            high = middle
    return high


def _erlang_c(units: Ints, offered: Floats) -> Floats:
    """Probability that a query waits, by Erlang B's recursion over c; 1 where unstable."""
    blocked = np.ones_like(offered)
    result = np.ones_like(offered)
    for c in range(1, int(units.max()) + 1):
        blocked = offered * blocked / (c + offered * blocked)
        here = (units == c) & (offered < c)
        waits = blocked / np.maximum(1.0 - offered / c * (1.0 - blocked), 1e-300)
        result = np.where(here, waits, result)
    return result
