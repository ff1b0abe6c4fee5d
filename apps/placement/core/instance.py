"""A placement problem as arrays: nodes, containers, their jobs, and where they run now.

n nodes, R racks, c containers, j jobs. Source: ClavisMO §3.1, C2.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints

NOWHERE: Final = -1  # of a container that runs nowhere yet


class Communication(IntEnum):
    """What a job wants to stay inside of; a larger number is a smaller place."""

    CLUSTER = 0
    RACK = 1
    NODE = 2


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """One placement problem; every array is read-only.

    Attributes
    ----------
    node_ids, rack_ids, container_ids, job_ids : names, unique in each
    rack : (n,) index into ``rack_ids``
    slots : (n,) containers the node can hold, >= 1
    idle_watts, peak_watts : (n,) of a node with its first, and with all its slots in use;
        0 <= idle <= peak. A node without containers is off
    job : (c,) index into ``job_ids``; every job has a container
    intensity : (c,) of shared resources, in [0, 1]
    is_taz : (c,)
    wish : (j,) `Communication` as asked for
    current : (c,) node each container runs on, `NOWHERE` where it does not run yet
    size : (j,) containers of each job
    counts_as : (j,) `Communication` as it counts: a ``node`` job that no node can hold counts as
        ``rack``, a ``rack`` job that no rack can hold as ``cluster``
    """

    node_ids: tuple[str, ...]
    rack_ids: tuple[str, ...]
    rack: Ints
    slots: Ints
    idle_watts: Floats
    peak_watts: Floats
    container_ids: tuple[str, ...]
    job_ids: tuple[str, ...]
    job: Ints
    intensity: Floats
    is_taz: Bools
    wish: Ints
    current: Ints
    size: Ints = field(init=False)
    counts_as: Ints = field(init=False)

    def __post_init__(self) -> None:
        size: Ints = np.bincount(self.job, minlength=len(self.job_ids))
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "counts_as", self._counts_as(size))
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    @property
    def has_current(self) -> bool:
        """Whether any container runs already."""
        return bool((self.current != NOWHERE).any())

    def rack_slots(self) -> Ints:
        """(R,) slots of each rack."""
        total: Ints = np.zeros(len(self.rack_ids), dtype=np.int64)
        np.add.at(total, self.rack, self.slots)
        return total

    def _counts_as(self, size: Ints) -> Ints:
        largest_node = int(self.slots.max(initial=0))
        largest_rack = int(self.rack_slots().max(initial=0))
        wish = self.wish.copy()
        wish[(wish == Communication.NODE) & (size > largest_node)] = Communication.RACK
        wish[(wish == Communication.RACK) & (size > largest_rack)] = Communication.CLUSTER
        return wish
