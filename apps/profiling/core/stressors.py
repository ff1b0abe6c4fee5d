"""Stressors of a real machine: which source each presses, on which core, and what it cannot do."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from apps.profiling.core.windows import Basis


class Side(StrEnum):
    """Core of a stressor: that of the program, or another one."""

    SAME = "same"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Stressor:
    """One stressor.

    Attributes
    ----------
    name : also names its kernel
    source : of interference (`SOURCES`); "" if it is none of the ten
    side : a source that cores do not share is pressed on the program's own core, by turns with it
    basis : speed that counts
    is_default : False if it must be named to be used
    presses : what it does, for people
    """

    name: str
    source: str
    side: Side
    basis: Basis
    presses: str
    is_default: bool = True

    @property
    def max_share(self) -> float:
        """Share of a core at full intensity; on the program's core, half of it."""
        return 0.5 if self.side is Side.SAME else 1.0


STRESSORS: Final = {
    stressor.name: stressor
    for stressor in (
        Stressor("core", "core", Side.SAME, Basis.CPU, "small matrix products, by turns"),
        Stressor(
            "shared_core", "core", Side.SAME, Basis.WALL,
            "the same; for programs that will share a core", is_default=False,
        ),
        Stressor("other_core", "", Side.OTHER, Basis.CPU, "the same on another core"),
        Stressor("l1d", "l1d", Side.SAME, Basis.CPU, "reads a block of the size of the L1 cache"),
        Stressor("l2", "", Side.SAME, Basis.CPU, "reads a block of the size of the L2 cache"),
        Stressor("tlb", "tlb", Side.SAME, Basis.CPU, "reads one word of many 4 KiB pages"),
        Stressor(
            "llc_capacity", "llc_capacity", Side.OTHER, Basis.CPU,
            "reads random lines of a block of the size of the last-level cache",
        ),
        Stressor(
            "llc_bandwidth", "llc_bandwidth", Side.OTHER, Basis.CPU,
            "streams a block that fits only into the last-level cache",
        ),
        Stressor(
            "memory_bandwidth", "memory_bandwidth", Side.OTHER, Basis.CPU,
            "copies blocks larger than all caches",
        ),
        Stressor(
            "memory_capacity", "memory_capacity", Side.OTHER, Basis.UNQUEUED,
            "holds memory: at full intensity, half of what is available", is_default=False,
        ),
        Stressor(
            "storage_bandwidth", "storage_bandwidth", Side.OTHER, Basis.UNQUEUED,
            "writes blocks of 1 MiB, each forced to the disk",
        ),
        Stressor(
            "network_bandwidth", "network_bandwidth", Side.OTHER, Basis.UNQUEUED,
            "sends over loopback: the kernel's network code and memory, not a network card",
        ),
    )
}  # fmt: skip
NOT_PRESSED: Final = {
    "l1i": "needs more machine code than an interpreter runs; no compiler is assumed"
}
