"""A placement problem as arrays: nodes, containers, their jobs, and the current placement.

n nodes, R racks, c containers, j jobs. Source: ClavisMO §3.1, C2.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints

NOWHERE: Final = -1  # node of a container that does not run yet


class Communication(IntEnum):
    """The scope within which a job communicates; a larger number is a smaller scope."""

    CLUSTER = 0
    RACK = 1
    NODE = 2


def effective_communication(requested: Ints, size: Ints, max_node: int, max_rack: int) -> Ints:
    """(j,) the requested scopes, widened where no node or no rack is large enough for the job.

    Parameters
    ----------
    requested : (j,) `Communication`
    size : (j,) slots or units of each job
    max_node, max_rack : slots or units of the largest node and rack
    """
    effective = requested.copy()
    effective[(effective == Communication.NODE) & (size > max_node)] = Communication.RACK
    effective[(effective == Communication.RACK) & (size > max_rack)] = Communication.CLUSTER
    return effective


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
    communication : (j,) requested `Communication`
    current : (c,) node each container runs on, `NOWHERE` if it does not run yet
    size : (j,) containers of each job
    effective_communication : (j,) `Communication` that objectives count: ``node`` becomes
        ``rack`` if no node can hold the job, and ``rack`` becomes ``cluster`` if no rack can
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
    communication: Ints
    current: Ints
    size: Ints = field(init=False)
    effective_communication: Ints = field(init=False)

    def __post_init__(self) -> None:
        size: Ints = np.bincount(self.job, minlength=len(self.job_ids))
        max_node = int(self.slots.max(initial=0))
        max_rack = int(self.rack_slots().max(initial=0))
        effective = effective_communication(self.communication, size, max_node, max_rack)
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "effective_communication", effective)
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
