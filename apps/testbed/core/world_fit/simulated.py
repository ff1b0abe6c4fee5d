"""The measurements repeated in a world: arrays of the shape of those of `data_sets`."""

from typing import Final

import numpy as np

from apps.common.core.interference import N_SOURCES, SOURCES
from apps.emulation.core.queueing import latency_percentile
from apps.emulation.core.stragglers import task_durations, task_seed
from apps.emulation.core.truth import Truth, interference_factor
from apps.emulation.core.worlds import World
from apps.inventory.core.snapshot import Floats
from apps.testbed.core.world_fit.data_sets import LOAD, MICROBENCHMARKS, PERCENTILE, SHARING

# The source that stands for each of `data_sets.MICROBENCHMARKS`.
SOURCE_OF: Final = tuple(
    SOURCES.index(s)
    for s in ("core", "l1d", "l1i", "llc_bandwidth", "llc_capacity", "memory_bandwidth")
)
CAPACITY: Final = 50_000.0  # queries/s of one unit, as memcached
SERVICES: Final = 100  # of which the median one is found
SERVERS: Final = 2_000  # of which the slowest 5 % and 1 % are found


def applications(
    world: World, kind: str, count: int, seed: int, platforms: int = 1
) -> list[Truth]:
    """Draw applications on platforms that no table lists."""
    names = [f"platform-{i}" for i in range(platforms)]
    catalogue = world.catalogue(names, seed=seed)
    return [
        world.application_truth(seed, f"application-{i}", kind, catalogue) for i in range(count)
    ]


def heterogeneity(world: World, kind: str, like: Floats, seed: int) -> Floats:
    """(n, k, columns) log speed; NaN where the data have none."""
    is_row = ~np.isnan(like).all(axis=2)
    drawn = applications(world, kind, int(is_row.sum()), seed, like.shape[2])
    values = np.full(like.shape, np.nan)
    values[is_row] = np.log([truth.platform_speed for truth in drawn])
    return np.where(np.isnan(like), np.nan, values)


def scale_up(world: World, kind: str, like: Floats, seed: int) -> Floats:
    """(n, k, 2) log speed-up on 4 and 8 units."""
    is_row = ~np.isnan(like).all(axis=2)
    drawn = applications(world, kind, int(is_row.sum()), seed)
    values = np.full(like.shape, np.nan)
    values[is_row] = [[np.log(t.scale_up.speed_up(units)) for units in (4, 8)] for t in drawn]
    return values


def scale_out(world: World, kind: str, like: Floats, seed: int) -> Floats:
    """(n, k) exponents between 4 and 12 servers; an application has the same in all contexts."""
    found = [
        np.log(truth.scale_out.speed_up(12) / truth.scale_out.speed_up(4)) / np.log(3.0)
        for truth in applications(world, kind, len(like), seed)
    ]
    return np.where(np.isnan(like), np.nan, np.array(found)[:, None])


def slowdown(world: World, kind: str, like: Floats, seed: int) -> Floats:
    """(n, 1, 6) log slowdown next to single sources at full intensity."""
    drawn = applications(world, kind, len(like), seed)
    return np.array([_losses(truth) for truth in drawn])[:, None, SOURCE_OF]


def classes(world: World, kind: str, like: Floats, seed: int) -> Floats:
    """(n, 1, 2) classes of what programs cause and of sensitivity, as frequent as in the data."""
    drawn = applications(world, kind, len(like), seed)
    scores = np.array([[truth.caused.mean(), _losses(truth).mean()] for truth in drawn])
    found = np.empty_like(scores)
    for side in range(2):
        order = np.argsort(np.argsort(scores[:, side]))
        found[:, side] = np.sort(like[:, 0, side])[order]
    return found[:, None]


def shared(world: World, kind: str, like: Floats, seed: int) -> Floats:
    """(n, n, 1) loss of each application on one unit next to another on the other unit."""
    drawn = applications(world, kind, len(like), seed)
    caused = np.array([truth.caused for truth in drawn])
    loss = [1.0 - interference_factor(caused, t.tolerated, t.curves) for t in drawn]
    return np.array(loss)[:, :, None]


def noise(world: World, kind: str, like: Floats, seed: int) -> Floats:
    """(n, 1) log of the noise of a rate."""
    drawn = applications(world, kind, len(like), seed)
    return np.log([[truth.noise.rate] for truth in drawn])


def server_speed(world: World, kind: str, like: Floats, seed: int) -> Floats:
    """(n, 1, 2) log ratio of the median server to the slowest 5 % and 1 %."""
    speed = world.server_speed(seed, np.arange(SERVERS))
    slow = np.log(np.median(speed) / np.quantile(speed, [0.05, 0.01]))
    return np.broadcast_to(slow, (len(like), 1, 2))


def tasks(world: World, kind: str, like: Floats, seed: int) -> Floats:
    """(n, tasks) log durations of the tasks of one job of each application over their median."""
    values = np.full(like.shape, np.nan)
    counts = np.sum(~np.isnan(like), axis=1).tolist()
    drawn = applications(world, kind, len(like), seed)
    for row, count, truth in zip(values, counts, drawn, strict=True):
        logs = np.log(task_durations(count, truth.task_spread, task_seed(seed, truth.name)))
        row[:count] = logs - np.median(logs)
    return values


def service_capacity(world: World, kind: str, like: Floats, seed: int) -> Floats:
    """(n, 1, 6) log slowdown of the capacity next to single sources at full intensity."""
    return slowdown(world, kind, like, seed)


def service_latency(world: World, kind: str, like: Floats, seed: int) -> Floats:
    """(n, 1, 4) log ratio of the 95th percentile to that alone, of a typical service of one unit.

    All set-ups of the data run the same service, so the world's is the median one.
    """
    sources = [SOURCE_OF[MICROBENCHMARKS.index(name)] for name in SHARING]
    rows = []
    for truth in applications(world, kind, SERVICES, seed):
        left = np.exp(-np.concatenate(([0.0], _losses(truth)[sources])))
        units, load = np.ones(left.size, dtype=np.int64), np.full(left.size, LOAD * CAPACITY)
        percentile = np.full(left.size, PERCENTILE)
        latency = latency_percentile(units, CAPACITY * left, load, percentile)
        logs = np.log(latency / left**truth.latency_power)
        rows.append(logs[1:] - logs[0])
    return np.broadcast_to(np.median(rows, axis=0), (len(like), 1, len(SHARING)))


def _losses(truth: Truth) -> Floats:
    """(N,) log slowdown next to each source at full intensity."""
    alone = 100.0 * np.eye(N_SOURCES)
    return np.maximum(-np.log(interference_factor(alone, truth.tolerated, truth.curves)), 1e-9)
