"""Random instances for tests and benchmarks: workloads and clusters like those of the paper.

Source: ClavisMO §4.1 (HPC jobs of up to 128 containers, as many nodes as containers) and §4.2
(Hadoop on production clusters: many small jobs, few large).
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.problem.instance import NOWHERE, Communication, Instance


class JobMix(StrEnum):
    """Distribution of job sizes."""

    HPC = "hpc"  # powers of two, equally likely
    HADOOP = "hadoop"  # Pareto-distributed


@dataclass(frozen=True, slots=True)
class InstanceSpec:
    """Parameters of a random instance.

    Attributes
    ----------
    containers, nodes : numbers; ``nodes`` 0 is one per container
    nodes_per_rack : of the cluster
    slots : of every node; of several numbers, each is equally likely for a node
    largest : containers of the largest job
    taz_share : share of jobs of tazes; 1 in 10 jobs has containers of both classes
    has_real_intensities : random in [0, 1] by class; otherwise 1 for tazes and 0 for turtles
    kinds : number of node kinds with different watts, alternating by rack
    occupied : share of the containers that run already
    """

    containers: int = 1024
    nodes: int = 0
    nodes_per_rack: int = 64
    slots: int | tuple[int, ...] = 2
    mix: JobMix = JobMix.HPC
    largest: int = 128
    taz_share: float = 0.5
    has_real_intensities: bool = False
    kinds: int = 1
    occupied: float = 0.0


def generate_instance(spec: InstanceSpec, seed: int) -> Instance:
    """Return a random instance; the same seed gives the same instance."""
    rng = np.random.default_rng(seed)
    nodes = spec.nodes or spec.containers
    size = _sizes(spec, rng)
    job: Ints = np.repeat(np.arange(size.size), size)
    is_taz = (rng.random(size.size) < spec.taz_share)[job]
    is_mixed = (rng.random(size.size) < 0.1)[job]
    is_taz = np.where(is_mixed, rng.random(job.size) < 0.5, is_taz)
    rack: Ints = np.arange(nodes) // spec.nodes_per_rack
    kind: Ints = rack % spec.kinds
    idle: Floats = np.asarray(100.0 + 30.0 * kind, dtype=np.float64)
    peak: Floats = np.asarray(200.0 + 90.0 * kind, dtype=np.float64)
    slots = _slots(spec, nodes, seed)
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
        intensity=_intensities(spec, is_taz, rng),
        is_taz=is_taz,
        communication=_communication(spec, size, rng),
        current=_occupied(spec, slots, job.size, rng),
    )


def _slots(spec: InstanceSpec, nodes: int, seed: int) -> Ints:
    """Draw from a separate stream, so that jobs do not depend on the slots."""
    slots: Ints = np.random.default_rng([seed, 1]).choice(np.atleast_1d(spec.slots), nodes)
    return slots


def _sizes(spec: InstanceSpec, rng: np.random.Generator) -> Ints:
    sizes: list[int] = []
    left = spec.containers
    while left:
        if spec.mix is JobMix.HPC:
            size = 2 ** int(rng.integers(0, int(np.log2(spec.largest)) + 1))
        else:
            size = int(min(1.0 + rng.pareto(1.1), spec.largest))
        sizes.append(min(size, left))
        left -= sizes[-1]
    return np.array(sizes, dtype=np.int64)


def _communication(spec: InstanceSpec, size: Ints, rng: np.random.Generator) -> Ints:
    """Draw a communication class for each job; jobs larger than a node are never ``node``."""
    drawn: Ints = rng.integers(0, 3, size.size)
    drawn[(drawn == Communication.NODE) & (size > np.max(spec.slots))] = Communication.RACK
    return drawn


def _intensities(spec: InstanceSpec, is_taz: Bools, rng: np.random.Generator) -> Floats:
    if not spec.has_real_intensities:
        return is_taz.astype(np.float64)
    drawn = rng.random(is_taz.size)
    share: Floats = np.where(is_taz, 0.4 + 0.6 * drawn, 0.4 * drawn).astype(np.float64)
    real: Floats = np.round(share, 3)
    return real


def _occupied(spec: InstanceSpec, slots: Ints, containers: int, rng: np.random.Generator) -> Ints:
    places = rng.permutation(np.repeat(np.arange(slots.size), slots))[:containers]
    runs = rng.random(containers) < spec.occupied
    return np.where(runs, places, NOWHERE)
