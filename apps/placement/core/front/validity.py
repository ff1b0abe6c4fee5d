"""How long a front stays valid, from the measured change of the mix of containers.

The mix is taken at equal steps over the recent past. The change over a lag is the mean total
variation distance between two mixes that far apart, over all pairs of the window. It grows with
the lag and levels off on a cluster whose composition is stable; its running maximum is used.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Floats
from apps.placement.core.front.mix import Kinds, container_kind, variation


class ContainerSpan(NamedTuple):
    """A container and the cluster time in which it ran.

    Attributes
    ----------
    job : any hashable job id
    communication : `Communication` class of its job
    """

    job: object
    is_taz: bool
    communication: int
    from_s: float
    until_s: float


def mix_at(spans: Iterable[ContainerSpan], at_s: float) -> Kinds:
    """Count the containers of each kind that ran at a time."""
    running = [span for span in spans if span.from_s <= at_s < span.until_s]
    sizes = Counter(span.job for span in running)
    return Counter(
        container_kind(span.is_taz, span.communication, sizes[span.job]) for span in running
    )


def change_by_lag(mixes: Sequence[Kinds]) -> Floats:
    """(m,) mean change of the mix over 0, 1 … m − 1 steps, not decreasing.

    Parameters
    ----------
    mixes : m mixes at equal steps
    """
    count = len(mixes)
    change = np.zeros(count)
    for lag in range(1, count):
        pairs = [variation(mixes[i], mixes[i + lag]) for i in range(count - lag)]
        change[lag] = float(np.mean(pairs))
    return np.maximum.accumulate(change)


def seconds_left(change: Floats, step_s: float, *, share: float, limit: float) -> float | None:
    """Cluster seconds until a front whose mix changed by ``share`` is expected to reach ``limit``.

    Interpolates between the lags. None if the limit is not reached within the measured lags.
    """
    if share > limit:
        return 0.0
    reached = _lag(change, limit)
    if reached is None:
        return None
    passed = _lag(change, share) or 0.0
    return max(reached - passed, 0.0) * step_s


def _lag(change: Floats, value: float) -> float | None:
    """Return the number of steps after which the change exceeds a value; None if it never does."""
    above = np.flatnonzero(change > value)
    if not above.size:
        return None
    after = int(above[0])
    low, high = change[after - 1], change[after]
    return float(after - 1 + (value - low) / (high - low))
