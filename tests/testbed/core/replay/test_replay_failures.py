"""Replays with failures of servers."""

import numpy as np
import pytest

from apps.testbed.core.replay.errors import ReplayError
from apps.testbed.core.replay.failures import FailureClock
from apps.testbed.core.replay.model import Admission, Failures
from apps.testbed.core.replay.run import run
from tests.testbed.core.replay.cases import cluster, jobs, options

OFTEN = Failures(per_day=48.0, repair_s=600.0)


def failures_until(clock: FailureClock, end_s: float) -> list[tuple[float, int]]:
    found = []
    while clock.failure_s < end_s:
        at = clock.failure_s
        clock.repaired(at)
        found += [(at, server) for server in clock.failed(at)]
    return found


def test_failures_follow_their_rate_and_the_seed() -> None:
    days = 500
    found = failures_until(FailureClock(Failures(3.0, 60.0), 10, 1), 86_400.0 * days)
    # a Poisson count of 1,500 has a standard deviation of 39; few hit a server that is down
    assert 1_500 - 4 * 39 < len(found) < 1_500 + 4 * 39
    assert {server for _, server in found} == set(range(10))
    assert found == failures_until(FailureClock(Failures(3.0, 60.0), 10, 1), 86_400.0 * days)
    assert found != failures_until(FailureClock(Failures(3.0, 60.0), 10, 2), 86_400.0 * days)


def test_a_server_that_is_down_does_not_fail_again_until_it_is_repaired() -> None:
    clock = FailureClock(Failures(1_000.0, 86_400.0), 1, 1)
    assert clock.failed(3_600.0) == [0]
    assert clock.failed(7_200.0) == []
    assert clock.count == 1
    assert clock.repair_s == pytest.approx(86_400.0, rel=0.05)
    assert clock.repaired(2e5) == [0]


@pytest.mark.parametrize("admission", list(Admission))
def test_a_job_of_a_failed_server_is_submitted_again_and_starts_over(
    admission: Admission,
) -> None:
    load = jobs([0.0], [4_000.0])
    calm = run(cluster(1), load, options(admission=admission))
    result = run(cluster(1), load, options(admission=admission, failures=Failures(40.0, 600.0)))
    clock = FailureClock(Failures(40.0, 600.0), 1, 1)
    ended, start, restarts = None, 0.0, 0
    while ended is None:  # the server is down for 600 s after each failure
        at = clock.failure_s
        if at > start + calm.ended_s[0]:
            ended = start + calm.ended_s[0]
        elif clock.failed(at):
            start, restarts = at + 600.0, restarts + 1
            clock.skip_to(start)
            clock.repaired(start)
    assert restarts > 0
    assert result.restarts.tolist() == [restarts]
    assert result.ended_s[0] == pytest.approx(ended)
    assert result.started_s[0] == 0.0
    assert result.performance[0] < calm.performance[0] == pytest.approx(1.0)


def test_failures_free_units_and_keep_jobs_off_failed_servers() -> None:
    rng = np.random.default_rng(3)
    load = jobs(np.cumsum(rng.exponential(60.0, 300)), rng.exponential(1_500.0, 300))
    result = run(cluster(4, 4, 4, 4), load, options(failures=OFTEN, agents=2, sync_s=5.0))
    assert result.servers_failed > 5
    assert result.restarts.sum() > 0
    assert np.isfinite(result.ended_s).all()
    assert result.run.jobs_finished == 300
    again = run(cluster(4, 4, 4, 4), load, options(failures=OFTEN, agents=2, sync_s=5.0))
    assert result.ended_s.tolist() == again.ended_s.tolist()


def test_settings_of_a_seed_see_the_same_failures() -> None:
    load = jobs(np.arange(0.0, 40_000.0, 200.0), np.full(200, 600.0))
    of = [
        run(cluster(8, 8), load, options(policy=policy, failures=Failures(24.0, 60.0)))
        for policy in ("random", "least_loaded")
    ]
    assert of[0].servers_failed == of[1].servers_failed > 3


def test_a_job_that_no_server_survives_is_given_up_with_a_reason() -> None:
    result = run(cluster(1), jobs([0.0], [1e7]), options(failures=Failures(500.0, 60.0)))
    assert result.reason == ("ServersFailed: failed servers ended the job 21 times",)
    assert result.run.jobs_failed == 1


def test_a_job_that_never_fits_does_not_keep_the_replay_running() -> None:
    load = jobs([0.0, 0.0], [3e5, 10.0], units=[1, 9])
    result = run(cluster(2), load, options(failures=Failures(500.0, 6_000.0)))
    assert not result.reason[1].startswith("Running")
    assert np.isnan(result.ended_s[1])


@pytest.mark.parametrize(("per_day", "repair_s"), [(0.0, 1.0), (1.0, 0.0), (np.inf, 1.0)])
def test_failures_without_a_rate_or_a_repair_are_refused(per_day: float, repair_s: float) -> None:
    with pytest.raises(ReplayError, match="must be > 0"):
        Failures(per_day, repair_s)
