"""Response times of a service with c equal units and Poisson queries (M/M/c).

Source: Erlang (1917); Gross and Harris, Fundamentals of Queueing Theory, §2.3.
a = lambda/mu is the offered load in units.
"""

from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints

TIMEOUT_S: Final = 10.0  # of clients; also the response time of an overloaded service
_HALVINGS: Final = 50


def waiting_share(units: Ints, offered: Floats) -> Floats:
    """(n,) probability that a query waits (Erlang C); 1 where `offered` >= `units`.

    O(n x max units).
    """
    blocked = np.ones_like(offered)
    result = np.ones_like(offered)
    stable = offered < units
    for c in range(1, int(units.max(initial=0)) + 1):
        blocked = offered * blocked / (c + offered * blocked)
        rows = stable & (units == c)
        result[rows] = blocked[rows] / (1.0 - offered[rows] / c * (1.0 - blocked[rows]))
    return result


def latency_percentile(
    units: Ints, capacity: Floats, load: Floats, share: Floats | float
) -> Floats:
    """Response time that a share of the queries does not exceed, in seconds.

    Parameters
    ----------
    units : (n,) c >= 1
    capacity : (n,) queries/s of all units of a service, >= 0
    load : (n,) offered queries/s
    share : scalar or (n,); 0.99 for the 99th percentile

    Returns
    -------
    (n,) seconds, at most TIMEOUT_S; exact for M/M/c up to bisection (2^-50 of the timeout).
    """
    rate = capacity / units
    # overloaded services are left out: their exponentials would overflow
    stable = load < capacity
    offered = np.divide(load, rate, out=np.zeros_like(rate), where=stable)
    waits = waiting_share(units, offered)
    slack = units - 1.0 - offered
    slack = np.where(np.abs(slack) < 1e-9, 1e-9, slack)
    low, high = np.zeros_like(offered), np.full_like(offered, TIMEOUT_S)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        x = rate * middle
        # exp(-x) (1 - exp(-x slack)) written as a difference: slack may be negative
        late = np.exp(-x) + waits * (np.exp(-x) - np.exp(-x * (1.0 + slack))) / slack
        is_late = late > 1.0 - share
        low, high = np.where(is_late, middle, low), np.where(is_late, high, middle)
    return np.where(stable & (offered < units), high, TIMEOUT_S)
