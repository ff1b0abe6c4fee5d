"""The ten shared resources in which jobs interfere, in the order of every array.

Source: Paragon §2.3 and Tarcil §3.2 (iBench's sources of interference, SoI).
"""

from typing import Final

SOURCES: Final = (
    "memory_capacity",
    "memory_bandwidth",
    "llc_capacity",
    "llc_bandwidth",
    "l1i",
    "l1d",
    "tlb",
    "core",
    "network_bandwidth",
    "storage_bandwidth",
)
N_SOURCES: Final = len(SOURCES)

SOURCE_NAMES: Final = {
    "memory_capacity": "Memory capacity",
    "memory_bandwidth": "Memory bandwidth",
    "llc_capacity": "LLC capacity",
    "llc_bandwidth": "LLC bandwidth",
    "l1i": "L1 instructions",
    "l1d": "L1 data",
    "tlb": "TLB",
    "core": "Core",
    "network_bandwidth": "Network",
    "storage_bandwidth": "Storage",
}
