"""The report of `./dev bench queueing`."""

import json
from pathlib import Path

import numpy as np
import pytest

from apps.testbed.core.replay.clusters import synthetic_cluster
from benchmarks import queueing
from benchmarks.policies import MEAN_SPEED


def test_every_scheduler_runs_the_same_jobs(tmp_path: Path) -> None:
    argv = ["--servers", "4", "--loads", "0.5", "--seeds", "1", "--results", str(tmp_path)]
    assert queueing.main(argv) == 0
    tables = json.loads((tmp_path / "queueing.json").read_text())["tables"]
    assert [row[:4] for row in tables["sparrow"][1:]] == [
        [servers, size, "0.50", policy]
        for servers, size in (("demo", "1"), ("demo", "1 to 8"), ("equal", "1"))
        for policy in queueing.SPARROW
    ]
    assert [row[0] for row in tables["yarn"][1:]] == list(queueing.YARN)
    assert all(len(row) == len(table[0]) for table in tables.values() for row in table)
    used = [float(row[1]) + float(row[2]) for row in tables["yarn"][1:]]
    assert all(0.0 < share <= 1.0 for share in used)


def test_the_burst_is_in_the_second_queue_and_the_same_for_a_seed() -> None:
    load, again = (queueing.two_queues(400, seed=3) for _ in range(2))
    assert load.work_s.tolist() == again.work_s.tolist()
    burst = load.arrival_s[load.queue == 1]
    begin, end = queueing.BURST_S
    assert begin <= burst.min() < burst.max() <= end
    assert load.arrival_s[load.queue == 0].max() > end
    # work over units and time, at the mean speed: 1.5 of the units for the second queue
    demand = load.work_s[load.queue == 1].sum() / 400 / (end - begin) / MEAN_SPEED
    assert demand == pytest.approx(queueing.BURST, rel=0.2)


def test_a_job_that_ended_before_it_had_all_its_units_waited_until_its_end() -> None:
    cluster = synthetic_cluster(4)
    load = queueing.one_queue(int(cluster.units.sum()), 0.9, (1, 8), seed=1)
    found = queueing.replayed(cluster, load, 1, {"policy": "sparrow"})
    partial = np.isfinite(found.result.ended_s) & ~np.isfinite(found.result.whole_s)
    assert partial.any()
    _, _, half, most = queueing.waits(found.result, partial)
    taken = (found.result.ended_s - found.result.arrived_s)[partial]
    assert (half, most) == (np.quantile(taken, 0.5), np.quantile(taken, 0.99))
