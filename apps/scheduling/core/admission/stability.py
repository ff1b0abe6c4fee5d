"""Whether the queues of an admission control stay bounded (Paragon §4.3, P11)."""

import numpy as np

from apps.inventory.core.snapshot import Floats


def total_rates(external: Floats, routing: Floats) -> Floats:
    """(n,) rates at which jobs join each queue, diverted ones included.

    (I - P^T)^-1 times the rates of arrival. Infinite if jobs are diverted in circles for ever.

    Parameters
    ----------
    external : (n,) rates of arrival
    routing : (n, n) P, share of the jobs of queue i that are diverted to queue j
    """
    system = np.eye(external.size) - routing.T
    if abs(np.linalg.det(system)) < 1e-9:
        return np.full(external.size, np.inf)
    return np.asarray(np.linalg.solve(system, external), dtype=np.float64)


def load_factors(rates: Floats, served: Floats) -> Floats:
    """(n,) rate over service rate of each queue, stable below 1.

    0 without jobs, infinite with jobs and without servers.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        load = np.where(rates > 0.0, rates / served, 0.0)
    factors: Floats = np.nan_to_num(load, nan=0.0, posinf=np.inf)
    return factors
