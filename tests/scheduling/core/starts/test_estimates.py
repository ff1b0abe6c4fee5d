"""Predicted starts of waiting jobs."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apps.scheduling.core.sizing.run_time import RunTime
from apps.scheduling.core.sizing.run_time_fit import RunTimeFit, fit_run_times
from apps.scheduling.core.starts.estimates import (
    KNOWN_PROGRESS,
    FreeUnits,
    History,
    Queue,
    RunningJob,
    WaitingGroup,
    estimate_starts,
    remaining,
)
from apps.scheduling.core.starts.state import NOBODY

INF = math.inf


def exactly(seconds: float) -> RunTime:
    """A run time without uncertainty."""
    return RunTime(seconds, seconds)


def group(
    units: int = 1, jobs: int = 1, seconds: float | None = 10.0, pools: str = "1", **values: Any
) -> WaitingGroup:
    """Jobs that may use the pools marked 1; gangs unless `fewest` says otherwise."""
    fields: dict[str, Any] = {"fewest": units, "kind": "best_effort", **values}
    allowed = np.array([mark == "1" for mark in pools])
    run = None if seconds is None else exactly(seconds)
    return WaitingGroup(allowed=allowed, units=units, jobs=jobs, run=run, **fields)


def running(rest_s: float, units: int = 1, pool: int = 0) -> RunningJob:
    return RunningJob({pool: units}, "best_effort", 0.0, exactly(rest_s))


def pools(*free: int, holder: tuple[int, ...] = (), until_s: tuple[float, ...] = ()) -> FreeUnits:
    """Pools of one server each."""
    return FreeUnits(
        np.array(free, dtype=np.int64),
        np.arange(len(free)),
        np.array(holder or [NOBODY] * len(free), dtype=np.int64),
        np.array(until_s or [INF] * len(free), dtype=np.float64),
    )


def servers(*free: int) -> FreeUnits:
    """Servers of one pool."""
    return FreeUnits(
        np.array(free, dtype=np.int64),
        np.zeros(len(free), dtype=np.int64),
        np.array([NOBODY]),
        np.array([INF]),
    )


def together(units: int, **values: Any) -> WaitingGroup:
    """Jobs whose units must be on one server."""
    return group(units, on_one_server=True, **values)


def starts(
    groups: list[WaitingGroup], busy: list[RunningJob], free: FreeUnits, **values: Any
) -> list[float]:
    queue = Queue(free, groups, busy, **values)
    found = estimate_starts(queue, np.random.default_rng(1), draws=24)
    return [round(value, 6) for value in found.p50.tolist()]


def test_jobs_of_a_group_start_one_after_the_other() -> None:
    assert starts([group(jobs=3)], [running(100.0)], pools(0)) == [100.0, 110.0, 120.0]


def test_a_gang_waits_until_enough_units_are_free_and_small_jobs_pass_it() -> None:
    busy = [running(100.0), running(150.0)]
    assert starts([group(2), group()], busy, pools(0)) == [150.0, 100.0]
    assert starts([group(2), group(seconds=80.0)], busy, pools(0)) == [180.0, 100.0]


def test_a_gang_that_has_waited_long_keeps_freed_units() -> None:
    busy = [running(100.0), running(150.0)]
    late = [group(2, reserve_s=0.0), group(seconds=80.0)]
    assert starts(late, busy, pools(0), max_reservations=1) == [150.0, 160.0]
    assert starts(late, busy, pools(0), max_reservations=0) == [180.0, 100.0]


def test_a_gang_that_has_waited_long_keeps_all_free_units_that_it_can_use() -> None:
    groups = [group(3, reserve_s=0.0), group(seconds=180.0)]
    assert starts(groups, [running(100.0)], pools(2), max_reservations=1) == [100.0, 110.0]


def test_a_job_that_ends_before_the_gang_has_its_units_is_backfilled() -> None:
    busy = [running(100.0), running(150.0)]
    groups = [group(2, reserve_s=0.0), group(jobs=2, seconds=40.0)]
    assert starts(groups, busy, pools(0), max_reservations=1) == [150.0, 100.0, 160.0]


def test_units_are_kept_until_the_pessimistic_end_of_running_jobs() -> None:
    # half done after 100 s, so it ends at 100 s, give or take 10; agents plan with 300 - 100 s
    late = RunningJob({0: 1}, "best_effort", 100.0, RunTime(200.0, 300.0), progress=0.5)
    groups = [group(2, reserve_s=0.0), group(seconds=170.0)]
    assert starts(groups, [late], pools(1), max_reservations=1) == [170.0, 0.0]


def test_without_a_prediction_agents_plan_with_a_margin_on_what_progress_tells() -> None:
    late = RunningJob({0: 1}, "best_effort", 1000.0, progress=0.5)  # planned end: 1250 s
    groups = [group(2, reserve_s=0.0), group(seconds=1240.0), group(seconds=1260.0)]
    found = starts(groups, [late], pools(1), max_reservations=1)
    assert found[:2] == [1240.0, 0.0]
    assert found[2] >= 1240.0


def test_easy_keeps_a_number_of_units_and_leaves_those_that_are_free_at_the_start() -> None:
    groups = [group(2, reserve_s=0.0), group(seconds=500.0)]
    busy = [running(100.0, units=3)]
    assert starts(groups, busy, pools(1), max_reservations=1) == [100.0, 100.0]
    assert starts(groups, busy, pools(1), max_reservations=1, is_counted=True) == [100.0, 0.0]


def test_units_are_kept_for_a_job_that_some_of_them_were_refused_to() -> None:
    groups = [group(refused=2, reserve_s=0.0), group(seconds=180.0)]
    assert starts(groups, [running(100.0)], pools(2), max_reservations=1) == [100.0, 100.0]


def test_a_short_job_delays_none_of_two_gangs_with_reservations() -> None:
    """It would end after the planned start of the first gang, and before that of the second."""
    groups = [group(2, reserve_s=0.0), group(4, reserve_s=0.0), group(seconds=150.0)]
    busy = [running(100.0), running(200.0, units=2)]
    assert starts(groups, busy, pools(1), max_reservations=2) == [100.0, 200.0, 210.0]


def test_two_gangs_with_reservations_keep_each_unit_once() -> None:
    late = [group(2, pools="10", reserve_s=0.0), group(2, pools="10", reserve_s=0.0)]
    groups = [*late, group(seconds=500.0, pools="11")]
    assert starts(groups, [running(100.0)], pools(1, 1), max_reservations=2) == [100.0, 110.0, 0.0]


def test_the_second_gang_of_a_group_keeps_no_unit_until_it_has_waited_long_too() -> None:
    groups = [group(2, jobs=2, seconds=1000.0, reserve_s=0.0, priority=1), group(seconds=2000.0)]
    busy = [running(100.0), running(150.0), running(200.0)]
    assert starts(groups, busy, pools(0), max_reservations=1) == [150.0, 1150.0, 200.0]


def test_a_reservation_whose_start_has_passed_is_planned_again_and_shorter_jobs_fill_the_gap() -> (
    None
):
    """A job of higher priority takes a unit of the gang for 300 s when it is freed."""
    urgent = group(seconds=300.0, refused=1, priority=5)
    groups = [urgent, group(2, reserve_s=0.0), group(seconds=150.0)]
    busy = [running(100.0)]
    assert starts(groups, busy, pools(1), max_reservations=1) == [100.0, 400.0, 100.0]


def test_units_of_a_reservation_serve_others_once_its_holder_has_started() -> None:
    free = pools(1, holder=(0,), until_s=(50.0,))
    assert starts([group(), group(seconds=100.0)], [], free) == [0.0, 10.0]


def test_units_that_are_freed_after_a_refusal_are_not_refused_when_another_group_starts() -> None:
    groups = [group(2, pools="10", refused=2), group(pools="01")]
    busy = [running(100.0), running(100.0, pool=1), running(150.0)]
    assert starts(groups, busy, pools(2, 0)) == [150.0, 100.0]


def test_quantiles_of_the_start_are_those_of_the_draws() -> None:
    busy = [RunningJob({0: 1}, "best_effort", 60.0, exactly(10.0), 0.5)]
    found = estimate_starts(Queue(pools(0), [group()], busy), np.random.default_rng(1), draws=20)
    rest = np.sort(remaining(busy, History(), np.random.default_rng(1), 20)[:, 0])
    expected = rest[[0, 9, 17, 18]]
    assert np.concatenate(found[:4]).tolist() == expected.tolist()


def test_units_reserved_for_a_gang_are_used_by_jobs_that_end_before_it_starts() -> None:
    free = pools(2, 0, holder=(0, NOBODY), until_s=(200.0, INF))
    groups = [
        group(3, pools="11"),
        group(seconds=190.0, pools="11"),
        group(seconds=210.0, pools="11"),
    ]
    busy = [running(200.0, pool=1)]
    assert starts(groups, busy, free) == [200.0, 0.0, 210.0]


def test_a_gang_uses_reserved_units_if_it_ends_in_time() -> None:
    free = pools(2, 0, holder=(0, NOBODY), until_s=(200.0, INF))
    groups = [group(3, pools="11"), group(2, seconds=190.0, pools="11")]
    assert starts(groups, [running(200.0, pool=1)], free) == [200.0, 0.0]


def test_an_incremental_job_uses_reserved_units_only_if_one_unit_would_finish_it_in_time() -> None:
    free = pools(2, 0, holder=(0, NOBODY), until_s=(200.0, INF))
    groups = [group(3, pools="11"), group(4, seconds=60.0, fewest=1, pools="11")]
    assert starts(groups, [running(500.0, pool=1)], free) == [500.0, 510.0]
    groups[1] = replace(groups[1], run=exactly(50.0))
    assert starts(groups, [running(500.0, pool=1)], free) == [500.0, 0.0]


def test_an_incremental_job_starts_with_the_free_units_and_takes_longer() -> None:
    groups = [group(4, fewest=1), group(2)]
    assert starts(groups, [running(500.0, units=2)], pools(2)) == [0.0, 20.0]


def test_higher_priority_starts_first_and_equal_groups_take_turns() -> None:
    equal = [group(jobs=2), group(jobs=2, seconds=20.0)]
    assert starts(equal, [running(100.0)], pools(0)) == [100.0, 130.0, 110.0, 140.0]
    ranked = [group(jobs=2, priority=5), group(jobs=2)]
    assert starts(ranked, [running(100.0)], pools(0)) == [100.0, 110.0, 120.0, 130.0]


def test_free_units_that_were_refused_stay_useless_to_the_group() -> None:
    groups = [group(refused=3), group(2)]
    assert starts(groups, [running(100.0)], pools(3)) == [10.0, 0.0]


def test_a_job_that_waits_for_better_units_takes_a_refused_one_when_its_patience_ends() -> None:
    """Two units were refused; one that is freed earlier serves the first job."""
    waiting = [group(jobs=2, seconds=100.0, refused=2, patience_s=[30.0, 50.0])]
    assert starts(waiting, [], pools(2)) == [30.0, 50.0]
    assert starts(waiting, [running(10.0)], pools(2)) == [10.0, 50.0]
    assert starts([group(refused=2, patience_s=[-5.0])], [], pools(2)) == [0.0]
    assert starts([group(refused=2)], [], pools(2)) == [INF]


def test_jobs_without_patience_are_not_held_up_by_the_patience_of_others() -> None:
    patient = group(seconds=100.0, refused=1, patience_s=[30.0])
    groups = [patient, group(seconds=100.0, refused=1), group(2)]
    assert starts(groups, [running(100.0)], pools(1)) == [30.0, 100.0, 200.0]


def test_jobs_that_arrive_later_take_no_unit_that_was_refused() -> None:
    """The first job takes one of two units soon; its successors leave the other one."""
    waiting = [
        group(refused=2, patience_s=[10.0], seconds=5000.0),
        group(refused=2, patience_s=[1000.0], seconds=5000.0),
    ]
    assert starts(waiting, [], pools(2), arriving=[0], gap_s=100.0) == [10.0, 1000.0]


def test_each_job_of_a_group_needs_its_patience() -> None:
    with pytest.raises(ValueError, match="one patience for each"):
        starts([group(jobs=2, patience_s=[1.0])], [], pools(0))


def test_a_job_on_one_server_waits_until_a_server_has_all_its_units() -> None:
    busy = [running(100.0, pool=1), running(150.0, pool=0)]
    assert starts([group(2)], busy, servers(1, 1)) == [0.0]
    assert starts([together(2)], busy, servers(1, 1)) == [100.0]
    assert starts([together(3)], busy, servers(1, 1)) == [INF]


def test_jobs_on_one_server_follow_each_other_where_units_are_freed() -> None:
    busy = [running(100.0, units=2, pool=1), running(150.0, units=2)]
    jobs = [together(2, jobs=4, seconds=30.0)]
    assert starts(jobs, busy, servers(0, 0)) == [100.0, 130.0, 150.0, 160.0]


def test_a_small_job_takes_a_unit_of_a_server_that_then_has_no_room_for_a_larger_one() -> None:
    jobs = [group(seconds=80.0), together(2, jobs=2, seconds=30.0)]
    assert starts(jobs, [], servers(2, 2)) == [0.0, 0.0, 30.0]


def test_a_job_on_one_server_that_has_waited_long_keeps_the_server_that_is_planned_first() -> None:
    busy = [running(100.0, pool=1), running(150.0, pool=1), running(120.0), running(400.0)]
    small = group(jobs=3, seconds=300.0)
    late = together(2, reserve_s=0.0, seconds=1000.0)
    assert starts([late, small], busy, servers(0, 0), max_reservations=0)[0] > 300.0
    found = starts([late, small], busy, servers(0, 0), max_reservations=1)
    assert found == [150.0, 120.0, 400.0, 420.0]


def test_a_server_that_was_kept_for_a_job_serves_others_if_another_server_has_room_first() -> None:
    """The planned end of server 1 is 100 s, but the two units of server 0 are freed at 50 s."""
    sooner = RunningJob({0: 2}, "best_effort", 0.0, RunTime(50.0, 200.0))
    history = History(fits={"best_effort": fitted(np.full(100, 1.0))})
    busy = [sooner, running(100.0, pool=1)]
    jobs = [together(2, reserve_s=0.0, seconds=500.0), group(seconds=500.0)]
    found = starts(jobs, busy, servers(0, 1), max_reservations=1, history=history)
    assert found == [50.0, 50.0]


def test_servers_that_were_refused_to_a_job_on_one_server_stay_useless_to_it() -> None:
    busy = [running(100.0, pool=1)]
    assert starts([together(2, refused=2)], busy, servers(2, 1)) == [100.0]
    patient = together(2, refused=2, patience_s=[30.0])
    assert starts([patient], busy, servers(2, 1)) == [30.0]


def test_a_job_on_one_server_starts_with_all_its_units() -> None:
    with pytest.raises(ValueError, match="starts with all 4 units"):
        together(4, fewest=1)


def test_each_free_unit_is_as_likely_to_be_taken() -> None:
    """With three of four chances, a unit of the only server that has room for the second job."""
    queue = Queue(servers(1, 3), [group(seconds=1000.0), together(3, seconds=10.0)], [])
    found = estimate_starts(queue, np.random.default_rng(1), draws=200)
    assert found.mean[1] == pytest.approx(750.0, abs=4 * 31.0)  # standard errors


def test_jobs_use_only_their_pools() -> None:
    groups = [group(pools="10"), group(pools="01")]
    busy = [running(100.0), running(30.0, pool=1)]
    assert starts(groups, busy, pools(0, 0)) == [100.0, 30.0]


def test_without_a_known_end_no_start_is_promised() -> None:
    busy = [RunningJob({0: 1}, "qps", 50.0)]
    assert starts([group()], busy, pools(0)) == [INF]


def test_unknown_run_times_are_those_of_ended_jobs_of_the_class() -> None:
    history = History(seconds={"qps": np.full(40, 80.0)})
    busy = [RunningJob({0: 1}, "qps", 50.0)]
    assert starts([group()], busy, pools(0), history=history) == [30.0]


def fitted(ratios: np.ndarray) -> RunTimeFit:
    """Run times in these ratios to equal predictions."""
    found = fit_run_times(np.full(ratios.size, 10.0), 10.0 * ratios)
    assert found is not None
    return found


def test_large_predictions_that_were_too_large_are_shrunk() -> None:
    rng = np.random.default_rng(2)
    seconds = rng.lognormal(5.0, 1.0, 4000)
    found = fit_run_times(seconds * rng.lognormal(0.0, 0.5, 4000), seconds)
    assert found is not None
    # 1 / (1 + 0.25), by the theory of regression to the mean
    assert found.slope == pytest.approx(0.8, abs=0.03)
    assert found.offset == pytest.approx(1.0, abs=0.2)
    assert fit_run_times(seconds[:29], seconds[:29]) is None


def test_errors_of_earlier_predictions_widen_and_shift_the_estimate() -> None:
    history = History(fits={"best_effort": fitted(np.linspace(1.0, 3.0, 101))})
    queue = Queue(pools(0), [group()], [running(100.0)], history=history)
    found = estimate_starts(queue, np.random.default_rng(1), draws=200)
    assert found.p50[0] == pytest.approx(200.0, abs=25.0)  # 4 standard errors of the median
    assert 100.0 <= found.p5[0] <= 130.0
    assert 270.0 <= found.p95[0] <= 300.0


def test_a_fit_to_few_jobs_widens_the_estimate_of_a_long_queue() -> None:
    def width(jobs: int) -> float:
        history = History(fits={"best_effort": fitted(np.linspace(0.9, 1.1, jobs))})
        queue = Queue(pools(0), [group(jobs=200)], [running(100.0)], history=history)
        found = estimate_starts(queue, np.random.default_rng(1), draws=200)
        return float(found.p95[-1] - found.p5[-1])

    # 200 errors of 6 % of 10 s add up to 10 s; that of the line, 6 % / sqrt(30), is common: 22 s
    assert width(30) > 2.0 * width(30_000)


def test_later_jobs_of_other_groups_delay_the_queue() -> None:
    busy = [running(100.0)]
    waits = [group(jobs=4), group(jobs=0, seconds=10.0)]
    alone = starts(waits, busy, pools(0))
    assert alone == [100.0, 110.0, 120.0, 130.0]
    assert starts(waits, busy, pools(0), arriving=[1], gap_s=1.0)[3] > 140.0
    same = starts([group(jobs=4)], busy, pools(0), arriving=[0], gap_s=1.0)
    assert same == alone  # they join the end of their group


def rests(job: RunningJob, history: History | None = None) -> list[float]:
    drawn = remaining([job], history or History(), np.random.default_rng(3), 400)
    return [round(float(np.quantile(drawn, q)), 1) for q in (0.0, 0.5, 1.0)]


def test_progress_tells_the_rest_of_a_running_job() -> None:
    low, middle, high = rests(RunningJob({0: 1}, "best_effort", 60.0, exactly(10.0), 0.5))
    assert middle == pytest.approx(60.0, rel=0.02)
    assert 40.0 < low < 55.0
    assert 65.0 < high < 90.0


def test_little_progress_is_enough_to_tell_the_rest() -> None:
    _, middle, _ = rests(RunningJob({0: 1}, "best_effort", 60.0, exactly(10.0), KNOWN_PROGRESS))
    assert middle == pytest.approx(60.0 * 19.0, rel=0.02)


@pytest.mark.parametrize("predicted_s", [10.0, 60.0])
def test_a_job_that_is_later_than_predicted_ends_soon(predicted_s: float) -> None:
    low, _, high = rests(RunningJob({0: 1}, "best_effort", 60.0, exactly(predicted_s)))
    assert 0.0 <= low < 1.0
    assert 14.0 < high <= 15.0


def test_the_elapsed_time_rules_out_short_run_times() -> None:
    history = History(fits={"best_effort": fitted(np.r_[np.full(50, 0.5), np.full(50, 2.0)])})
    job = RunningJob({0: 1}, "best_effort", 60.0, exactly(100.0))
    assert rests(job, history) == [140.0, 140.0, 140.0]


def test_an_empty_queue_and_an_empty_cluster_have_estimates() -> None:
    nothing = Queue(pools(), [], [])
    assert estimate_starts(nothing, np.random.default_rng(1)).p50.size == 0
    assert starts([group(pools="")], [], pools()) == [INF]
