"""Which waiting jobs are evaluated, and when."""

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.cluster.copy import Change, ChangeKind, ClusterCopy
from apps.testbed.core.demo_cluster import demo_cluster
from apps.testbed.core.replay.waiting import Refusal, WaitingShapes
from apps.workloads.core.shapes import Needs, WaitsFor

FREE = ClusterCopy(demo_cluster(20, seed=1).topology).snapshot()


def busy() -> Snapshot:
    copy = ClusterCopy(FREE.topology)
    units = FREE.topology.unit_id.tolist()
    copy.apply([Change(1, ChangeKind.CLAIM, units=units, caused=np.zeros(N_SOURCES))])
    return copy.snapshot()


def refusal(sequence: int = 1, *, units: int = 1) -> Refusal:
    return Refusal("NoFreeUnit", "busy", Needs(WaitsFor.UNITS, units=units), sequence)


def test_a_refused_shape_is_evaluated_after_a_release_only() -> None:
    waiting = WaitingShapes()
    waiting.refuse([0], (0.0, 1.0), refusal(sequence=5))
    assert waiting.take(FREE, 5, 10) == []
    assert waiting.take(busy(), 6, 10) == []
    assert waiting.take(FREE, 6, 10) == [((0.0, 1.0), [0])]
    assert len(waiting) == 0


def test_new_jobs_join_a_waiting_shape_and_no_other() -> None:
    waiting = WaitingShapes()
    waiting.refuse([0], (0.0, 1.0), refusal())
    assert waiting.join(1, (0.0, 1.0))
    assert not waiting.join(2, (0.0, 2.0))
    assert waiting.reasons().keys() == {0, 1}


def test_twice_as_many_jobs_of_a_shape_follow_after_each_success() -> None:
    waiting, key = WaitingShapes(), (0.0, 1.0)
    waiting.refuse(range(9), key, refusal())
    taken = []
    for _ in range(4):
        (_, jobs), *_ = waiting.take(FREE, 2, 100)
        taken.append(jobs)
        waiting.accept(key)
    assert taken == [[0], [1, 2], [3, 4, 5, 6], [7, 8]]
    assert not waiting.join(9, key)


def test_refused_jobs_stay_the_oldest_of_their_shape() -> None:
    waiting, key = WaitingShapes(), (0.0, 1.0)
    waiting.refuse([3], key, refusal())
    waiting.join(7, key)
    assert waiting.take(FREE, 2, 9) == [(key, [3])]
    waiting.refuse([3], key, refusal(sequence=2))
    assert waiting.take(FREE, 3, 9) == [(key, [3])]


def test_the_most_urgent_then_the_least_recently_evaluated_shape_is_first() -> None:
    waiting = WaitingShapes()
    for key in ((0.0, 1.0), (0.0, 2.0), (-5.0, 3.0)):
        waiting.refuse([int(key[1])], key, refusal())
    first = waiting.take(FREE, 2, 1)
    assert first == [((-5.0, 3.0), [3])]
    assert waiting.take(FREE, 2, 1) == [((0.0, 1.0), [1])]
    waiting.refuse([1], (0.0, 1.0), refusal(sequence=2))
    assert waiting.take(FREE, 3, 9) == [((0.0, 2.0), [2]), ((0.0, 1.0), [1])]


def test_a_shape_that_needs_more_than_is_free_is_not_evaluated() -> None:
    waiting = WaitingShapes()
    everything = int(FREE.unit_free.sum())
    waiting.refuse([0], (0.0, 1.0), refusal(units=everything + 1))
    waiting.refuse([1], (0.0, 2.0), Refusal("x", "", Needs(WaitsFor.SERVERS), 1))
    waiting.refuse([2], (0.0, 3.0), refusal(units=everything))
    assert waiting.take(FREE, 2, 9) == [((0.0, 3.0), [2])]


def test_a_release_on_a_platform_that_a_shape_may_not_use_does_not_wake_it() -> None:
    waiting, key = WaitingShapes(), (0.0, 1.0)
    fast = FREE.topology.platform_name[0]
    needs = Needs(WaitsFor.UNITS, platforms=(fast,))
    waiting.refuse([0], key, Refusal("NoFreeUnit", "busy", needs, 5))
    freed = np.zeros(len(FREE.topology.platform_name), dtype=np.int64)
    freed[1] = 6
    assert waiting.take(FREE, 6, 9, freed=freed) == []
    freed[0] = 7
    assert waiting.take(FREE, 6, 9, freed=freed) == [(key, [0])]  # as the copy is older


def test_a_refusal_on_an_old_copy_is_repeated_on_a_newer_one() -> None:
    waiting = WaitingShapes()
    for job, sequence in enumerate((1, 2)):  # the second agent has not read the release 5
        waiting.refuse([job], (0.0, float(job)), refusal(sequence=sequence))
        assert waiting.take(FREE, 5, 9) == [((0.0, float(job)), [job])]


EVERYTHING = int(FREE.unit_free.sum())


def test_a_shape_is_not_evaluated_if_those_before_it_need_the_units() -> None:
    waiting = WaitingShapes()
    waiting.refuse([0], (0.0, 1.0), refusal(units=EVERYTHING))
    waiting.refuse([1], (0.0, 2.0), refusal(units=EVERYTHING))
    assert waiting.take(FREE, 2, 9) == [((0.0, 1.0), [0])]
    # the first one was refused for another reason, so the units are still free
    waiting.refuse([0], (0.0, 1.0), refusal(sequence=2, units=EVERYTHING))
    assert waiting.take(FREE, 2, 9) == [((0.0, 2.0), [1])]


def test_a_smaller_shape_takes_the_units_that_a_larger_one_leaves() -> None:
    waiting = WaitingShapes()
    for job, units in enumerate((EVERYTHING - 1, 2, 1)):
        waiting.refuse([job], (0.0, float(job)), refusal(units=units))
    assert waiting.take(FREE, 2, 9) == [((0.0, 0.0), [0]), ((0.0, 2.0), [2])]


def test_as_many_jobs_of_a_shape_are_evaluated_as_the_units_suffice_for() -> None:
    waiting, key = WaitingShapes(), (0.0, 1.0)
    waiting.refuse(range(9), key, refusal(units=EVERYTHING // 3))
    assert waiting.take(FREE, 2, 9) == [(key, [0])]
    for taken in ([1, 2], [3, 4, 5]):  # not four
        waiting.accept(key)
        assert waiting.take(FREE, 2, 9) == [(key, taken)]


def test_after_a_success_the_next_jobs_wait_for_a_release_if_there_is_no_room() -> None:
    waiting, key = WaitingShapes(), (0.0, 1.0)
    waiting.refuse([0, 1], key, refusal())
    waiting.take(FREE, 2, 9)
    waiting.accept(key)
    assert waiting.is_urgent
    assert waiting.take(busy(), 2, 9) == []
    assert not waiting.is_urgent
    assert waiting.take(FREE, 3, 9) == [(key, [1])]


def test_after_a_lost_conflict_a_job_is_evaluated_at_once() -> None:
    waiting = WaitingShapes()
    waiting.refuse([0], (0.0, 1.0), Refusal("CommitConflict", "", None, 4))
    assert waiting.is_urgent
    assert waiting.take(busy(), 0, 9) == [((0.0, 1.0), [0])]
    assert not waiting.is_urgent
