"""Which moves can begin, by room, by job and by budget."""

import pytest

from apps.placement.core.carrying import (
    Due,
    Room,
    Step,
    bundles_without_room,
    due,
    schedule,
    without_room,
)


def room(units: float, memory: float = 100.0) -> Room:
    return Room(units, memory, 100.0, 100.0)


def step(
    place: int, job: str, source: int, target: int, units: float = 1, *, bundle: int = -1,
    is_moving: bool = False, memory: float = 1.0,
) -> Step:  # fmt: skip
    need = Room(units, memory, 1.0, 1.0)
    return Step(place, place if bundle < 0 else bundle, job, source, target, need, need, is_moving)


ROOMS = {1: room(2), 2: room(2), 3: room(0)}


def test_moves_begin_in_order_as_far_as_the_budget_goes() -> None:
    steps = [step(0, "a", 3, 1), step(1, "b", 3, 1), step(2, "c", 3, 2)]
    assert due(steps, ROOMS, busy=(), most=2) == Due(begin=(0, 1), hopeless=())


def test_one_part_of_a_job_moves_at_a_time() -> None:
    steps = [step(0, "a", 3, 1), step(1, "a", 3, 2), step(2, "b", 3, 2)]
    assert due(steps, ROOMS, busy=(), most=9).begin == (0, 2)


def test_jobs_that_something_else_moves_wait() -> None:
    assert due([step(0, "a", 3, 1)], ROOMS, busy={"a"}, most=9) == Due((), ())


def test_a_move_waits_for_room_that_an_earlier_one_frees() -> None:
    steps = [step(0, "a", 3, 1), step(1, "b", 2, 3)]
    assert due(steps, ROOMS, busy=(), most=9) == Due(begin=(0,), hopeless=())


def test_it_waits_while_that_one_is_under_way() -> None:
    steps = [step(0, "a", 3, 1, is_moving=True), step(1, "b", 2, 3)]
    assert due(steps, ROOMS, busy=(), most=9) == Due((), ())


def test_there_is_no_hope_where_no_earlier_move_frees_room() -> None:
    steps = [step(0, "b", 2, 3), step(1, "a", 3, 1)]
    assert due(steps, ROOMS, busy=(), most=9) == Due(begin=(1,), hopeless=(0,))


def test_there_is_no_hope_on_a_closed_server_that_is_being_emptied() -> None:
    steps = [step(0, "a", 9, 1), step(1, "b", 2, 9)]
    assert due(steps, ROOMS, busy=(), most=9).hopeless == (1,)


def test_a_move_leaves_the_room_that_an_earlier_one_waits_for() -> None:
    steps = [step(0, "a", 3, 1, units=2), step(1, "b", 3, 1, units=1)]
    assert due(steps, ROOMS, busy={"a"}, most=9) == Due(begin=(), hopeless=(1,))


def test_memory_counts_as_units_do() -> None:
    steps = [step(0, "a", 3, 1, memory=99.0), step(1, "b", 3, 1, memory=2.0)]
    assert due(steps, ROOMS, busy=(), most=9) == Due(begin=(0,), hopeless=(1,))


def test_nothing_begins_without_budget_and_nothing_is_given_up() -> None:
    assert due([step(0, "a", 3, 1)], ROOMS, busy=(), most=0) == Due((), ())


def test_moves_fit_one_after_the_other_as_they_free_room() -> None:
    steps = [step(0, "a", 3, 1, units=2), step(1, "b", 2, 3, units=2), step(2, "c", 1, 2, units=4)]
    assert without_room(steps, ROOMS) == ()
    assert without_room(steps[::-1], ROOMS) == (2, 1)


def test_a_bundle_left_out_takes_those_with_it_that_need_its_room() -> None:
    steps = [
        step(0, "a", 3, 1, units=3, bundle=0),
        step(1, "b", 3, 2, bundle=0),
        step(2, "c", 2, 3, units=1, bundle=1),
        step(3, "d", 2, 1, units=1, bundle=2),
    ]
    assert bundles_without_room(steps, ROOMS) == (0, 1)


@pytest.mark.parametrize("steps", [[], [step(0, "a", 3, 1)]])
def test_what_fits_stays(steps: list[Step]) -> None:
    assert bundles_without_room(steps, ROOMS) == ()


@pytest.mark.parametrize(
    ("moves", "per_minute", "spans"),
    [
        ([], 5, []),
        ([("a", 10.0), ("b", 30.0)], 5, [(0.0, 10.0), (0.0, 30.0)]),
        ([("a", 10.0), ("a", 30.0)], 5, [(0.0, 10.0), (10.0, 40.0)]),
        ([("a", 10.0), ("b", 5.0), ("c", 1.0)], 2, [(0.0, 10.0), (0.0, 5.0), (60.0, 61.0)]),
        ([("a", 90.0), ("a", 5.0)], 1, [(0.0, 90.0), (90.0, 95.0)]),
    ],
    ids=["nothing", "beside each other", "one job after itself", "the budget", "the longer wait"],
)
def test_a_plan_goes_on_as_its_budget_and_its_jobs_let_it(
    moves: list[tuple[object, float]], per_minute: int, spans: list[tuple[float, float]]
) -> None:
    assert schedule(moves, per_minute=per_minute) == spans


def test_between_two_moves_of_a_job_somebody_must_look() -> None:
    moves: list[tuple[object, float]] = [("a", 10.0), ("b", 5.0), ("a", 10.0), ("a", 10.0)]
    spans = schedule(moves, per_minute=9, turn_s=90.0)
    assert spans == [(0.0, 10.0), (0.0, 5.0), (100.0, 110.0), (200.0, 210.0)]
