"""Response time of a service on c equal units with Poisson queries (M/M/c).

λ queries/s offered, μ = capacity / c served per unit, a = λ/μ the offered load in units. Source:
Gross and Harris, Fundamentals of Queueing Theory, §2.3. This is a prediction; telemetry measures
the actual behaviour.
"""

import numpy as np
from scipy.special import gammaincc, gammaln

from apps.inventory.core.snapshot import Bools, Floats, Ints

_HALVINGS = 40


def late_share(
    units: Ints | int, capacity: Floats, load: Floats | float, latency_s: Floats | float
) -> Floats:
    """Return the share of queries slower than ``latency_s``; 1 if the load reaches capacity.

    Parameters
    ----------
    units : (m, 1) c >= 1, or one number; all arrays are broadcast
    capacity : (m, P) queries/s of all units together, > 0
    load : λ > 0, a number or an array
    """
    rate = capacity / units
    is_stable = load < capacity
    # an unstable queue has no tail: compute with half the capacity instead, to avoid overflow
    offered = np.where(is_stable, load / rate, 0.5 * units)
    waits = _erlang_c(units, offered)
    x = rate * latency_s
    slack = units - 1.0 - offered
    slack = np.where(np.abs(slack) < 1e-9, 1e-9, slack)
    # written as a difference: slack may be negative
    late = np.exp(-x) + waits * (np.exp(-x) - np.exp(-x * (1.0 + slack))) / slack
    return np.where(is_stable, np.clip(late, 0.0, 1.0), 1.0)


def latency_percentile(units: int | Ints, capacity: Floats, load: float, share: float) -> Floats:
    """Return the latency that ``share`` of the queries stay within; infinite if overloaded.

    By bisection to 2^-40 of the result.

    Parameters
    ----------
    units : c, a number or an array that broadcasts to the capacities
    capacity : of any shape, as the result; NaN gives NaN
    """
    c = np.broadcast_to(units, capacity.shape)
    low, high = np.zeros(capacity.shape), units / capacity
    while (is_late := _is_late(c, capacity, load, high, share)).any():
        high = np.where(is_late, 2.0 * high, high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        is_late = _is_late(c, capacity, load, middle, share)
        low, high = np.where(is_late, middle, low), np.where(is_late, high, middle)
    return np.where(np.isnan(capacity), np.nan, np.where(load < capacity, high, np.inf))


def capacity_at(units: int, latency_s: float | Floats, load: Floats, share: float) -> Floats:
    """Return the queries/s capacity at which ``share`` of the queries stay within ``latency_s``.

    The inverse of `latency_percentile`, by bisection in the logarithm to 2^-40 of the span.

    Parameters
    ----------
    units : c >= 1
    latency_s : > 0, a number or of the shape of the load
    load : of any shape, as the result; > 0
    """
    low, high = np.log(load), np.log(2.0 * load)
    while (is_late := late_share(units, np.exp(high), load, latency_s) > 1.0 - share).any():
        high = np.where(is_late, high + 1.0, high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        late = late_share(units, np.exp(middle), load, latency_s) > 1.0 - share
        low, high = np.where(late, middle, low), np.where(late, high, middle)
    return np.exp(high)


def _is_late(units: Ints, capacity: Floats, load: float, at: Floats, share: float) -> Bools:
    """Whether too many queries are slower than ``at``; overloaded services count as not."""
    late: Bools = late_share(units, capacity, load, at) > 1.0 - share
    return late & (load < capacity)


def _erlang_c(units: Ints | int, offered: Floats) -> Floats:
    """Probability that a query waits, for an offered load below ``units``.

    Erlang B is the Poisson probability of c over that of at most c, and the latter a regularised
    gamma function.
    """
    a = offered
    blocked = np.exp(units * np.log(a) - a - gammaln(units + 1.0)) / gammaincc(units + 1.0, a)
    return blocked / (1.0 - a / units * (1.0 - blocked))
