"""Small clusters and workloads of the replay's tests."""

from typing import Any

import numpy as np

from apps.inventory.core.snapshot import Floats
from apps.testbed.core.replay.model import (
    ProfileSource,
    ReplayCluster,
    ReplayOptions,
    ReplayPlatform,
)
from apps.testbed.core.replay.workloads import Application, Workload, workload

BEST = ReplayPlatform("cr1.8xlarge", 2, 8e9, 1e9, 1e11, 10.0, 30.0)
PROGRAMS = (Application("p", "analytics"), Application("q", "batch"))


def cluster(*servers: int) -> ReplayCluster:
    """Servers of the highest-end platform with these units."""
    sizes = sorted(set(servers), reverse=True)
    platforms = tuple(
        ReplayPlatform("cr1.8xlarge" if not i else f"cr1-{cores}", cores, cores * 4e9,
                       cores * 1e9, cores * 1e11, 10.0, 30.0)
        for i, cores in enumerate(sizes)
    )  # fmt: skip
    kinds = np.array([sizes.index(cores) for cores in servers], dtype=np.int64)
    return ReplayCluster("test", platforms, kinds, np.zeros(len(servers), dtype=np.int64))


def jobs(
    arrival_s: list[float] | Floats, work_s: list[float] | Floats, **columns: Any
) -> Workload:
    """Jobs of one analytics program, of one unit unless given."""
    n = len(arrival_s)
    columns.setdefault("units", np.ones(n, dtype=np.int64))
    application = columns.pop("application", np.zeros(n, dtype=np.int64))
    return workload(
        "jobs", PROGRAMS, np.array(arrival_s), application, np.array(work_s), **columns
    )


def options(**values: Any) -> ReplayOptions:
    """True profiles and `random` unless given."""
    chosen: dict[str, Any] = {"profiles": ProfileSource.TRUE, "policy": "random", **values}
    return ReplayOptions(**chosen)
