"""Start estimates beside the measured waits of pools of processors."""

import argparse
from pathlib import Path

import numpy as np
import pytest

from apps.scheduling.core.starts.estimates import estimate_starts
from apps.testbed.core.batch.jobs import ParallelJobs
from apps.testbed.core.batch.pool import Discipline, run_pool
from benchmarks import waits
from benchmarks.waits import Measured, at_submission

PROCESSORS = 16


def a_queue(seed: int, discipline: Discipline) -> Measured:
    """Sixty jobs that are submitted together, with exact predictions."""
    rng = np.random.default_rng(seed)
    seconds = np.round(rng.lognormal(5.0, 1.0, 60), 1)
    processors = np.minimum(2 ** rng.integers(0, 5, 60), PROCESSORS)
    jobs = ParallelJobs(np.zeros(60), processors, seconds, seconds)
    result = run_pool(jobs, PROCESSORS, discipline)
    return Measured(result, PROCESSORS, seconds, discipline is Discipline.EASY)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_with_exact_run_times_the_estimates_are_the_starts_under_easy(seed: int) -> None:
    queue = a_queue(seed, Discipline.EASY)
    found = estimate_starts(
        at_submission(queue, 59, is_peer=True), np.random.default_rng(1), draws=1
    )
    waits_s = queue.result.wait_s
    np.testing.assert_allclose(found.p50, waits_s[waits_s > 0.0], rtol=1e-9)


def test_the_waits_of_one_unit_jobs_are_estimated_within_the_goal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["waits", "--seeds", "2", "--estimates", "40", "--results", str(tmp_path)]
    monkeypatch.setattr("sys.argv", arguments)
    monkeypatch.setattr(waits, "FLOODS", 0)  # a few estimates of a flood err together
    assert waits.main() == 0
    assert "coverage 85-95 %: met" in capsys.readouterr().out
    assert (tmp_path / "waits.json").exists()


def test_estimates_too_few_for_every_flood_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["waits", "--seeds", "1", "--estimates", "15"])
    with pytest.raises(SystemExit):
        waits.main()
    assert "--estimates must be 16 or more, got 15" in capsys.readouterr().err


def test_with_the_fewest_estimates_every_queue_has_one() -> None:
    options = argparse.Namespace(estimates=waits.MIN_ESTIMATES, swf=Path("log"))
    assert [count for _, _, count in waits._queues(options)] == [16, 2, 1, 1, 1, 1]


def test_a_flood_grows_and_its_estimates_are_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = waits.flood(np.random.default_rng(1))
    quarters = of.result.wait_s.reshape(4, -1).mean(axis=1)
    assert (np.diff(quarters) > 0.0).all()
    assert quarters[3] > 600.0
    found = waits.estimates(of, 4, np.random.default_rng(2), np.random.default_rng(3))
    assert len(found) == 4
    assert all(each.p5_s <= each.p50_s <= each.p95_s for each in found)
    assert all(each.wait_s > 1.0 for each in found)


def test_the_interval_of_the_coverage_is_wider_if_estimates_err_together() -> None:
    def width(late: np.ndarray) -> float:
        wait_s = np.where(late, 100.0, 10.0)
        found = [waits.Estimate(each, 5.0, 10.0, 10.0, 15.0, 20.0, 10.0) for each in wait_s]
        of = waits.scores(found)
        assert of["coverage"] == pytest.approx(0.9)
        assert of["coverage_low"] < 0.9 < of["coverage_high"]
        return of["coverage_high"] - of["coverage_low"]

    apart = np.arange(1000) % 10 == 0
    together = np.arange(1000) < 100
    assert width(together) > 3.0 * width(apart)
