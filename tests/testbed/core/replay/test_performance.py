"""Performance is relative to the job alone on the best platform for it, and at most 1."""

from typing import Any

import numpy as np
import pytest

from apps.emulation.core.worlds import WORLDS
from apps.inventory.core.snapshot import Floats
from apps.testbed.core.demo_cluster import cluster_of
from apps.testbed.core.replay.clusters import cluster_from_document
from apps.testbed.core.replay.demand import Demand
from apps.testbed.core.replay.model import ProfileSource, ReplayOptions
from apps.testbed.core.replay.performance import Runs, performance
from apps.testbed.core.replay.run import run
from apps.testbed.core.replay.workloads import Application, workload

KINDS = ("analytics", "batch", "single_node")
NAMES = tuple(Application(f"app-{i}", KINDS[i % 3]) for i in range(12))
TWO = {
    "platforms": [{"name": "cr1.8xlarge"}, {"name": "hi1.4xlarge"}],
    "servers": [{"platform": "cr1.8xlarge", "count": 3}, {"platform": "hi1.4xlarge", "count": 3}],
}


@pytest.mark.parametrize("world", sorted(WORLDS))
@pytest.mark.parametrize("units", [0, 1, 7, 24])
def test_no_job_does_better_than_alone(world: str, units: int) -> None:
    rng = np.random.default_rng(units)
    n = 60
    load = workload(
        "few", NAMES, 4000.0 * np.arange(n, dtype=np.float64), rng.integers(len(NAMES), size=n),
        np.round(rng.exponential(3000.0, n)) + 60.0, units=np.full(n, units),
        tasks=rng.integers(0, 40, n), target_s=np.full(n, 2000.0 if not units else np.inf),
    )  # fmt: skip
    cluster = cluster_from_document(TWO, name="two")
    for seed in (1, 2, 3):
        options = ReplayOptions(policy="random", seed=seed, world=world,
                                profiles=ProfileSource.TRUE)  # fmt: skip
        found = run(cluster, load, options).performance
        assert np.nanmax(found) <= 1.0
        assert np.nanmin(found) > 0.0
        if units:
            assert np.nanmean(found) > 0.3  # the jobs are alone


def _alone(server: int, units: int, *, asked: int, **columns: Any) -> tuple[Floats, Any]:
    """Performance of the twelve applications, each run for 100 s on one server, and the truths."""
    cluster = cluster_from_document(TWO, name="two")
    options = ReplayOptions(seed=3, profiles=ProfileSource.TRUE)
    emulated = cluster_of(cluster.platforms, cluster.platform, cluster.rack, 3)
    n = len(NAMES)
    load = workload("x", NAMES, np.zeros(n), np.arange(n), np.full(n, 500.0),
                    units=np.full(n, asked), **columns)  # fmt: skip
    demand = Demand(load, cluster, emulated, options)
    runs = Runs(np.full(n, asked), np.ones(n), np.arange(n), np.ones(n, dtype=np.int64),
                np.full(n, server), np.full(n, units))  # fmt: skip
    found = performance(load, demand.truths, emulated.machines, [runs], np.full(n, 100_000.0), 3)
    return found * 100_000.0, demand.truths


def test_the_best_platform_is_that_of_the_application() -> None:
    alone_s, truths = _alone(0, 1, asked=1)
    best = np.array([truth.platform_speed.max() for truth in truths])
    phases = np.array([(np.diff([*t.phases.starts, 1.0]) / t.phases.rate).sum() for t in truths])
    assert best.max() > 1.0  # some are faster on the second platform
    assert alone_s == pytest.approx(500.0 / best * phases)


def test_two_tasks_keep_only_two_of_three_units_busy() -> None:
    all_s, _ = _alone(0, 3, asked=3)
    two_s, _ = _alone(0, 3, asked=3, tasks=np.full(len(NAMES), 2))
    assert two_s == pytest.approx(1.5 * all_s)


def test_an_unfinished_job_has_no_performance() -> None:
    cluster = cluster_from_document(TWO, name="two")
    load = workload(
        "x", NAMES, np.zeros(1), np.zeros(1, dtype=np.int64), np.full(1, 1e6), units=np.ones(1)
    )
    options = ReplayOptions(policy="random", profiles=ProfileSource.TRUE, until_s=10.0)
    assert np.isnan(run(cluster, load, options).performance).all()
