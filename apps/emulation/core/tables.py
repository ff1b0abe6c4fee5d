"""Tables of the engine: arrays with a slot per job or part, which double in size when full."""

from typing import Any, TypeVar

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.emulation.core.events import Machines
from apps.emulation.core.kernels import JobTable, PartTable, ServerTable

_Table = TypeVar("_Table", bound=tuple[Any, ...])


def server_table(machines: Machines) -> ServerTable:
    """Table of empty servers; a server never has more parts than units."""
    servers, width = len(machines.units), int(machines.units.max(initial=1))
    return ServerTable(
        units=machines.units.astype(np.int64),
        parts=np.full((servers, width), -1, dtype=np.int64),
        filled=np.zeros(servers, dtype=np.int64),
    )


def job_table(slots: int) -> JobTable:
    """Table of free job slots."""

    def column() -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.zeros(slots)

    return JobTable(
        tolerated=np.zeros((slots, N_SOURCES)),
        caused=np.zeros((slots, N_SOURCES)),
        knee=np.ones((slots, N_SOURCES)),
        decay=np.ones((slots, N_SOURCES)),
        plateau=np.zeros((slots, N_SOURCES)),
        floor=column(),
        factor=column(),
        in_step=column(),
        speed=column(),
        done=column(),
        updated_s=column(),
        goal=np.full(slots, np.inf),
        due_s=np.full(slots, np.inf),
        next_s=np.full(slots, np.inf),
        first_part=np.full(slots, -1, dtype=np.int64),
    )


def part_table(slots: int) -> PartTable:
    """Table of free part slots."""

    def free() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.full(slots, -1, dtype=np.int64)

    return PartTable(
        job=free(),
        server=free(),
        units=np.zeros(slots, dtype=np.int64),
        position=free(),
        next_part=free(),
        speed=np.zeros(slots),
        effect=np.ones(slots),
    )


def grown(old: _Table, new: _Table) -> _Table:
    """Fill the first slots of a larger table with those of another, and return it."""
    for column, larger in zip(old, new, strict=True):
        if len(larger) > len(column):
            larger[: len(column)] = column
        else:
            larger[:] = column
    return new
