"""Replays with hand-computed results, and properties that every replay has."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from apps.emulation.core.worlds import world_named
from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.cluster.in_memory_store import MemoryCluster
from apps.scheduling.core.registry import make
from apps.scheduling.core.sizing.allowances import EVERY
from apps.scheduling.core.types import Placed, Refused, Request
from apps.testbed.core.demo_cluster import cluster_of
from apps.testbed.core.replay.clusters import synthetic_cluster
from apps.testbed.core.replay.demand import Demand, LazyFacts, SizedRequest
from apps.testbed.core.replay.errors import ReplayCancelledError, ReplayError
from apps.testbed.core.replay.loop import ReplayLoop
from apps.testbed.core.replay.model import (
    Admission,
    ProfileSource,
    ReplayOptions,
    ReplayProgress,
    ReplayResult,
    RunRow,
)
from apps.testbed.core.replay.run import run
from apps.testbed.core.replay.workloads import Application, Workload, workload
from tests.testbed.core.replay.cases import PROGRAMS, cluster, jobs, options


def test_jobs_wait_for_units_and_start_when_they_are_freed() -> None:
    load = jobs([0.0, 1.0, 2.0], [20.0, 20.0, 5.0], units=[2, 2, 1])
    result = run(cluster(2), load, options())
    assert result.started_s[0] == 0.0
    assert result.started_s[1] == result.ended_s[0]
    assert result.started_s[2] == result.ended_s[1]
    assert result.units.tolist() == [2, 2, 1]
    assert result.reason == ("", "", "")


def test_a_job_alone_on_the_best_platform_has_performance_one() -> None:
    result = run(cluster(4), jobs([0.0, 1e5], [300.0, 300.0]), options())
    assert result.performance == pytest.approx([1.0, 1.0])


def test_waiting_counts_against_performance() -> None:
    result = run(cluster(1), jobs([0.0, 0.0], [300.0, 300.0]), options())
    assert result.performance == pytest.approx([1.0, 0.5])


def test_an_impossible_gang_blocks_nobody_and_is_reported() -> None:
    load = jobs([0.0, 1.0, 2.0], [10.0, 10.0, 10.0], units=[9, 1, 1])
    result = run(cluster(2, 2), load, options())
    assert result.reason[0].startswith("NoMatchingServer: ")
    assert result.reason[1:] == ("", "")
    row = result.run
    assert (row.jobs_submitted, row.jobs_finished, row.jobs_unfinished) == (3, 2, 1)


def test_a_strict_queue_is_blocked_and_says_so() -> None:
    load = jobs([0.0, 1.0, 2.0], [10.0, 10.0, 10.0], units=[9, 1, 1])
    result = run(cluster(2, 2), load, options(admission=Admission.FIFO))
    assert [reason.split(":")[0] for reason in result.reason] == [
        "NoMatchingServer",
        "BehindFirst",
        "BehindFirst",
    ]


class Listener:
    """`slot_rr` that notes the jobs of each batch that it decides."""

    name, version, draws_sample = "slot_rr", 1, False

    def __init__(self) -> None:
        self.policy, self.batches = make("slot_rr"), list[list[str]]()

    def place(
        self, snapshot: Snapshot, requests: Sequence[Request], rng: np.random.Generator
    ) -> list[Placed | Refused]:
        self.batches.append([request.job for request in requests])
        return self.policy.place(snapshot, requests, rng)


def heard(load: Workload, **values: Any) -> tuple[list[list[str]], ReplayLoop]:
    chosen, servers, listener = options(**values), cluster(2, 2), Listener()
    emulated = cluster_of(servers.platforms, servers.platform, servers.rack, chosen.seed)
    loop = ReplayLoop(emulated, Demand(load, servers, emulated, chosen), listener, chosen)
    for _ in loop.turns():
        pass
    return listener.batches, loop


LINE = jobs([0.0] * 5, [10.0, 20.0, 30.0, 40.0, 50.0], units=[1, 1, 3, 1, 4])


def test_a_policy_of_joint_placement_receives_the_jobs_of_the_line_together() -> None:
    batches, loop = heard(LINE, admission=Admission.FIFO, together=True)
    assert batches[0] == ["0", "1", "2", "3", "4"]
    started = [record.started_s for record in loop.records]
    # the third needs three units of the two that are free: the fourth does not pass it
    assert started[:2] == [0.0, 0.0]
    assert started[2:4] == [record.ended_s for record in loop.records[:2]]
    assert started[4] == max(record.ended_s for record in loop.records[:4])


def test_a_joint_decision_is_in_the_order_of_arrival_up_to_the_batch() -> None:
    batches, _ = heard(LINE, admission=Admission.FIFO, together=True, batch=2)
    assert batches[:2] == [["0", "1"], ["2", "3"]]


def test_jobs_that_arrive_behind_a_blocked_one_do_not_decide_it_again() -> None:
    load = jobs([0.0, 1.0, 2.0, 3.0], [50.0, 10.0, 10.0, 10.0], units=[1, 4, 1, 1])
    batches, loop = heard(load, admission=Admission.FIFO)
    assert batches == [["0"], ["1"], ["1"], ["2"], ["2"], ["3"]]
    assert loop.records[1].refusals == 1


def test_only_a_line_is_decided_together() -> None:
    with pytest.raises(ReplayError, match="only in order of arrival"):
        options(together=True)


def test_a_large_gang_waits_while_small_jobs_pass_it() -> None:
    load = jobs([0.0, 1.0, 2.0], [100.0, 10.0, 10.0], units=[1, 4, 1])
    result = run(cluster(2, 2), load, options())
    assert result.started_s[2] == 2.0
    assert result.started_s[1] == max(result.ended_s[0], result.ended_s[2])


def test_an_impossible_target_is_refused_for_good() -> None:
    load = jobs([0.0], [1e6], units=[0], target_s=[10.0], tasks=[1])
    result = run(cluster(2), load, options())
    assert result.failed.tolist() == [True]
    assert result.reason[0].startswith("InfeasibleTarget: request at least")
    assert result.run.jobs_failed == 1


def test_a_decision_takes_its_time_and_the_commit_follows() -> None:
    load = jobs([0.0, 0.5], [10.0, 10.0])
    result = run(cluster(4), load, options(decision_s=1.0))
    assert result.started_s.tolist() == [1.0, 2.0]


def test_two_agents_decide_at_the_same_time() -> None:
    load = jobs([0.0, 0.5], [10.0, 10.0])
    result = run(cluster(4), load, options(decision_s=1.0, agents=2))
    assert result.started_s.tolist() == [1.0, 1.5]


def test_agents_that_decide_meanwhile_lose_conflicts_and_still_place_every_job() -> None:
    rng = np.random.default_rng(3)
    load = jobs(np.cumsum(rng.exponential(0.5, 300)), rng.exponential(20.0, 300))
    timing = {"agents": 4, "sync_s": 5.0, "decision_s": 0.3}
    result = run(cluster(8, 8, 4, 16), load, options(policy="tarcil", **timing))
    assert result.conflicts.sum() > 0
    assert not np.isnan(result.ended_s).any()


def test_more_urgent_jobs_are_decided_first() -> None:
    load = jobs([0.0, 1.0, 2.0], [10.0, 10.0, 10.0], priority=[0, 0, 5])
    result = run(cluster(1), load, options())
    assert result.started_s[2] == result.ended_s[0]
    assert result.started_s[1] == result.ended_s[2]


def test_a_job_ends_after_its_duration_even_with_work_left() -> None:
    load = jobs([0.0, 0.0], [1e9, np.inf], duration_s=[60.0, 90.0])
    result = run(cluster(2), load, options())
    assert result.ended_s.tolist() == [60.0, 90.0]


def test_a_replay_that_ends_early_reports_what_runs_and_what_was_not_submitted() -> None:
    load = jobs([0.0, 0.0, 70.0], [1e6, 30.0, 30.0])
    result = run(cluster(4), load, options(until_s=60.0))
    assert [reason.split(":")[0] for reason in result.reason] == ["Running", "", "NotSubmitted"]
    assert result.run.jobs_submitted == 2
    assert result.used_share[-1] == pytest.approx(0.25)


def as_comparable(result: ReplayResult) -> list[object]:
    values = [getattr(result, field.name) for field in fields(result) if field.name != "run"]
    row = replace(result.run, wall_seconds=0.0)
    return [row, *(v.tolist() if isinstance(v, np.ndarray) else v for v in values)]


@pytest.mark.parametrize("profiles", list(ProfileSource))
def test_the_same_input_and_seed_give_the_same_result(profiles: ProfileSource) -> None:
    rng = np.random.default_rng(5)
    load = jobs(
        np.cumsum(rng.exponential(2.0, 200)), rng.exponential(300.0, 200), units=np.zeros(200)
    )
    chosen = options(policy="tarcil", profiles=profiles, agents=2, sync_s=3.0)
    first, again = (run(synthetic_cluster(60), load, chosen) for _ in range(2))
    other = run(synthetic_cluster(60), load, replace(chosen, seed=2))
    assert repr(as_comparable(first)) == repr(as_comparable(again))
    assert not np.array_equal(first.ended_s, other.ended_s)


def test_inferred_profiles_are_not_the_truth() -> None:
    rng = np.random.default_rng(5)
    load = jobs(
        np.cumsum(rng.exponential(2.0, 200)), rng.exponential(300.0, 200), units=np.zeros(200)
    )
    of = [
        run(synthetic_cluster(60), load, options(policy="tarcil", profiles=each))
        for each in ProfileSource
    ]
    assert not np.array_equal(of[0].ended_s, of[1].ended_s)
    assert not np.array_equal(of[0].ended_s, of[2].ended_s)


def test_without_profiling_applications_of_a_kind_look_alike() -> None:
    load, servers = jobs([0.0, 1.0], [10.0, 10.0], application=np.array([0, 1])), cluster(4)
    one_kind = replace(load, applications=(PROGRAMS[0], replace(PROGRAMS[0], name="r")))
    emulated = cluster_of(
        servers.platforms, servers.platform, servers.rack, 1, world_named("paper")
    )
    of = {
        source: Demand(one_kind, servers, emulated, options(profiles=source)).profiles
        for source in (ProfileSource.NONE, ProfileSource.INFERRED)
    }
    first, second = of[ProfileSource.NONE]
    assert (first.application, second.application) == ("p", "r")
    assert np.array_equal(first.tolerated.value, second.tolerated.value)
    assert first.base_rate == second.base_rate
    assert not any(first.tolerated.measured)
    assert of[ProfileSource.INFERRED][0].base_rate != of[ProfileSource.INFERRED][1].base_rate


def test_other_weights_give_other_placements_and_only_policies_with_them_take_them() -> None:
    rng = np.random.default_rng(5)
    load = jobs(np.cumsum(rng.exponential(2.0, 200)), rng.exponential(300.0, 200))
    of = [
        run(synthetic_cluster(60), load, options(policy="expected", parameters=values))
        for values in (None, {"kept": 0.3}, {"neighbours": 0, "spread": 0.0})
    ]
    assert np.array_equal(of[0].ended_s, of[1].ended_s)
    assert not np.array_equal(of[0].ended_s, of[2].ended_s)
    with pytest.raises(ReplayError, match="tarcil has no parameters, so 'kept' cannot be set"):
        run(synthetic_cluster(60), load, options(policy="tarcil", parameters={"kept": 1.0}))


def test_progress_is_shown_and_a_run_can_be_cancelled() -> None:
    shown: list[ReplayProgress] = []
    load = jobs(np.arange(2000.0), np.full(2000, 3.0))
    run(cluster(8), load, options(), shown.append)
    assert 100 < len(shown) <= 2000
    assert [each.now_s for each in shown] == sorted(each.now_s for each in shown)
    with pytest.raises(ReplayCancelledError):
        run(cluster(8), load, options(), None, lambda: True)


def test_the_row_has_the_documented_fields() -> None:
    row = run(cluster(2), jobs([0.0], [10.0]), options()).run
    assert list(row.as_json()) == [
        "policy", "seed", "jobs_submitted", "jobs_finished", "jobs_failed", "jobs_unfinished",
        "performance_mean", "performance_p5", "utilisation_mean", "wait_p50_s", "wait_p99_s",
        "energy_kwh", "events", "wall_seconds", "migrations",
    ]  # fmt: skip
    assert row.as_json()["wall_seconds"] is None
    assert isinstance(row, RunRow)


def test_an_unknown_policy_world_or_kind_is_an_error() -> None:
    load = jobs([0.0], [10.0])
    with pytest.raises(
        ReplayError, match="unknown policy 'best'; known are autoscale, dot_product, expected"
    ):
        run(cluster(2), load, options(policy="best"))
    with pytest.raises(ReplayError, match="world must be one of"):
        run(cluster(2), load, options(world="flat"))
    strange = workload("w", [Application("a", "magic")], *load_columns())
    with pytest.raises(ReplayError, match="kind must be one of"):
        run(cluster(2), strange, options())


def load_columns() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.zeros(1), np.zeros(1, dtype=np.int64), np.ones(1)


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"units": [-1]}, "must not be negative"),
        ({"target_s": [0.0]}, "targets and durations must be > 0"),
        ({"duration_s": [np.nan]}, "targets and durations must be > 0"),
        ({"tasks": [1, 2]}, "one value for each job"),
        ({"unitz": [1]}, "no column unitz"),
    ],
    ids=["units", "target", "duration", "length", "name"],
)
def test_an_invalid_workload_names_its_problem(columns: dict[str, Any], problem: str) -> None:
    with pytest.raises(ReplayError, match=problem):
        workload("w", [Application("a", "batch")], *load_columns(), **columns)


@pytest.mark.parametrize("decision_s", [0.0, 0.7])
@pytest.mark.parametrize("admission", list(Admission))
def test_one_agent_without_delay_decides_as_with_a_copy_of_its_own(
    monkeypatch: pytest.MonkeyPatch, admission: Admission, decision_s: float
) -> None:
    rng = np.random.default_rng(5)
    load = jobs(
        np.sort(rng.uniform(0.0, 300.0, 120)), rng.exponential(90.0, 120) + 1.0,
        units=rng.integers(1, 5, 120), gang=rng.random(120) < 0.5,
        application=rng.integers(0, 2, 120),
    )  # fmt: skip
    chosen = options(policy="tarcil", admission=admission, decision_s=decision_s)
    shared = run(cluster(4, 4, 8), load, chosen)
    monkeypatch.setattr(ReplayOptions, "has_sole_agent", False)
    own = run(cluster(4, 4, 8), load, chosen)
    assert shared.refusals.sum() > 0
    for name in ("started_s", "ended_s", "units", "refusals", "conflicts"):
        assert getattr(shared, name).tolist() == getattr(own, name).tolist()
    assert shared.reason == own.reason


def test_sizes_count_on_the_speed_of_the_jobs_that_ended_before() -> None:
    n = 2 * EVERY + 1
    load = jobs(np.arange(float(n)), np.full(n, 1000.0), units=np.zeros(n),
                target_s=np.full(n, 9000.0))  # fmt: skip
    servers = cluster(16, 16)
    emulated = cluster_of(servers.platforms, servers.platform, servers.rack, 1)
    demand = Demand(load, servers, emulated, options())
    facts = LazyFacts(MemoryCluster(emulated.topology, is_compiled=True).snapshot())
    first = demand.allowances.now
    for job in range(n - 1):
        sized = demand.request(job, float(job), facts)
        assert isinstance(sized, SizedRequest)
        demand.order(job, sized, [(0, sized.request.units)])
        demand.ended(job, 1e5, is_whole=job >= EVERY)  # far slower than predicted
        if job == EVERY - 1:
            assert demand.allowances.now == first  # these did not run as sized
    assert demand.allowances.now.completion_time < first.completion_time


def test_the_loop_tells_how_long_its_jobs_ran() -> None:
    load = jobs([0.0, 1.0], [20.0, 5.0], target_s=[1e4, 1e4], units=[0, 0])
    heard: list[tuple[int, float, bool]] = []

    class Listening(Demand):
        def ended(self, job: int, ran_s: float, *, is_whole: bool) -> None:
            heard.append((job, ran_s, is_whole))

    servers, chosen = cluster(1), options()
    emulated = cluster_of(servers.platforms, servers.platform, servers.rack, 1)
    source = Listening(load, servers, emulated, chosen)
    loop = ReplayLoop(emulated, source, make("random"), chosen)
    for _ in loop.turns():
        pass
    spans = [(r.started_s, r.ended_s) for r in loop.records]
    assert heard == [(job, end - start, True) for job, (start, end) in enumerate(spans)]
