"""A synthetic workload that resembles the Google 2011 trace at task level.

Skewed job sizes and run times, three kinds of machines, and constraints as frequent as there.
"""

import numpy as np

from apps.testbed.core.google_tasks import CONSTRAINED, KINDS
from apps.testbed.core.reservation.model import NOWHERE, SCALE, Machines, Workload


def synthetic(
    tasks: int, machines: int, load: float, rng: np.random.Generator
) -> tuple[Workload, Machines]:
    """Draw a workload that keeps a share ``load`` of the cores busy."""
    jobs = max(1, tasks // 4)
    sizes = rng.geometric(0.5, jobs) + np.where(
        rng.random(jobs) < 0.02, rng.integers(0, 200, jobs), 0
    )
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    cpu = np.repeat(rng.choice([0.0125, 0.025, 0.0625, 0.125], jobs), sizes)
    memory = np.repeat(rng.uniform(0.005, 0.1, jobs), sizes)
    seconds = rng.lognormal(5.0, 1.2, cpu.size)
    cores = rng.choice([0.25, 0.5, 1.0], machines, p=[0.01, 0.93, 0.06])
    kinds = np.where(rng.random(jobs) < CONSTRAINED, 1 << rng.integers(0, KINDS, jobs), 0)
    has = rng.random((machines, KINDS)) < 0.5
    span_s = float((cpu * seconds).sum() / (cores.sum() * load))
    workload = Workload(
        submit_s=np.sort(rng.uniform(0.0, span_s, jobs)),
        first_task=first,
        cpu=np.rint(cpu * SCALE).astype(np.int64),
        memory=np.rint(memory * SCALE).astype(np.int64),
        seconds=seconds,
        needs=np.repeat(kinds, sizes).astype(np.int64),
        machine=np.full(cpu.size, NOWHERE),
    )
    return workload, Machines(
        cpu=np.rint(cores * SCALE).astype(np.int64),
        memory=np.rint(rng.choice([0.25, 0.5, 0.75, 1.0], machines) * SCALE).astype(np.int64),
        attributes=(has.astype(np.int64) << np.arange(KINDS)).sum(axis=1),
    )
