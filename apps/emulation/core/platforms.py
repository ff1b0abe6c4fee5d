"""Hidden capacities of emulated platforms.

B = 4 bottlenecks: compute, memory, storage, network. A capacity is per resource unit and relative
to cr1.8xlarge. The table was set by hand from the generation, clock, caches, disks and links of
each instance type. Its spread is that of log-normal factors with sigma 0.30 between platforms and
0.20 between the bottlenecks of one platform.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from apps.common.core.arrays import as_readonly
from apps.emulation.core.seeds import generator
from apps.inventory.core.snapshot import Floats

BOTTLENECKS: Final = ("compute", "memory", "storage", "network")
N_BOTTLENECKS: Final = len(BOTTLENECKS)

CAPACITY: Final = MappingProxyType(
    {
        "cr1.8xlarge": (1.00, 1.00, 1.00, 1.00),
        "hi1.4xlarge": (0.75, 0.68, 1.60, 0.95),
        "hs1.8xlarge": (0.72, 0.74, 1.15, 0.90),
        "m3.2xlarge": (0.85, 0.70, 0.92, 0.55),
        "m2.4xlarge": (0.80, 0.78, 0.55, 0.45),
        "c1.xlarge": (0.64, 0.42, 0.50, 0.45),
        "m3.xlarge": (0.85, 0.72, 0.95, 0.62),
        "m2.2xlarge": (0.80, 0.82, 0.52, 0.50),
        "m1.xlarge": (0.52, 0.48, 0.55, 0.45),
        "m2.xlarge": (0.80, 0.85, 0.50, 0.55),
        "c1.medium": (0.62, 0.45, 0.48, 0.50),
        "m1.large": (0.52, 0.52, 0.52, 0.50),
        "m1.medium": (0.50, 0.50, 0.50, 0.45),
        "m1.small": (0.40, 0.42, 0.45, 0.35),
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class Catalogue:
    """The platforms of one cluster with their hidden capacities.

    Attributes
    ----------
    names : P platform names
    capacity : (P, B) per unit, relative to cr1.8xlarge, > 0, read-only
    reference : index of the highest-end platform, whose speed is 1 for every application
    """

    names: tuple[str, ...]
    capacity: Floats
    reference: int


def catalogue(names: Sequence[str], *, seed: int, reference: int = 0) -> Catalogue:
    """Look up or draw the hidden capacities of platforms.

    Capacities of a platform outside the table are random, log-normal around 0.7 (sigma 0.30), and
    its bottlenecks around that (sigma 0.20). They depend on its name and the seed only, so a name
    is the same hardware in all clusters with one seed.

    Raises
    ------
    ValueError : no platform, or `reference` is not one of them.
    """
    if not 0 <= reference < len(names):
        raise ValueError(f"reference must index one of {len(names)} platforms, got {reference}")
    rows = np.array(
        [CAPACITY.get(name) or _random_capacity(name, seed) for name in names], dtype=float
    )
    return Catalogue(names=tuple(names), capacity=as_readonly(rows), reference=reference)


def _random_capacity(name: str, seed: int) -> tuple[float, ...]:
    rng = generator(seed, "platform", name)
    overall = rng.lognormal(np.log(0.7), 0.30)
    return tuple(overall * rng.lognormal(0.0, 0.20, size=N_BOTTLENECKS))
