"""Jobs drawn from throughputs."""

import numpy as np
import pytest

from apps.testbed.core.accelerators.trace import (
    COUNTS,
    Throughputs,
    poisson_trace,
    read_throughputs,
)

FAST = [1.0, 1.8, 3.4, 6.0]
MEASURED = Throughputs(
    ("many", "one"), np.array([[FAST, [x / 2 for x in FAST]], [[2.0, 0, 0, 0], [1.0, 0, 0, 0]]])
)


def row(gpu: str, job: str, number: int, speed: str) -> dict[str, str]:
    return {"gpu": gpu, "job_type": job, "num_gpus": str(number), "steps_per_s": speed}


def test_throughputs_are_read_by_type_and_number() -> None:
    found = read_throughputs(
        [
            row("old", "b", 1, "0.5"),
            row("new", "b", 1, "2.0"),
            row("new", "b", 8, "9.0"),
            row("new_unconsolidated", "b", 8, "5.0"),
            row("new", "a", 2, "3.0"),
            row("old", "a", 1, "1.0"),
        ],
        ("new", "old"),
    )
    # a does not run alone on the first type
    assert found.names == ("b",)
    assert found.speed.tolist() == [[[2.0, 0.0, 0.0, 9.0], [0.5, 0.0, 0.0, 0.0]]]


def test_a_job_type_that_runs_on_one_accelerator_only_requests_one() -> None:
    jobs = poisson_trace(MEASURED, np.array([8, 8]), 500, 0.5, np.random.default_rng(1))
    is_one = jobs.speed[:, 0, 0] == 2.0
    assert set(jobs.count[is_one].tolist()) == {1}
    assert set(jobs.count[~is_one].tolist()) == set(COUNTS)
    assert jobs.submit_s.tolist() == sorted(jobs.submit_s.tolist())


def test_the_load_is_that_of_equal_time_on_all_accelerators() -> None:
    available = np.array([8, 24])
    rng = np.random.default_rng(2)
    jobs = poisson_trace(MEASURED, available, 4000, 0.5, rng)
    option = np.searchsorted(jobs.counts, jobs.count)
    alone = jobs.speed[np.arange(4000), :, option]
    needed = (jobs.count * jobs.steps / (alone @ (available / 32))).sum()
    assert needed / 32 / jobs.submit_s[-1] == pytest.approx(0.5, rel=0.01)


def test_run_times_on_the_first_type_are_those_of_the_paper() -> None:
    jobs = poisson_trace(MEASURED, np.array([8, 8]), 20_000, 0.5, np.random.default_rng(3))
    option = np.searchsorted(jobs.counts, jobs.count)
    minutes = jobs.steps / jobs.speed[np.arange(20_000), 0, option] / 60.0
    assert minutes.min() >= 10**1.5
    assert minutes.max() <= 10**4
    # 99.9 % interval of a share of 0.8 among 20,000
    assert (minutes < 1000.0).mean() == pytest.approx(0.8, abs=0.0093)
    assert (jobs.count == 8).mean() == pytest.approx(0.025, abs=0.0037)
