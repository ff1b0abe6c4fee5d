"""Orders to start at one time, as the arguments of the compiled start."""

import math
from typing import NamedTuple

import numpy as np

from apps.emulation.core.event_kernels import Columns
from apps.emulation.core.events import EngineOrder
from apps.emulation.core.start_kernels import Started


class Batch(NamedTuple):
    """Orders to start at one time: columns of `Started` as lists."""

    orders: list[EngineOrder]
    slots: list[int]
    kinds: list[int]
    first: list[int]
    parts: list[tuple[int, int]]


def rows_of(batch: Batch) -> Columns:
    """Return the columns of `Started`, without their names."""
    orders, inf = batch.orders, math.inf
    parts = np.array(batch.parts, dtype=np.int64).reshape(-1, 2)
    started = Started(
        slot=np.array(batch.slots, dtype=np.int64),
        kind=np.array(batch.kinds, dtype=np.int64),
        work_s=np.array([each.work_s for each in orders], dtype=np.float64),
        duration_s=np.array(
            [inf if each.duration_s is None else each.duration_s for each in orders],
            dtype=np.float64,
        ),
        done_share=np.array([each.done_share for each in orders], dtype=np.float64),
        tasks=np.array(
            [0 if each.tasks is None else each.tasks or -1 for each in orders], dtype=np.int64
        ),
        first=np.array(batch.first, dtype=np.int64),
        server=np.ascontiguousarray(parts[:, 0]),
        units=np.ascontiguousarray(parts[:, 1]),
    )
    return tuple(started)
