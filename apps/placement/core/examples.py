"""Instances to try things on: workloads drawn like those the paper ran, on clusters like its.

Source: ClavisMO §4.1 (HPC jobs of up to 128 containers, as many nodes as containers) and §4.2
(Hadoop on production clusters: many small jobs, few large).
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.instance import NOWHERE, Communication, Instance


class Mix(StrEnum):
    """How large jobs are."""

    HPC = "hpc"  # powers of two, as many of each
    HADOOP = "hadoop"  # Pareto-distributed


@dataclass(frozen=True, slots=True)
class Draw:
    """What to draw.

    Attributes
    ----------
    containers, nodes : how many; ``nodes`` 0 is one a container
    nodes_per_rack, slots : of the cluster
    largest : containers of the largest job
    taz_share : of the jobs; 1 in 10 jobs has containers of both classes
    has_real_intensities : drawn from [0, 1] by class; otherwise 1 for tazes and 0 for turtles
    kinds : of nodes, each of other watts, alternating by rack
    occupied : share of the containers that run somewhere already
    """

    containers: int = 1024
    nodes: int = 0
    nodes_per_rack: int = 64
    slots: int = 2
    mix: Mix = Mix.HPC
    largest: int = 128
    taz_share: float = 0.5
    has_real_intensities: bool = False
    kinds: int = 1
    occupied: float = 0.0


def draw(wanted: Draw, seed: int) -> Instance:
    """Draw an instance; the same seed gives the same."""
    rng = np.random.default_rng(seed)
    nodes = wanted.nodes or wanted.containers
    size = _sizes(wanted, rng)
    job: Ints = np.repeat(np.arange(size.size), size)
    is_taz = (rng.random(size.size) < wanted.taz_share)[job]
    is_mixed = (rng.random(size.size) < 0.1)[job]
    is_taz = np.where(is_mixed, rng.random(job.size) < 0.5, is_taz)
    rack: Ints = np.arange(nodes) // wanted.nodes_per_rack
    kind: Ints = rack % wanted.kinds
    idle: Floats = np.asarray(100.0 + 30.0 * kind, dtype=np.float64)
    peak: Floats = np.asarray(200.0 + 90.0 * kind, dtype=np.float64)
    slots: Ints = np.full(nodes, wanted.slots)
    return Instance(
        node_ids=tuple(f"n{i}" for i in range(nodes)),
        rack_ids=tuple(f"r{i}" for i in range(int(rack.max(initial=-1)) + 1)),
        rack=rack,
        slots=slots,
        idle_watts=idle,
        peak_watts=peak,
        container_ids=tuple(f"c{i}" for i in range(job.size)),
        job_ids=tuple(f"j{i}" for i in range(size.size)),
        job=job,
        intensity=_intensities(wanted, is_taz, rng),
        is_taz=is_taz,
        wish=_wishes(wanted, size, rng),
        current=_occupied(wanted, slots, job.size, rng),
    )


def _sizes(wanted: Draw, rng: np.random.Generator) -> Ints:
    sizes: list[int] = []
    left = wanted.containers
    while left:
        if wanted.mix is Mix.HPC:
            size = 2 ** int(rng.integers(0, int(np.log2(wanted.largest)) + 1))
        else:
            size = int(min(1.0 + rng.pareto(1.1), wanted.largest))
        sizes.append(min(size, left))
        left -= sizes[-1]
    return np.array(sizes, dtype=np.int64)


def _wishes(wanted: Draw, size: Ints, rng: np.random.Generator) -> Ints:
    """Draw a class for each job; more than fits a node never wishes for one."""
    wish: Ints = rng.integers(0, 3, size.size)
    wish[(wish == Communication.NODE) & (size > wanted.slots)] = Communication.RACK
    return wish


def _intensities(wanted: Draw, is_taz: Bools, rng: np.random.Generator) -> Floats:
    if not wanted.has_real_intensities:
        return is_taz.astype(np.float64)
    drawn = rng.random(is_taz.size)
    share: Floats = np.where(is_taz, 0.4 + 0.6 * drawn, 0.4 * drawn).astype(np.float64)
    real: Floats = np.round(share, 3)
    return real


def _occupied(wanted: Draw, slots: Ints, containers: int, rng: np.random.Generator) -> Ints:
    places = rng.permutation(np.repeat(np.arange(slots.size), slots))[:containers]
    runs = rng.random(containers) < wanted.occupied
    return np.where(runs, places, NOWHERE)
