"""The queue of a cluster as the input of start estimates."""

import math
from dataclasses import replace
from typing import Any
from uuid import UUID

import numpy as np

from apps.scheduling.core.reservations.gangs import Reservation
from apps.scheduling.core.sizing.run_time import RunTime
from apps.scheduling.core.starts.classes import class_of
from apps.scheduling.core.starts.queue import (
    Holding,
    QueueFacts,
    ShapeFacts,
    in_turn,
    joined,
    queue_facts,
)
from apps.scheduling.core.starts.state import NOBODY
from tests.scheduling.core.clusters import frozen, idle, topology

CLUSTER = topology(
    (2, 2, 2),
    platforms=("A", "B"),
    labels=(frozenset({"zone=1"}), frozenset({"zone=1"}), frozenset({"zone=2"})),
)


def shape(n: int, jobs: int = 1, **values: Any) -> ShapeFacts:
    fields: dict[str, Any] = {
        "kind": "best_effort",
        "units": 1,
        "fewest": 1,
        "run": RunTime(50.0, 100.0),
    }
    ids = [UUID(int=100 * n + i) for i in range(jobs)]
    return ShapeFacts(key=UUID(int=n), jobs=ids, **{**fields, **values})


def facts_of(*shapes: ShapeFacts, reserved: tuple[Reservation, ...] = ()) -> QueueFacts:
    """Three servers of two units; the first two units are busy."""
    free = frozen(np.array([False, False, True, True, True, True]))
    state = replace(idle(CLUSTER), unit_free=free)
    held = [Holding(CLUSTER.unit_id[:2].tolist(), "ips", 5.0, None, 0.0)]
    return queue_facts(state, shapes, held, reserved, now_s=1000.0)


def free_by_pool(found: QueueFacts) -> np.ndarray:
    pools = found.pools
    return np.bincount(pools.pool, pools.free, minlength=pools.holder.size).astype(int)


def test_units_that_the_same_jobs_may_use_are_one_pool() -> None:
    found = facts_of(shape(1), shape(2, platforms=frozenset({"A"})))
    assert sorted(free_by_pool(found).tolist()) == [2, 2]
    everywhere, only_a = found.groups
    assert everywhere.allowed.tolist() == [True, True]
    assert free_by_pool(found)[only_a.allowed].tolist() == [2]
    (running,) = found.running
    assert list(running.units.values()) == [2]
    assert only_a.allowed[found.pools.pool[next(iter(running.units))]]


def test_the_units_of_a_server_in_a_pool_are_one_part() -> None:
    unit = int(CLUSTER.unit_id[5])
    kept = Reservation(UUID(int=201), 1060.0, frozenset({unit}))
    found = facts_of(shape(1), shape(2, jobs=3), reserved=(kept,))
    by_pool: dict[int, list[int]] = {}
    for pool, free in zip(found.pools.pool.tolist(), found.pools.free.tolist(), strict=True):
        by_pool.setdefault(pool, []).append(free)
    assert sorted(by_pool.values()) == [[0, 2, 1], [1]]  # the last server is in both pools
    (running,) = found.running
    assert found.pools.free[list(running.units)].tolist() == [0]


def test_a_job_on_one_server_was_refused_the_servers_that_have_its_units() -> None:
    together = {"units": 2, "fewest": 2, "on_one_server": True}
    assert [group.refused for group in facts_of(shape(1, **together)).groups] == [4]
    unit = int(CLUSTER.unit_id[5])
    kept = Reservation(UUID(int=100), 1060.0, frozenset({unit}))
    holder, other = facts_of(shape(1), shape(2, **together), reserved=(kept,)).groups[::2]
    assert (holder.on_one_server, other.on_one_server, other.refused) == (False, True, 2)


def test_labels_and_platforms_together_define_the_pools() -> None:
    found = facts_of(shape(1, labels=frozenset({"zone=1"})), shape(2, platforms=frozenset({"A"})))
    free = free_by_pool(found)
    assert free.size == 3
    zone, only_a = found.groups
    assert free[zone.allowed].sum() == 2
    assert free[zone.allowed & only_a.allowed].tolist() == [0]


def test_reserved_units_are_a_pool_of_their_holder() -> None:
    unit = int(CLUSTER.unit_id[5])
    kept = Reservation(UUID(int=201), 1060.0, frozenset({unit}))
    found = facts_of(shape(1), shape(2, jobs=3), reserved=(kept,))
    assert [group.jobs for group in found.groups] == [1, 1, 2]
    assert found.jobs[0] == UUID(int=201)
    held = int(np.flatnonzero(found.pools.holder == 0)[0])
    assert (free_by_pool(found)[held], found.pools.until_s[held]) == (1, 60.0)
    other = 1 - held
    assert (found.pools.holder[other], found.pools.until_s[other]) == (NOBODY, math.inf)
    # a job of at most 100 s does not end before the holder starts: three units were refused to it
    assert [group.refused for group in found.groups] == [4, 3, 3]
    assert found.group_of == {UUID(int=1): 1, UUID(int=2): 2}


def test_a_job_that_ends_when_the_holder_starts_may_use_its_units() -> None:
    kept = Reservation(UUID(int=200), 1100.0, frozenset({int(CLUSTER.unit_id[5])}))
    found = facts_of(shape(1), shape(2), reserved=(kept,))
    assert [group.refused for group in found.groups] == [4, 4, 0]


def test_an_incremental_job_that_ends_too_late_with_one_unit_was_refused_no_reserved_unit() -> (
    None
):
    kept = Reservation(UUID(int=200), 1150.0, frozenset({int(CLUSTER.unit_id[5])}))
    found = facts_of(shape(1), shape(2), shape(3, units=2, fewest=1), reserved=(kept,))
    assert [group.refused for group in found.groups] == [4, 4, 0, 3]


def test_the_holder_of_a_reservation_takes_any_unit_at_once() -> None:
    kept = Reservation(UUID(int=101), 1060.0, frozenset({int(CLUSTER.unit_id[5])}))
    found = facts_of(shape(1, jobs=3, patience_s=[1.0, 2.0, 3.0]), shape(2), reserved=(kept,))
    assert [list(group.patience_s) for group in found.groups] == [[0.0], [1.0, 3.0], []]


def test_a_gang_was_not_refused_units_that_are_too_few() -> None:
    (group,) = facts_of(shape(1, units=5, fewest=5)).groups
    assert group.refused == 0
    (group,) = facts_of(shape(1, units=4, fewest=4)).groups
    assert group.refused == 4


def test_closed_servers_have_no_pool() -> None:
    state = replace(idle(CLUSTER), server_open=frozen(np.array([True, False, False])))
    found = queue_facts(state, [shape(1)], [], (), now_s=0.0)
    assert free_by_pool(found).tolist() == [2]


def test_a_cluster_without_servers_has_no_pool() -> None:
    found = queue_facts(idle(topology(())), [shape(1)], [], (), now_s=0.0)
    assert (found.pools.free.size, found.groups[0].allowed.size) == (0, 0)


def test_classes_tell_the_kind_of_the_target_and_the_size() -> None:
    assert class_of("ips", 1) == "ips, 1 unit"
    assert class_of("ips", 7) == "ips, 2-7 units"
    assert class_of("qps", 31) == "qps, 8-31 units"
    assert class_of("qps", 32) == "qps, 32 units or more"


def test_projects_take_turns_then_priority_then_share_then_age() -> None:
    one, two, three = (UUID(int=n) for n in (1, 2, 3))
    a, b = shape(1, project=one), shape(2, project=one, priority=5)
    c, d = shape(3, project=two), shape(4, project=three)
    order = in_turn([a, b, c, d], {one: 0.0, two: 0.5, three: 0.1})
    assert order == [b, d, c, a]
    assert in_turn([c, d], {}) == [c, d]


def test_a_new_job_joins_the_shape_with_its_request() -> None:
    first, second = shape(1, jobs=2, reserve_s=5.0), shape(2, units=2, fewest=2)
    equal = shape(9, run=RunTime(51.0, 110.0))
    own, other = joined([first, second], equal)
    assert (own.jobs, own.run, other) == ([*first.jobs, *equal.jobs], first.run, second)
    patient = replace(equal, patience_s=[7.0])
    for known, new, patience_s in (
        (first, patient, [math.inf, math.inf, 7.0]),
        (replace(first, patience_s=[1.0, 2.0]), patient, [1.0, 2.0, 7.0]),
        (replace(first, patience_s=[1.0, 2.0]), equal, [1.0, 2.0, math.inf]),
    ):
        assert joined([known, second], new)[0].patience_s == patience_s
    for new in (
        replace(equal, priority=1),
        replace(equal, project=UUID(int=7)),
        replace(equal, run=RunTime(60.0, 110.0)),
        replace(equal, run=None),
        replace(equal, labels=frozenset({"zone=1"})),
    ):
        assert joined([first, second], new) == [first, second, new]
