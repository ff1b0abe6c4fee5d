"""Classes, pools and verdicts of ARQ."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.admission.arq import MAX_JOINED, ArqAdmission
from apps.scheduling.core.admission.pools import CLASSES, class_of, pool_of_servers
from apps.scheduling.core.admission.types import (
    ADMITTED,
    FORGET_S,
    Admitted,
    Applicant,
    Delayed,
    QueueState,
    with_rates_of_all_agents,
)
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.registry import make
from apps.scheduling.core.types import RefusalReason, Refused, Within
from tests.scheduling.core.clusters import frozen, idle, request, topology

NOW_S = 1000.0
BUSY_S = 10.0


def cluster(free: list[int], contention: list[float]) -> Snapshot:
    """Servers of five units, with free units and contention in points in all sources."""
    snapshot = idle(topology((5,) * len(free)))
    caused = np.repeat(np.array(contention) * 4.0, N_SOURCES).reshape(-1, N_SOURCES)
    is_free = np.concatenate([np.arange(5) < count for count in free])
    return replace(
        snapshot, unit_free=frozen(is_free), server_caused=frozen(caused.astype(np.float32))
    )


def applicant(
    job: str = "job-1", *, caused: float = 95.0, units: int = 1, **more: Any
) -> Applicant:
    """A job of class 9 that runs for an hour unless given, so that its slack is 180 s."""
    fields = {name: more.pop(name) for name in ("gang", "platforms", "locality") if name in more}
    of = request(units, job=job, caused=np.full(N_SOURCES, caused), **fields)
    return Applicant(of, **{"waited_s": 0.0, "run_s": 3600.0, **more})


def seen(made: ArqAdmission, snapshot: Snapshot, *jobs: Applicant) -> list[Admitted | Delayed]:
    return made.evaluate(jobs, snapshot, TopologyFacts(snapshot.topology), NOW_S)


def with_history(snapshot: Snapshot, *, busy_s: float = BUSY_S) -> ArqAdmission:
    """ARQ that saw all units of a cluster taken and freed again, and those taken that are busy."""
    made = ArqAdmission()
    topo = snapshot.topology
    units = np.arange(topo.unit_id.size)
    nothing = replace(snapshot, unit_free=frozen(np.ones(units.size, dtype=np.bool_)))
    full = replace(snapshot, unit_free=frozen(np.zeros(units.size, dtype=np.bool_)))
    facts = TopologyFacts(topo)
    made.evaluate([], nothing, facts, NOW_S - 8 * busy_s)
    for i in range(7, 1, -1):
        made.evaluate([], full, facts, NOW_S - i * busy_s)
        made.note_freed(nothing, units, NOW_S - (i - 1) * busy_s)
        made.evaluate([], nothing, facts, NOW_S - (i - 1) * busy_s)
    made.evaluate([], snapshot, facts, NOW_S)
    return made


@pytest.mark.parametrize(
    ("caused", "number"), [(0.0, 0), (9.9, 0), (10.0, 1), (55.0, 5), (99.0, 9), (100.0, 9)]
)
def test_the_class_of_a_job_is_its_mean_caused_interference(caused: float, number: int) -> None:
    assert class_of(np.full(N_SOURCES, caused)) == number
    mixed = np.zeros(N_SOURCES)
    mixed[0] = 100.0
    assert class_of(mixed) == 1


def test_pools_have_units_in_proportion_to_demand_and_the_quietest_serve_the_top() -> None:
    snapshot = cluster([5, 5, 5, 5], [60.0, 10.0, 90.0, 30.0])
    demand = np.zeros(CLASSES)
    demand[[2, 9]] = 1.0, 3.0
    assert pool_of_servers(snapshot, demand).tolist() == [9, 9, 2, 9]
    demand[[2, 9]] = 3.0, 1.0
    assert pool_of_servers(snapshot, demand).tolist() == [2, 9, 2, 2]
    shut = replace(snapshot, server_open=frozen(np.array([True, False, True, True])))
    assert pool_of_servers(shut, demand)[1] == -1


def test_a_job_uses_the_units_of_its_pool() -> None:
    """Without arrivals the pools are equal: of two servers, the quieter one serves 5 to 9."""
    snapshot = cluster([2, 2], [60.0, 10.0])
    pools = pool_of_servers(snapshot, np.ones(CLASSES))
    assert pools.tolist() == [2, 7]
    [verdict] = seen(ArqAdmission(), snapshot, applicant(caused=75.0))
    assert isinstance(verdict, Admitted)
    assert verdict.servers is not None
    assert verdict.servers.tolist() == [False, True]


def test_a_job_is_diverted_to_the_class_above_if_its_queue_is_empty() -> None:
    snapshot = cluster([2, 2], [60.0, 10.0])
    made = ArqAdmission()
    [verdict] = seen(made, snapshot, applicant(caused=65.0))
    assert isinstance(verdict, Admitted)
    assert verdict.servers is not None
    assert verdict.servers.tolist() == [False, True]
    rows = made.state(snapshot, TopologyFacts(snapshot.topology), NOW_S)
    assert [(row.name, row.diverted_share) for row in rows if row.diverted_share] == [
        ("class 6", 1.0)
    ]


def test_units_of_servers_without_room_for_a_whole_job_do_not_count() -> None:
    """The pool of the top class has two servers with two free units each."""
    snapshot = cluster([2] * 20, [3.0 * server for server in range(20)])
    pool = pool_of_servers(snapshot, np.ones(CLASSES)) == CLASSES - 1
    assert pool.tolist() == [True, True] + [False] * 18
    [anywhere] = seen(ArqAdmission(), snapshot, applicant(units=3, gang=True))
    assert isinstance(anywhere, Admitted)
    assert anywhere.servers is not None
    assert anywhere.servers.tolist() == pool.tolist()
    [together] = seen(ArqAdmission(), snapshot, applicant(units=3, locality=Within.SERVER))
    assert together == ADMITTED  # no pool has room: the policy gives the reason


def test_a_job_is_left_to_the_policy_if_no_free_unit_has_memory() -> None:
    """The case of the next test, but no server has memory left."""
    snapshot = cluster([1, 0], [60.0, 10.0])
    full = replace(snapshot, server_free=frozen(snapshot.server_free * [0.0, 1.0, 1.0]))
    of = applicant(caused=75.0)
    assert isinstance(seen(with_history(snapshot), snapshot, of)[0], Delayed)
    assert seen(with_history(full), full, of) == [ADMITTED]
    [outcome] = make("tarcil").place(full, [of.request], np.random.default_rng(1))
    assert isinstance(outcome, Refused)
    assert outcome.reason is RefusalReason.CAPACITY_SHORT


def test_units_that_are_reserved_for_others_are_not_free() -> None:
    """The only free unit of the pool of class 7, on the quieter server, is reserved."""
    snapshot = cluster([1, 1], [60.0, 10.0])
    bound = applicant(caused=75.0, seen=cluster([1, 0], [60.0, 10.0]))
    assert isinstance(seen(with_history(snapshot), snapshot, bound)[0], Delayed)
    free = applicant(caused=75.0)
    assert isinstance(seen(with_history(snapshot), snapshot, free)[0], Admitted)


def test_units_without_memory_in_the_pool_do_not_count() -> None:
    snapshot = cluster([2, 2], [60.0, 10.0])
    left = snapshot.server_free.copy()
    left[1, 0] = 0.0
    short = replace(snapshot, server_free=frozen(left))
    [verdict] = seen(ArqAdmission(), short, applicant(caused=75.0))
    assert verdict == ADMITTED  # of any pool: its own has none


def test_units_with_memory_are_counted_less_those_that_earlier_jobs_take() -> None:
    """The server of the pool has four free units, and memory for two."""
    snapshot = cluster([0, 4], [60.0, 10.0])
    left = snapshot.server_free.copy()
    left[1, 0] *= 2.0 / 5.0
    short = replace(snapshot, server_free=frozen(left))
    found = seen(ArqAdmission(), short, *(applicant(job, caused=75.0) for job in "abc"))
    assert [isinstance(each, Admitted) and each.servers is not None for each in found] == [
        True, True, False,
    ]  # fmt: skip


def test_a_job_waits_while_its_pool_is_likely_to_have_a_unit_in_time() -> None:
    """Units are busy for 10 s, the slack is 180 s: waiting for the own pool is worth more."""
    snapshot = cluster([1, 0], [60.0, 10.0])
    made = with_history(snapshot)
    [verdict] = seen(made, snapshot, applicant(caused=75.0))
    assert isinstance(verdict, Delayed)
    assert verdict.reason is RefusalReason.QUALITY_SHORT
    assert verdict.detail == "0 of 1 free units in the pool of class 7; it waits at most 180 s"
    assert NOW_S < verdict.until_s <= NOW_S + 180.0


def test_a_job_goes_to_the_class_below_if_its_pool_is_free_too_late() -> None:
    """Pool 7 is busy for about 1,000 s of which 0 have passed; pool 6 has a unit now."""
    snapshot = cluster([0, 2, 0], [10.0, 30.0, 90.0])
    made = with_history(snapshot, busy_s=1000.0)
    pools = pool_of_servers(snapshot, made._demand())
    assert pools.tolist() == [8, 5, 1]
    own = applicant(caused=65.0)
    [verdict] = seen(made, snapshot, own)
    assert isinstance(verdict, Admitted)
    assert verdict.servers is not None
    assert verdict.servers.tolist() == [False, True, False]


@pytest.mark.parametrize(
    "of",
    [
        {"waited_s": 180.0},
        {"run_s": float("nan")},
        {"profiling_s": 180.0},
        {"run_s": 3600.0, "waited_s": 50.0, "profiling_s": 130.0},
    ],
)
def test_a_job_without_slack_takes_the_best_free_unit_of_any_pool(of: dict[str, Any]) -> None:
    """5 % of 3,600 s are 180 s, of which waiting and profiling take all."""
    snapshot = cluster([1, 0], [60.0, 10.0])
    made = with_history(snapshot)
    assert seen(made, snapshot, applicant(caused=75.0, **of)) == [ADMITTED]


def test_a_job_without_slack_is_not_bound_to_its_pool() -> None:
    """Its pool has a free unit, which may lack the memory that the job needs."""
    snapshot = cluster([1, 1], [60.0, 10.0])
    made = with_history(snapshot)
    [verdict] = seen(made, snapshot, applicant(caused=75.0))
    assert isinstance(verdict, Admitted)
    assert verdict.servers is not None
    assert seen(made, snapshot, applicant(caused=75.0, waited_s=180.0)) == [ADMITTED]


def test_the_setting_bounds_the_wait() -> None:
    snapshot = cluster([1, 0], [60.0, 10.0])
    made = with_history(snapshot)
    made._max_wait_s = 20.0
    [verdict] = seen(made, snapshot, applicant(caused=75.0))
    assert isinstance(verdict, Delayed)
    assert verdict.until_s <= NOW_S + 20.0
    assert seen(made, snapshot, applicant(caused=75.0, waited_s=20.0)) == [ADMITTED]


def test_a_job_does_not_wait_without_a_history() -> None:
    snapshot = cluster([1, 0], [60.0, 10.0])
    assert seen(ArqAdmission(), snapshot, applicant(caused=75.0)) == [ADMITTED]


def test_shorter_jobs_get_the_free_units_of_a_class_first() -> None:
    """One unit is free in pool 7; the job that has no slack left comes before both."""
    snapshot = cluster([2, 1], [60.0, 10.0])
    made = with_history(snapshot)
    long, short = applicant("l", caused=75.0), applicant("s", caused=75.0, run_s=1800.0)
    first, second = seen(made, snapshot, long, short)
    assert (isinstance(first, Delayed), isinstance(second, Admitted)) == (True, True)
    late = applicant("l", caused=75.0, waited_s=180.0, units=3)
    assert seen(made, snapshot, short, late) == [ADMITTED, ADMITTED], "late took all units"


def test_jobs_of_higher_priority_come_before_shorter_ones() -> None:
    snapshot = cluster([2, 1], [60.0, 10.0])
    made = with_history(snapshot)
    long = applicant("l", caused=75.0, priority=1)
    short = applicant("s", caused=75.0, run_s=1800.0)
    first, second = seen(made, snapshot, short, long)
    assert (isinstance(first, Delayed), isinstance(second, Admitted)) == (True, True)


def after_a_release(snapshot: Snapshot) -> Snapshot:
    """The cluster after a unit of its second server was freed."""
    is_free = snapshot.unit_free.copy()
    is_free[5] = True
    return replace(snapshot, unit_free=frozen(is_free))


FULL = cluster([1, 0], [60.0, 10.0])
FREED = after_a_release(FULL)


def while_waits(short: Applicant) -> ArqAdmission:
    """A control by which a job waits for the pool of class 7, the second server."""
    made = with_history(FULL)
    assert isinstance(seen(made, FULL, short)[0], Delayed)
    return made


def test_a_free_unit_is_kept_for_the_shorter_job_that_waits_for_it() -> None:
    """The shorter job is in a later batch."""
    short, long = applicant("s", caused=75.0, run_s=1800.0), applicant("l", caused=75.0)
    made = while_waits(short)
    [later] = seen(made, FREED, long)
    assert isinstance(later, Delayed)
    assert later.detail == (
        "0 of 1 free units in the pool of class 7 beside those of the jobs before it;"
        " it waits at most 180 s"
    )
    [first] = seen(made, FREED, short)
    assert isinstance(first, Admitted)
    assert first.servers is not None
    assert isinstance(seen(made, FREED, long)[0], Admitted)


def test_a_unit_is_kept_after_a_restart() -> None:
    made, again = while_waits(applicant("s", caused=75.0, run_s=1800.0)), ArqAdmission()
    again.recall(json.loads(json.dumps(made.memory())), FULL)
    assert isinstance(seen(again, FREED, applicant("l", caused=75.0))[0], Delayed)


def test_a_memory_of_an_older_release_keeps_no_units() -> None:
    """It does not say which units suit the jobs that wait."""
    made, again = while_waits(applicant("s", caused=75.0, run_s=1800.0)), ArqAdmission()
    again.recall({name: v for name, v in made.memory().items() if name != "needs"}, FULL)
    assert list(again.waiting) == ["s"]
    assert isinstance(seen(again, FREED, applicant("l", caused=75.0))[0], Admitted)


@pytest.mark.parametrize(
    ("of_short", "of_long"),
    [
        ({}, {"priority": 1}),
        ({}, {"run_s": 1200.0}),
        ({}, {"waited_s": 180.0}),
        ({"platforms": frozenset({"J", "A"})}, {}),
        ({"units": 2, "gang": True}, {}),
    ],
    ids=["urgent", "shorter", "late", "of-named-platforms", "too-large"],
)
def test_no_unit_is_kept_from_a_job_that_comes_first_or_for_one_that_it_does_not_suit(
    of_short: dict[str, Any], of_long: dict[str, Any]
) -> None:
    full = cluster([2, 0], [60.0, 10.0])
    made = with_history(full)
    short = applicant("s", caused=75.0, **{"run_s": 1800.0, **of_short})
    assert isinstance(seen(made, full, short)[0], Delayed)
    [verdict] = seen(made, after_a_release(full), applicant("l", caused=75.0, **of_long))
    assert isinstance(verdict, Admitted)


def test_a_unit_is_kept_from_a_job_whose_units_suit_the_one_that_waits() -> None:
    made = while_waits(
        applicant("s", caused=75.0, run_s=1800.0, platforms=frozenset({"J", "A", "K"}))
    )
    long = applicant("l", caused=75.0, platforms=frozenset({"J", "A"}))
    assert isinstance(seen(made, FREED, long)[0], Delayed)


def test_the_policy_refuses_jobs_that_lack_units_of_any_quality() -> None:
    snapshot = cluster([1, 0], [60.0, 10.0])
    made = with_history(snapshot)
    assert seen(made, snapshot, applicant(caused=75.0, units=2, gang=True)) == [ADMITTED]
    full = cluster([0, 0], [60.0, 10.0])
    assert seen(with_history(full), full, applicant(caused=75.0)) == [ADMITTED]


def test_the_state_has_load_factors() -> None:
    """One unit of class 7 arrived in 1,200 s; pool 7 has five units, busy for 10 s each."""
    snapshot = cluster([1, 0], [60.0, 10.0])
    made = with_history(snapshot)
    seen(made, snapshot, applicant(caused=75.0))
    begun_s, topo = NOW_S - 8 * BUSY_S, TopologyFacts(snapshot.topology)
    early = made.state(snapshot, topo, begun_s + 599.0)
    assert {(row.freed_per_s, row.arrived_per_s, row.load_factor) for row in early} == {
        (None, None, None)
    }
    rows = made.state(snapshot, topo, begun_s + 1200.0)
    assert [row.name for row in rows][:2] == ["class 9", "class 8"]
    (row,) = (row for row in rows if row.waiting)
    assert (row.name, row.servers, row.free_units, row.mean_s) == ("class 7", 1, 0, BUSY_S)
    assert row.load_factor == pytest.approx(1 / 1200.0 * BUSY_S / 5)
    assert row.arrived_per_s == pytest.approx(1 / 1200.0)
    assert sum(row.freed_per_s or 0.0 for row in rows) == pytest.approx(60 / 1200.0)
    assert rows[0].load_factor is None


def test_jobs_that_take_no_time_are_no_load() -> None:
    """Pools 2 and 7 have units, and the other pools none."""
    snapshot = cluster([5, 5], [60.0, 10.0])
    made, topo = with_history(snapshot, busy_s=0.0), TopologyFacts(snapshot.topology)
    samples = [[(NOW_S, 0.0)]] * CLASSES
    made.recall({**made.memory(), "busy": samples}, snapshot)
    seen(made, snapshot, applicant(caused=75.0))
    rows = made.state(snapshot, topo, NOW_S + 1200.0)
    assert [(row.mean_s, row.load_factor) for row in rows] == [(0.0, 0.0)] * CLASSES


def test_a_job_that_the_policy_refuses_arrives_and_is_diverted_once() -> None:
    """Class 6 has no unit, so that the job joins class 7; it comes again after each refusal."""
    snapshot = cluster([2, 2], [60.0, 10.0])
    made, topo = ArqAdmission(), TopologyFacts(snapshot.topology)
    for again in range(3):
        made.evaluate([applicant(caused=65.0)], snapshot, topo, NOW_S + again)
    rows = {row.name: row for row in made.state(snapshot, topo, NOW_S + 600.0)}
    assert rows["class 6"].arrived_per_s == pytest.approx(1 / 600.0)
    assert rows["class 6"].diverted_share == 1.0


def test_the_rate_of_a_pool_is_of_the_busy_times_that_are_kept() -> None:
    """Five units are busy for 0.5 s, 150 times, and then free for 0.5 s: five a second."""
    snapshot = cluster([5], [10.0])
    made, topo = ArqAdmission(), TopologyFacts(snapshot.topology)
    full = replace(snapshot, unit_free=frozen(np.zeros(5, dtype=np.bool_)))
    for turn in range(150):
        made.evaluate([], snapshot, topo, NOW_S + turn)
        made.evaluate([], full, topo, NOW_S + turn + 0.5)
        made.note_freed(snapshot, np.arange(5), NOW_S + turn + 1.0)
    rows = made.state(snapshot, topo, NOW_S + 150.0)
    assert sum(row.freed_per_s or 0.0 for row in rows) == pytest.approx(5.0, rel=0.02)


def busy_history(made: ArqAdmission) -> dict[str, Any]:
    """What older releases stored: each of 100,000 jobs in two hours, the admitted ones by id."""
    times = np.linspace(NOW_S, NOW_S + 7200.0, 100_000, endpoint=False).tolist()
    counts = {
        "arrived": [(at_s, i % CLASSES, 2) for i, at_s in enumerate(times)],
        "diverted": [(at_s, i % 4 + 1, i % 4, 2) for i, at_s in enumerate(times[::50])],
        "joined": {f"job-{i:032d}": (i % CLASSES, at_s) for i, at_s in enumerate(times)},
    }
    return {**made.memory(), **counts, "counted_from_s": NOW_S}


def test_the_memory_is_small_after_many_arrivals() -> None:
    snapshot = cluster([5], [10.0])
    made, topo = ArqAdmission(), TopologyFacts(snapshot.topology)
    made.recall(busy_history(made), snapshot)
    made.evaluate([], snapshot, topo, NOW_S + 7200.0)
    stored = json.dumps(made.memory())
    assert len(stored) < 200_000
    again = ArqAdmission()
    again.recall(json.loads(stored), snapshot)
    assert json.dumps(again.memory()) == stored
    states = [each.state(snapshot, topo, NOW_S + 7200.0) for each in (made, again)]
    assert states[0] == states[1]


def test_the_history_of_an_older_release_gives_the_same_rates() -> None:
    snapshot = cluster([5], [10.0])
    made, topo = ArqAdmission(), TopologyFacts(snapshot.topology)
    made.recall(busy_history(made), snapshot)
    rows = {row.name: row for row in made.state(snapshot, topo, NOW_S + 7200.0)}
    rates = [row.arrived_per_s for row in rows.values()]
    assert rates == [pytest.approx(2 * 10_000 / 7200.0)] * CLASSES
    # of 4,000 units, a quarter goes from each class to the next; class 4 is joined by no others
    assert rows["class 4"].diverted_share == pytest.approx(1000 / 20_000)
    assert rows["class 3"].diverted_share == pytest.approx(1000 / 21_000)
    assert made._demand().tolist() == [20_001.0] * CLASSES


@pytest.mark.parametrize("extra_s", [0.0, 1.0, 30.0, 59.5])
def test_the_rate_of_arrivals_is_that_of_the_window_wherever_its_minute_begins(
    extra_s: float,
) -> None:
    """A unit arrives every two seconds, at first; then one every ten."""
    snapshot = cluster([5], [10.0])
    made, topo = ArqAdmission(), TopologyFacts(snapshot.topology)
    early = [(at_s, 3, 1) for at_s in np.arange(0.0, 3600.0, 2.0).tolist()]
    late = [(at_s, 3, 1) for at_s in np.arange(3600.0, 20_000.0 + extra_s, 10.0).tolist()]
    made.recall({**made.memory(), "arrived": early + late, "counted_from_s": 0.0}, snapshot)
    rows = {row.name: row for row in made.state(snapshot, topo, 20_000.0 + extra_s)}
    assert rows["class 3"].arrived_per_s == pytest.approx(0.1, rel=0.002)


def test_only_the_newest_admitted_jobs_are_remembered() -> None:
    """Those that started meanwhile are not."""
    snapshot = cluster([5] * 20, [3.0 * server for server in range(20)])
    made, topo = ArqAdmission(), TopologyFacts(snapshot.topology)
    joined = {f"old-{i}": (5, NOW_S) for i in range(5000)}
    made.recall({**made.memory(), "joined": joined}, snapshot)
    seen(made, snapshot, applicant("new"))
    made.evaluate([], snapshot, topo, NOW_S + 1.0)
    assert list(made.waiting)[:: MAX_JOINED - 1] == [f"old-{5001 - MAX_JOINED}", "new"]
    made.forget([job for job in made.waiting if job.startswith("old")])
    assert list(made.memory()["joined"]) == ["new"]
    made.evaluate([], snapshot, topo, NOW_S + FORGET_S + 1.0)
    assert not made.waiting


def test_no_more_jobs_are_diverted_than_joined_a_queue() -> None:
    """Four units arrived before the window of two hours, and were diverted in it."""
    snapshot = cluster([5], [10.0])
    made, topo = ArqAdmission(), TopologyFacts(snapshot.topology)
    counts = {"arrived": [(NOW_S, 3, 4)], "diverted": [(NOW_S + 100.0, 3, 2, 4)]}
    made.recall({**made.memory(), **counts, "counted_from_s": NOW_S}, snapshot)
    rows = {row.name: row for row in made.state(snapshot, topo, NOW_S + 7250.0)}
    assert rows["class 3"].arrived_per_s == 0.0
    assert rows["class 3"].diverted_share == 1.0


def test_the_rates_of_a_class_are_those_with_rates_of_all_agents() -> None:
    """This agent evaluates a quarter of the jobs: one of four units a second."""
    fields = (1, 5, 0.1, 10.0, 1.0, None, 0)
    mine = [
        QueueState("class 9", *fields, arrived_per_s=0.75, load_factor=0.3),
        QueueState("class 8", *fields, arrived_per_s=0.25, load_factor=None),
        QueueState("class 7", *fields, arrived_per_s=0.0, load_factor=0.0),
    ]
    found = with_rates_of_all_agents(mine, 4.0)
    assert [row.arrived_per_s for row in found] == [3.0, 1.0, 0.0]
    assert [row.load_factor for row in found] == [pytest.approx(1.2), None, 0.0]
    assert with_rates_of_all_agents(mine, None) == mine
    idle_since_start = [replace(row, arrived_per_s=None, load_factor=None) for row in mine]
    assert with_rates_of_all_agents(idle_since_start, 4.0) == idle_since_start
