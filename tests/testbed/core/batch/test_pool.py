"""Batch queues: against plain models, queueing theory, hand-computed cases, and bad input."""

from dataclasses import replace
from math import factorial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.testbed.core.batch.jobs import ParallelJobs
from apps.testbed.core.batch.pool import Discipline, PoolError, PoolResult, run_pool

PROCESSORS = 10


def jobs(*rows: tuple[float, int, float, float]) -> ParallelJobs:
    """Jobs of (submit time, processors, seconds, estimate)."""
    submit, processors, seconds, estimate = (
        np.array(column) for column in zip(*rows, strict=True)
    )
    return ParallelJobs(
        submit.astype(np.float64), processors, seconds.astype(np.float64), estimate.astype(float)
    )


def random_jobs(seed: int) -> ParallelJobs:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 60))
    seconds = rng.integers(0, 30, count).astype(np.float64)
    return ParallelJobs(
        submit_s=np.sort(rng.integers(0, 80, count)).astype(np.float64),
        processors=rng.integers(1, PROCESSORS + 1, count),
        seconds=seconds,
        estimate_s=np.maximum(1.0, seconds + rng.integers(0, 20, count) * rng.integers(0, 2)),
    )


def plain_starts(work: ParallelJobs, backfills: bool) -> list[float]:
    """FCFS or EASY second by second: ends, then arrivals, then starts."""
    count = len(work)
    start: list[float] = [-1.0] * count

    def running(now: float) -> list[int]:
        return [j for j in range(count) if start[j] >= 0 and now < start[j] + work.seconds[j]]

    for now in range(4000):
        while True:
            queue = [j for j in range(count) if start[j] < 0 and work.submit_s[j] <= now]
            here = running(now)
            free = PROCESSORS - sum(int(work.processors[j]) for j in here)
            found = _startable(work, queue, here, start, free, now) if backfills else queue[:1]
            found = [j for j in found if work.processors[j] <= free]
            if not found:
                break
            start[found[0]] = now
        if min(start) >= 0:
            break
    return start


def _startable(
    work: ParallelJobs,
    queue: list[int],
    here: list[int],
    start: list[float],
    free: int,
    now: float,
) -> list[int]:
    if not queue or work.processors[queue[0]] <= free:
        return queue[:1]
    room, shadow = free, now
    for end, width in sorted((start[j] + work.estimate_s[j], work.processors[j]) for j in here):
        if room >= work.processors[queue[0]] and end > shadow:
            break
        room, shadow = room + int(width), end
    extra = room - int(work.processors[queue[0]])
    return [
        j
        for j in queue[1:]
        if work.processors[j] <= free
        and (now + work.estimate_s[j] <= shadow or work.processors[j] <= extra)
    ]


def positive(work: ParallelJobs) -> ParallelJobs:
    """The same jobs, of at least a second: a job of none ends in the second in which it starts."""
    return replace(work, seconds=work.seconds + 1.0, estimate_s=work.estimate_s + 1.0)


@given(st.integers(0, 10_000))
def test_fcfs_is_that_of_the_plain_model(seed: int) -> None:
    work = positive(random_jobs(seed))
    found = run_pool(work, PROCESSORS, Discipline.FCFS)
    assert found.started_s.tolist() == plain_starts(work, backfills=False)


@given(st.integers(0, 10_000))
def test_easy_is_that_of_the_plain_model(seed: int) -> None:
    work = positive(random_jobs(seed))
    found = run_pool(work, PROCESSORS, Discipline.EASY)
    assert found.started_s.tolist() == plain_starts(work, backfills=True)


@given(st.integers(0, 10_000), st.sampled_from(Discipline))
def test_no_processor_is_held_twice_and_no_job_starts_early(
    seed: int, discipline: Discipline
) -> None:
    work = random_jobs(seed)
    result = run_pool(work, PROCESSORS, discipline)
    assert (result.wait_s >= 0.0).all()
    for now in result.started_s.tolist():
        runs = (result.started_s <= now) & (now < result.started_s + work.seconds)
        assert work.processors[runs].sum() <= PROCESSORS


@given(st.integers(0, 10_000))
def test_conservative_backfill_keeps_its_reservations(seed: int) -> None:
    result = run_pool(random_jobs(seed), PROCESSORS, Discipline.CONSERVATIVE)
    assert (result.started_s <= result.promised_s).all()


@given(st.integers(0, 10_000))
def test_exact_estimates_make_reservations_exact(seed: int) -> None:
    """Then a reservation is the first gap that the earlier jobs leave, second by second."""
    work = random_jobs(seed)
    work = positive(replace(work, estimate_s=work.seconds))
    result = run_pool(work, PROCESSORS, Discipline.CONSERVATIVE)
    assert result.started_s.tolist() == result.promised_s.tolist()
    free = np.full(4000, PROCESSORS)
    for job in range(len(work)):
        length, width = int(work.seconds[job]), int(work.processors[job])
        at = int(work.submit_s[job])
        while (free[at : at + length] < width).any():
            at += 1
        free[at : at + length] -= width
        assert result.started_s[job] == at


def test_backfill_by_hand() -> None:
    """A wide job waits for the first; narrow jobs pass it where backfill is allowed."""
    work = jobs((0, 6, 10, 10), (1, 8, 5, 5), (2, 4, 8, 8), (3, 2, 50, 50))
    starts = {kind: run_pool(work, PROCESSORS, kind).started_s.tolist() for kind in Discipline}
    assert starts == {
        Discipline.FCFS: [0, 10, 15, 15],
        Discipline.EASY: [0, 10, 2, 10],
        Discipline.CONSERVATIVE: [0, 10, 2, 10],
    }


def test_an_early_end_moves_reservations_forward() -> None:
    work = jobs((0, 10, 4, 100), (1, 10, 5, 5), (2, 3, 1, 1))
    result = run_pool(work, PROCESSORS, Discipline.CONSERVATIVE)
    assert result.promised_s.tolist() == [0, 100, 105]
    assert result.started_s.tolist() == [0, 4, 9]


def test_bounded_slowdown_counts_short_jobs_as_ten_seconds() -> None:
    result = PoolResult(jobs((0, 1, 1, 1), (0, 1, 20, 20)), np.array([29.0, 20.0]), np.zeros(2))
    assert result.bounded_slowdown.tolist() == [3.0, 2.0]
    assert result.used_share(2) == pytest.approx(21 / 80)


def waits(seconds: Any, servers: int, load: float, rng: np.random.Generator) -> Any:
    count = seconds.size
    gaps = rng.exponential(seconds.mean() / (servers * load), count)
    work = ParallelJobs(np.cumsum(gaps), np.ones(count, dtype=np.int64), seconds, seconds)
    return run_pool(work, servers, Discipline.FCFS).wait_s[count // 10 :]


def assert_mean(values: Any, expected: float) -> None:
    """The expectation lies within the 99.9 % interval of batch means."""
    means = np.array([part.mean() for part in np.array_split(values, 40)])
    half = 3.56 * means.std(ddof=1) / np.sqrt(means.size)  # t distribution with 39 degrees
    assert abs(means.mean() - expected) <= half
    assert half < 0.25 * expected


def erlang_c(servers: int, load: float) -> float:
    """Probability that a job of M/M/c waits."""
    offered = servers * load
    last = offered**servers / factorial(servers) / (1.0 - load)
    return last / (sum(offered**k / factorial(k) for k in range(servers)) + last)


@pytest.mark.parametrize(("servers", "load"), [(1, 0.5), (1, 0.8), (4, 0.8), (20, 0.9)])
def test_m_m_c(servers: int, load: float) -> None:
    rng = np.random.default_rng(7)
    found = waits(rng.exponential(1.0, 400_000), servers, load, rng)
    assert_mean(found, erlang_c(servers, load) / (servers * (1.0 - load)))


@pytest.mark.parametrize("sigma", [0.0, 0.5, 1.0])
def test_m_g_1(sigma: float) -> None:
    """Pollaczek-Khinchine, for constant and log-normal run times."""
    rng = np.random.default_rng(8)
    seconds = rng.lognormal(0.0, sigma, 400_000)
    load, mean = 0.6, np.exp(sigma**2 / 2.0)
    second_moment = np.exp(2.0 * sigma**2)
    expected = load / mean * second_moment / (2.0 * (1.0 - load))
    assert_mean(waits(seconds, 1, load, rng), float(expected))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((0.0, 11, 1.0, 1.0), "processors of job 1 is 11; expected 1 to 10"),
        ((0.0, 0, 1.0, 1.0), "processors of job 1 is 0; expected 1 to 10"),
        (
            (-1.0, 1, 1.0, 1.0),
            "submit_s of job 1 is -1.0; expected at least that of the job before",
        ),
        ((np.nan, 1, 1.0, 1.0), "submit_s of job 1 is nan; expected a finite time"),
        ((0.0, 1, -1.0, 1.0), "seconds of job 1 is -1.0"),
        ((0.0, 1, 2.0, 1.0), "estimate_s of job 1 is 1.0; expected at least the run time"),
        (
            (0.0, 1, 0.0, 0.0),
            "estimate_s of job 1 is 0.0; expected at least the run time, above 0",
        ),
    ],
    ids=["wide", "empty", "early", "nan", "negative", "short estimate", "no estimate"],
)
def test_bad_jobs_are_refused(row: tuple[float, int, float, float], message: str) -> None:
    with pytest.raises(PoolError) as caught:
        run_pool(jobs((0.0, 1, 1.0, 1.0), row), PROCESSORS, Discipline.FCFS)
    assert message in str(caught.value)
