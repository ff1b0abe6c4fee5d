"""Random small clusters: container sizes, tazes, communication, racks and platforms."""

import numpy as np

from apps.placement.core.rebalancing.cluster import RunningCluster

SOURCES = 3


def small_cluster(
    seed: int, *, servers: int = 6, containers: int = 9, is_plain: bool = False
) -> RunningCluster:
    """Draw a cluster with feasible allocations.

    ``is_plain``: every container has one unit, causes no interference and may run anywhere.
    """
    rng = np.random.default_rng(seed)
    units = rng.integers(3, 7, servers)
    size = np.ones(containers, dtype=np.int64) if is_plain else rng.integers(1, 3, containers)
    assignment, free = [], units.copy()
    for container_units in size.tolist():
        server = int(rng.choice(np.flatnonzero(free >= container_units)))
        free[server] -= container_units
        assignment.append(server)
    jobs = max(1, containers // 2)
    job = np.concatenate([np.arange(jobs), rng.integers(0, jobs, containers - jobs)])
    is_taz = rng.random(containers) < 0.4
    pressure = np.zeros((jobs, SOURCES)) if is_plain else rng.uniform(0.0, 60.0, (jobs, SOURCES))
    idle = rng.choice([60.0, 100.0], servers)
    return RunningCluster(
        at_s=0.0,
        sequence=1,
        server_id=np.arange(10, 10 + servers),
        server_name=tuple(f"srv-{i}" for i in range(servers)),
        rack=rng.integers(0, 2, servers),
        rack_name=("r0", "r1"),
        platform=np.zeros(servers, dtype=np.int64) if is_plain else rng.integers(0, 2, servers),
        platform_name=("fast", "slow"),
        units=units,
        idle_watts=idle,
        peak_watts=idle * 2.5,
        is_open=np.ones(servers, dtype=np.bool_),
        held_units=units - free,
        room=np.full((servers, 3), 100.0),
        allocation_id=np.arange(100, 100 + containers),
        job=job,
        assignment=np.array(assignment, dtype=np.int64),
        size=size,
        demand=np.tile(size[:, None] * 1.0, (1, 3)),
        intensity=np.where(is_taz, rng.uniform(0.5, 1.0, containers), rng.uniform(0, 0.5)),
        is_taz=is_taz,
        is_movable=np.ones(containers, dtype=np.bool_),
        job_id=tuple(f"j{i}" for i in range(jobs)),
        job_name=tuple(f"job-{i}" for i in range(jobs)),
        communication=rng.integers(0, 3, jobs),
        is_allowed=np.ones((jobs, servers), dtype=np.bool_),
        attainment=rng.choice([np.nan, 0.9, 1.0, 1.3], jobs),
        speed=np.tile([1.0, 0.6], (jobs, 1)),
        caused=pressure,
        tolerated=99.0 - pressure,
    )
