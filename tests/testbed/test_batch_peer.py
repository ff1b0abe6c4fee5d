"""The comparison of batch queues with AccaSim."""

import sys
from pathlib import Path

import numpy as np
import pytest

from apps.testbed.core.batch.jobs import ParallelJobs
from apps.testbed.files import read_swf
from benchmarks.batch_peer import (
    PeerError,
    compare,
    environment,
    read_starts,
    run_accasim,
    swf_lines,
    whole_seconds,
)

JOBS = ParallelJobs(
    submit_s=np.array([0.0, 1.6, 9.2]),
    processors=np.array([4, 1, 2]),
    seconds=np.array([10.0, 0.0, 7.4]),
    estimate_s=np.array([10.0, 1.0, 20.0]),
)


def test_both_simulators_read_the_same_jobs_in_whole_seconds(tmp_path: Path) -> None:
    jobs = whole_seconds(JOBS)
    log = tmp_path / "log.swf"
    log.write_text("".join(f"{line}\n" for line in swf_lines(jobs)))
    read = read_swf(log).jobs
    assert jobs.submit_s.tolist() == [0.0, 2.0, 9.0]
    assert jobs.seconds.tolist() == [10.0, 1.0, 7.0]
    assert read.submit_s.tolist() == jobs.submit_s.tolist()
    assert read.seconds.tolist() == jobs.seconds.tolist()
    assert read.estimate_s.tolist() == [10.0, 1.0, 20.0]
    assert read.processors.tolist() == [4, 1, 2]


def test_starts_are_those_of_the_schedule_and_missing_jobs_have_none() -> None:
    schedule = [
        "2;1;1970-01-01 00:00:02__1;1;0#__1970-01-02 00:00:11;1970-01-02 00:00:12;1;1;NA;1;\n",
        "1;1;1970-01-01 00:00:00__1;1;0#__1970-01-01 00:00:03;1970-01-01 00:00:13;4;4;NA;10;\n",
    ]
    starts = read_starts(schedule, 3)
    assert starts[:2].tolist() == [3.0, 86411.0]
    assert np.isnan(starts[2])


def test_the_row_counts_jobs_with_equal_waits() -> None:
    row = compare(0.5, "FIFO", np.array([1.0, 2.0, 3.0, 6.0]), np.array([1.0, 2.0, 3.0, 4.0]))
    assert row == ["0.5", "FIFO", "3.0 s", "2.5 s", "75.0 %"]


def test_a_python_without_accasim_is_reported_in_one_sentence() -> None:
    with pytest.raises(PeerError, match=r"does not run here: .*accasim"):
        run_accasim(Path(sys.executable), whole_seconds(JOBS), 4, "fifo")


def test_a_directory_that_cannot_be_used_is_reported_in_one_sentence(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("")
    with pytest.raises(PeerError, match="does not run here: "):
        environment(taken)
