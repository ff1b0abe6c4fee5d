"""Training jobs drawn from measured throughputs, as in Gavel's simulations (OSDI 2020, §7).

Job types are equally likely. Run times on the fastest type are 10^x minutes, x uniform in
[1.5, 3] for 80 % of the jobs and in [3, 4] for the others; 70 % of the jobs request one
accelerator, 10 % two, 15 % four and 5 % eight. Arrivals are a Poisson process.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.testbed.core.accelerators.jobs import (
    TrainingJobs,
    equal_share_speed,
    speed_as_requested,
)
from apps.testbed.core.traces import Floats, Ints

COUNTS: Final = (1, 2, 4, 8)
OF_COUNT: Final = (0.7, 0.1, 0.15, 0.05)
SHORT: Final = 0.8
SHORT_LOG: Final = (1.5, 3.0)
LONG_LOG: Final = (3.0, 4.0)


@dataclass(frozen=True, slots=True, eq=False)
class Throughputs:
    """Measured steps per second.

    Attributes
    ----------
    names : of the job types
    speed : (T, J, K) by job type, accelerator type and number of `COUNTS`; 0 = did not run
    """

    names: tuple[str, ...]
    speed: Floats


def read_throughputs(rows: Iterable[Mapping[str, str]], types: Sequence[str]) -> Throughputs:
    """Read rows with `gpu`, `job_type`, `num_gpus` and `steps_per_s`; other types are left out.

    Job types that do not run alone on the first accelerator type are left out.
    """
    cells: dict[tuple[str, int, int], float] = {}
    for row in rows:
        if row["gpu"] in types and int(row["num_gpus"]) in COUNTS:
            place = types.index(row["gpu"]), COUNTS.index(int(row["num_gpus"]))
            cells[row["job_type"], *place] = float(row["steps_per_s"])
    names = sorted({name for name, *_ in cells})
    speed = np.array(
        [
            [[cells.get((n, j, k), 0.0) for k in range(len(COUNTS))] for j in range(len(types))]
            for n in names
        ]
    ).reshape(-1, len(types), len(COUNTS))
    kept = np.flatnonzero(speed[:, 0, 0] > 0.0)
    return Throughputs(tuple(names[n] for n in kept), speed[kept])


def poisson_trace(
    measured: Throughputs, available: Ints, jobs: int, load: float, rng: np.random.Generator
) -> TrainingJobs:
    """Draw jobs that would keep a share ``load`` of the accelerators busy.

    The load counts the time that a job needs if it spends it equally on every accelerator. A job
    that does not run on the fastest type, the first one, with the number drawn requests one.
    """
    kind = rng.integers(len(measured.names), size=jobs)
    option = rng.choice(len(COUNTS), size=jobs, p=OF_COUNT)
    option = np.where(measured.speed[kind, 0, option] > 0.0, option, 0)
    is_short = rng.random(jobs) < SHORT
    logs = np.where(is_short, rng.uniform(*SHORT_LOG, jobs), rng.uniform(*LONG_LOG, jobs))
    steps = 60.0 * 10.0**logs * measured.speed[kind, 0, option]
    counts = np.array(COUNTS, dtype=np.int64)
    speed = measured.speed[kind]
    equal = equal_share_speed(
        speed_as_requested(speed, counts[option], counts, available), available
    )
    span_s = float((counts[option] * steps / equal).sum()) / (available.sum() * load)
    return TrainingJobs(
        submit_s=np.sort(rng.uniform(0.0, span_s, jobs)),
        steps=steps,
        count=counts[option],
        counts=counts,
        speed=speed,
    )
