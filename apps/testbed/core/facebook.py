"""A day of a Facebook cluster as jobs of containers.

A node of eight cores has two containers of four (ClavisMO's reference [3]); a container works on
four blocks at a time. A job has as many containers as its tasks fill, at most what the users of
`jobs.nominal_target_s` assume, but enough to end within six hours, and at most 128 (ClavisMO
Table 1). Programs follow the size classes of the jobs, as in `jobs`; jobs with much traffic
between their containers are slowed down across racks. Source: ClavisMO §4.5.
"""

from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Ints
from apps.testbed.core.classes import similarity_classes
from apps.testbed.core.container_replay import ContainerJob
from apps.testbed.core.jobs import (
    BLOCK_BYTES,
    BLOCK_SECONDS,
    CLASSES,
    MAX_SLACK_S,
    PARALLELISM,
    work_bytes,
)
from apps.testbed.core.programs import MIX
from apps.testbed.core.traces import SwimTrace

CONTAINER_TASKS: Final = 4
MAX_CONTAINERS: Final = 128
RACK_LOSS: Final = 0.3  # of a job all of whose bytes are shuffled


def jobs_of_day(trace: SwimTrace, rng: np.random.Generator) -> list[ContainerJob]:
    """Make the jobs of a trace in order of submission; same trace and seed, same jobs."""
    work = work_bytes(trace)
    tasks = np.ceil(work / BLOCK_BYTES).astype(np.int64)
    size = containers_for(tasks)
    # tasks run in waves of four a container
    work_s = np.ceil(tasks / (size * CONTAINER_TASKS)) * BLOCK_SECONDS
    sizes = np.stack([trace.input_bytes, trace.shuffle_bytes, trace.output_bytes], axis=1)
    program = rng.permutation(len(MIX))[
        similarity_classes(np.log10(1.0 + sizes), CLASSES, rng) % len(MIX)
    ]
    moved = np.minimum(trace.shuffle_bytes / work, 1.0)
    traffic = 8.0 * trace.shuffle_bytes / (size * work_s)
    return [
        ContainerJob(
            key=f"t{i}",
            at_s=float(trace.submit_s[i]),
            program=MIX[program[i]].talking(float(traffic[i]), RACK_LOSS * float(moved[i])),
            size=int(size[i]),
            work_s=float(work_s[i]),
            nominal_s=float(work_s[i]),
        )
        for i in range(len(trace))
    ]


def containers_for(tasks: Ints) -> Ints:
    """(j,) number of containers for the number of tasks of each job."""
    at_once = np.minimum(tasks, PARALLELISM)
    in_time = tasks * BLOCK_SECONDS / MAX_SLACK_S
    wanted = np.ceil(np.maximum(at_once, in_time) / CONTAINER_TASKS).astype(np.int64)
    found: Ints = np.clip(wanted, 1, MAX_CONTAINERS)
    return found
