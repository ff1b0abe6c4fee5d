"""Orders to start at one time, as the arguments of the compiled start."""

import math
from typing import NamedTuple

import numpy as np

from apps.emulation.core.event_kernels import Columns
from apps.emulation.core.events import EngineOrder
from apps.emulation.core.start_kernels import Started
from apps.emulation.core.stragglers import busy_shares
from apps.inventory.core.snapshot import Floats, Ints


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
    tasks = np.array(
        [0 if each.tasks is None else each.tasks or -1 for each in orders], dtype=np.int64
    )
    started = Started(
        slot=np.array(batch.slots, dtype=np.int64),
        kind=np.array(batch.kinds, dtype=np.int64),
        work_s=np.array([each.work_s for each in orders], dtype=np.float64),
        duration_s=np.array(
            [inf if each.duration_s is None else each.duration_s for each in orders],
            dtype=np.float64,
        ),
        done_share=np.array([each.done_share for each in orders], dtype=np.float64),
        tasks=tasks,
        busy=_busy(batch, tasks),
        first=np.array(batch.first, dtype=np.int64),
        server=np.ascontiguousarray(parts[:, 0]),
        units=np.ascontiguousarray(parts[:, 1]),
    )
    return tuple(started)


def _busy(batch: Batch, tasks: Ints) -> Floats:
    """(n,) share of the units of each order that its tasks keep busy."""
    if not tasks.any():
        return np.ones(tasks.size)
    bounds = zip(batch.first[:-1], batch.first[1:], strict=True)
    units = [sum(count for _, count in batch.parts[begin:end]) for begin, end in bounds]
    return busy_shares(
        tasks,
        np.array(units, dtype=np.int64),
        np.array([each.truth.task_spread for each in batch.orders], dtype=np.float64),
        np.array([each.task_seed for each in batch.orders], dtype=np.int64),
    )
