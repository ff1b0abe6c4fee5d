"""How much of the servers is allocated and in use: one definition for pages, REST and history.

A server reports if it is not down and sent a heartbeat in the last `SILENT_S` seconds.

    allocated   units that jobs hold / all units, of all servers whatever their state
    CPU used    cores in use / cores, of the servers that report
    power       sum over the servers that report
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SILENT_S: Final = 30.0  # wall seconds without a heartbeat


@dataclass(frozen=True, slots=True, eq=False)
class ServerUsage:
    """Capacity and use of servers, ordered by id.

    Attributes
    ----------
    ids, platforms, racks : (S,) ids
    states : S states
    cores, allocated : (S,) units, and units that jobs hold
    cpu, memory : (S,) share in [0, 1] of the cores or of the memory in use; NaN = no report
    watts : (S,) NaN = no report
    """

    ids: Ints
    platforms: Ints
    racks: Ints
    states: tuple[str, ...]
    cores: Floats
    allocated: Floats
    cpu: Floats
    memory: Floats
    watts: Floats


@dataclass(frozen=True, slots=True)
class UsageTotals:
    """Use of a group of servers.

    Attributes
    ----------
    reporting : servers that report
    cpu_share, memory_share : of the cores of the servers that report; NaN if none does
    watts : of the servers that report
    """

    servers: int
    reporting: int
    units: int
    units_allocated: int
    cpu_share: float
    memory_share: float
    watts: float

    @property
    def allocated_share(self) -> float:
        """Share of the units that jobs hold; NaN without units."""
        return self.units_allocated / self.units if self.units else float("nan")


def usage_totals(usage: ServerUsage, members: NDArray[np.bool_] | None = None) -> UsageTotals:
    """Return the use of the servers, or of those where ``members`` (S,) is True."""
    chosen = np.ones(usage.ids.size, dtype=bool) if members is None else members
    known = chosen & ~np.isnan(usage.cpu)
    return UsageTotals(
        servers=int(chosen.sum()),
        reporting=int(known.sum()),
        units=int(usage.cores[chosen].sum()),
        units_allocated=int(usage.allocated[chosen].sum()),
        cpu_share=weighted_share(usage.cpu[known], usage.cores[known]),
        memory_share=weighted_share(usage.memory[known], usage.cores[known]),
        watts=float(usage.watts[known].sum()),
    )


def weighted_share(shares: Floats, cores: Floats) -> float:
    """Return the mean of shares (S,) weighted by cores; NaN without cores."""
    total = float(cores.sum())
    return float((shares * cores).sum() / total) if total else float("nan")


def totals_by(usage: ServerUsage, groups: Ints, order: Sequence[int]) -> tuple[UsageTotals, ...]:
    """Return the use of each group of servers; ``groups`` (S,) holds an id of ``order``."""
    return tuple(usage_totals(usage, groups == group) for group in order)
