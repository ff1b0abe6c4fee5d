"""Victims of a preemption: the cheapest sets, against brute force."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.scheduling.core.preemption import choice as victim_choice
from apps.scheduling.core.preemption import search as victim_search
from apps.scheduling.core.preemption.choice import choose_victims
from apps.scheduling.core.preemption.search import MAX_EXACT
from apps.scheduling.core.preemption.victims import (
    Candidate,
    Candidates,
    Cost,
    Part,
    Room,
    Rooms,
    Vector,
    Victims,
    Waiting,
    is_clearly_less,
)


def job(number: int, *parts: Part, lost: int = 10, breaks: bool = False, priority: int = 0):  # type: ignore[no-untyped-def]
    return Candidate(UUID(int=number), priority, lost, breaks, parts)


def ids(*numbers: int) -> tuple[UUID, ...]:
    return tuple(UUID(int=number) for number in numbers)


def victims(
    waiting: Waiting, rooms: Mapping[int, Room], running: Sequence[Candidate]
) -> Victims | None:
    """Choose among objects, as arrays."""
    return choose_victims(waiting, room_arrays(rooms), candidate_arrays(running))


def room_arrays(rooms: Mapping[int, Room]) -> Rooms:
    each = [rooms[server] for server in sorted(rooms)]
    numbers = np.array(
        [(server, room.free_units, room.group, room.place) for server, room in rooms.items()]
    )
    numbers = numbers[np.argsort(numbers[:, 0])]
    return Rooms(
        server=numbers[:, 0],
        free_units=numbers[:, 1],
        free=np.array([room.free for room in each]),
        per_unit=np.array([room.per_unit for room in each]),
        group=numbers[:, 2],
        place=numbers[:, 3],
    )


def candidate_arrays(running: Sequence[Candidate]) -> Candidates:
    """Ascending by job, as they are read."""
    ordered = sorted(running, key=lambda one: one.job)
    parts = [(number, part) for number, one in enumerate(ordered) for part in one.parts]
    rows = np.array([(n, part.server, part.units, *part.freed) for n, part in parts], np.int64)
    rows = rows.reshape(-1, 6)
    return Candidates(
        job=np.array([one.job.bytes for one in ordered], dtype="V16"),
        priority=np.array([one.priority for one in ordered], dtype=np.int64),
        lost=np.array([one.lost for one in ordered], dtype=np.int64),
        breaks=np.array([one.breaks for one in ordered], dtype=np.bool_),
        part_job=rows[:, 0],
        part_server=rows[:, 1],
        part_units=rows[:, 2],
        part_freed=rows[:, 3:],
    )


ONE = {1: Room(0)}
TWO = {1: Room(0), 2: Room(0)}


def test_the_job_that_breaks_no_promise_is_the_victim_even_if_it_loses_more() -> None:
    running = [job(1, Part(1, 2), lost=5, breaks=True), job(2, Part(1, 2), lost=500)]
    found = victims(Waiting(2, priority=1), ONE, running)
    assert found is not None
    assert (found.jobs, found.cost, found.is_best) == (ids(2), Cost(0, 500, 1), True)


def test_two_jobs_that_lose_less_are_better_than_one_and_one_is_better_if_they_lose_the_same() -> (
    None
):
    small = [job(1, Part(1, 1), lost=20), job(2, Part(1, 1), lost=20)]
    less = victims(Waiting(2, priority=1), ONE, [*small, job(3, Part(1, 2), lost=41)])
    same = victims(Waiting(2, priority=1), ONE, [*small, job(3, Part(1, 2), lost=40)])
    assert less is not None
    assert same is not None
    assert (less.jobs, same.jobs) == (ids(1, 2), ids(3))


def test_jobs_of_the_same_or_a_higher_priority_are_no_victims() -> None:
    running = [job(1, Part(1, 2), priority=3), job(2, Part(1, 2), priority=4)]
    assert victims(Waiting(2, priority=3), ONE, running) is None
    found = victims(Waiting(2, priority=4), ONE, running)
    assert found is not None
    assert found.jobs == ids(1)


def test_without_need_there_is_no_victim() -> None:
    found = victims(Waiting(2, priority=1), {1: Room(2)}, [job(1, Part(1, 2))])
    assert found is not None
    assert (found.jobs, found.cost, dict(found.units)) == ((), Cost(), {1: 2})


def test_a_job_that_must_be_on_one_server_takes_its_victims_there() -> None:
    rooms = {1: Room(1, group=1), 2: Room(0, group=2)}
    running = [
        job(1, Part(1, 1), lost=9),
        job(2, Part(2, 1), lost=1),
        job(3, Part(2, 1), lost=1, breaks=True),
    ]
    found = victims(Waiting(2, priority=1), rooms, running)
    assert found is not None
    assert (found.jobs, dict(found.units)) == (ids(1), {1: 2})


def test_a_spread_job_needs_a_unit_in_each_place() -> None:
    rooms = {1: Room(4, place=1), 2: Room(0, place=2), 3: Room(0, place=2), 4: Room(0, place=3)}
    running = [job(2, Part(2, 3), lost=1), job(3, Part(3, 3), lost=2), job(4, Part(4, 1), lost=9)]
    found = victims(Waiting(3, priority=1, is_spread=True), rooms, running)
    assert found is not None
    assert (found.jobs, dict(found.units)) == (ids(2, 4), {1: 1, 2: 1, 4: 1})


def test_units_whose_memory_stays_taken_do_not_count() -> None:
    rooms = {1: Room(3, free=Vector(memory_bytes=1), per_unit=Vector(memory_bytes=4))}
    running = [
        job(1, Part(1, 1, Vector(memory_bytes=2)), lost=1),
        job(2, Part(1, 1, Vector(memory_bytes=7)), lost=5),
    ]
    found = victims(Waiting(2, priority=1), rooms, running)
    assert found is not None
    assert found.jobs == ids(2)


def test_each_victim_is_needed_and_says_how_many_units_are_missing_without_it() -> None:
    running = [job(1, Part(1, 2), lost=1), job(2, Part(2, 3), lost=2), job(3, Part(2, 1), lost=9)]
    found = victims(Waiting(4, priority=1), TWO, running)
    assert found is not None
    assert found.jobs == ids(1, 2)
    assert dict(found.short) == {UUID(int=1): 1, UUID(int=2): 2}


@pytest.mark.parametrize("count", [MAX_EXACT, 4 * MAX_EXACT])
def test_many_small_jobs_are_chosen_exactly(count: int) -> None:
    running = [job(n, Part(1 + n % 2, 1), lost=(7 * n) % 101) for n in range(count)]
    found = victims(Waiting(8, priority=1), TWO, running)
    assert found is not None
    assert found.is_best
    assert found.cost.lost == sum(sorted(one.lost for one in running)[:8])


def test_a_choice_that_is_not_proven_says_how_much_less_another_could_cost() -> None:
    rooms = {
        server: Room(2, free=Vector(1), per_unit=Vector(memory_bytes=6)) for server in range(6)
    }
    running = [
        job(n, Part(n % 6, 1, Vector(memory_bytes=1 + n % 4)), lost=10 + (13 * n) % 17)
        for n in range(3 * MAX_EXACT)
    ]
    found = victims(Waiting(9, priority=1), rooms, running)
    assert found is not None
    assert found.bound <= found.cost
    assert not found.is_best


def test_a_job_that_blocks_free_units_of_a_large_group_is_the_victim() -> None:
    memory = Vector(memory_bytes=4)
    rooms = {server: Room(0, per_unit=memory) for server in range(120)}
    rooms[120] = Room(3, per_unit=memory)
    running = [job(server, Part(server, 1, memory), lost=8) for server in range(120)]
    blocking = job(120, Part(120, 1, Vector(memory_bytes=16)), lost=10)
    found = victims(Waiting(4, priority=1), rooms, [*running, blocking])
    assert found is not None
    assert (found.jobs, found.cost, found.is_best) == (ids(120), Cost(0, 10, 1), True)


def test_a_group_is_searched_if_one_job_there_blocks_the_free_units() -> None:
    memory = Vector(memory_bytes=4)
    rooms = {1: Room(0, per_unit=memory, group=1), 2: Room(3, per_unit=memory, group=2)}
    running = [job(number, Part(1, 1, memory), lost=5) for number in range(1, 5)]
    blocking = job(5, Part(2, 1, Vector(memory_bytes=16)), lost=10)
    other = job(6, Part(2, 1, memory), lost=30)
    found = victims(Waiting(4, priority=1), rooms, [*running, blocking, other])
    assert found is not None
    assert found.jobs == ids(5)


def test_jobs_that_break_a_promise_count_for_the_bound_of_a_group_that_needs_one() -> None:
    rooms = {1: Room(0, group=1), 2: Room(0, group=2)}
    two = [job(1, Part(1, 2), lost=0, breaks=True), job(2, Part(1, 2), lost=0)]
    found = victims(Waiting(4, priority=1), rooms, [*two, job(3, Part(2, 4), lost=0, breaks=True)])
    assert found is not None
    assert (found.jobs, found.cost) == (ids(3), Cost(1, 0, 1))


def test_a_group_is_searched_if_the_best_one_so_far_costs_as_much_as_its_rounded_bound() -> None:
    """8 of 9 units of the first group lose 9.8, but its only job loses 11."""
    rooms = {1: Room(0, group=1), 2: Room(0, group=2)}
    running = [job(1, Part(1, 9), lost=11), job(2, Part(2, 8), lost=10)]
    found = victims(Waiting(8, priority=1), rooms, running)
    assert found is not None
    assert (found.jobs, found.cost, found.bound) == (ids(2), Cost(0, 10, 1), Cost(0, 10, 1))


@pytest.mark.parametrize(("decoys", "small"), [(10, 20), (40, 60)])
def test_units_are_filled_by_several_jobs_of_one_size_with_some_to_spare(
    decoys: int, small: int
) -> None:
    """Three units by two jobs of two units; the decoys lose less for each of their ten units."""
    running = [
        *(job(number, Part(1, 10), lost=100) for number in range(decoys)),
        *(job(100 + number, Part(1, 1), lost=50) for number in range(small)),
        *(job(200, Part(1, 2), lost=22), job(201, Part(1, 2), lost=23)),
    ]
    found = victims(Waiting(3, priority=1), ONE, running)
    assert found is not None
    assert (found.jobs, found.is_best) == (ids(200, 201), True)


MEMORY = Vector(memory_bytes=4)


def test_jobs_on_servers_that_make_room_are_searched_if_the_cheapest_ones_free_no_memory() -> None:
    rooms = {server: Room(0, per_unit=MEMORY) for server in range(101)}
    running = [
        *(job(server, Part(server, 1), lost=5) for server in range(40)),
        *(job(server, Part(server, 1, MEMORY), lost=25) for server in range(40, 100)),
        job(100, Part(100, 3, Vector(memory_bytes=12)), lost=200),
    ]
    found = victims(Waiting(3, priority=1), rooms, running)
    assert found is not None
    assert found.cost == Cost(0, 75, 3)


def test_a_job_on_many_servers_is_searched_if_it_is_cheap_for_its_units() -> None:
    """It makes room for three units on three servers; each alone is dearer than other servers."""
    rooms = {server: Room(0, per_unit=MEMORY) for server in range(110)}
    running = [
        *(job(server, Part(server, 1), lost=5) for server in range(25)),
        job(25, Part(25, 3), lost=9),
        *(job(server, Part(server, 1, MEMORY), lost=25) for server in range(30, 70)),
        *(job(server, Part(server, 1, MEMORY), lost=500) for server in range(70, 107)),
        job(107, *(Part(server, 1, MEMORY) for server in (107, 108, 109)), lost=30),
    ]
    found = victims(Waiting(3, priority=1), rooms, running)
    assert found is not None
    assert (found.jobs, found.cost) == (ids(107), Cost(0, 30, 1))
    assert (found.bound, found.is_best) == (Cost(0, 9, 1), False)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Waiting, dict[int, Room], list[Candidate]]:
    servers = range(draw(st.integers(1, 4)))
    is_spread = draw(st.booleans())
    memory = st.integers(0, 6)
    rooms = {
        server: Room(
            draw(st.integers(0, 2)),
            Vector(draw(memory), 0, draw(memory)),
            Vector(draw(st.integers(0, 3)), 0, draw(st.integers(0, 3))),
            group=draw(st.integers(0, 1)),
            place=draw(st.integers(0, 2)),
        )
        for server in servers
    }
    running = [
        Candidate(
            UUID(int=number),
            draw(st.integers(0, 2)),
            draw(st.integers(0, 9)),
            draw(st.booleans()),
            tuple(
                Part(server, draw(st.integers(0, 3)), Vector(draw(memory), 0, draw(memory)))
                for server in draw(st.sets(st.integers(0, 4), min_size=1, max_size=2))
            ),
        )
        for number in range(draw(st.integers(0, 7)))
    ]
    return Waiting(draw(st.integers(1, 6)), 2, is_spread), rooms, running


def has_room(waiting: Waiting, rooms: dict[int, Room], stopped: Sequence[Candidate]) -> bool:
    """Whether a job fits in some group, from the definition."""
    for group in {room.group for room in rooms.values()}:
        places: dict[int, int] = {}
        for server, room in rooms.items():
            if room.group != group:
                continue
            freed = [part for one in stopped for part in one.parts if part.server == server]
            freed = [part for part in freed if part.units]
            fits = room.free_units + sum(part.units for part in freed)
            for free, more, need in zip(
                room.free,
                [sum(part.freed[i] for part in freed) for i in range(3)],
                room.per_unit,
                strict=True,
            ):
                fits = min(fits, (free + more) // need) if need else fits
            places[room.place] = places.get(room.place, 0) + fits
        fits = sum(min(1, n) if waiting.is_spread else n for n in places.values())
        if fits >= waiting.units:
            return True
    return False


def cost_of(stopped: Sequence[Candidate]) -> Cost:
    return Cost(sum(one.breaks for one in stopped), sum(one.lost for one in stopped), len(stopped))


@given(problems())
@settings(max_examples=300, deadline=None)
def test_no_set_of_victims_is_cheaper(
    problem: tuple[Waiting, dict[int, Room], list[Candidate]],
) -> None:
    waiting, rooms, running = problem
    lower = [one for one in running if one.priority < waiting.priority]
    sets = [
        stopped
        for size in range(len(lower) + 1)
        for stopped in combinations(lower, size)
        if has_room(waiting, rooms, stopped)
    ]
    found = victims(waiting, rooms, running)
    if not sets:
        assert found is None
        return
    assert found is not None
    best = min(map(cost_of, sets))
    chosen = [one for one in running if one.job in found.jobs]
    assert (found.cost, found.bound, cost_of(chosen)) == (best, best, best)
    assert has_room(waiting, rooms, chosen)
    assert sum(found.units.values()) == waiting.units
    assert set(found.short) == set(found.jobs)


@given(problems())
@settings(max_examples=100, deadline=None)
def test_the_bound_holds_if_the_search_is_cut_short(
    problem: tuple[Waiting, dict[int, Room], list[Candidate]],
) -> None:
    exact = victims(*problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(victim_search, "MAX_NODES", 1)
        patch.setattr(victim_search, "MAX_EXACT", 1)
        patch.setattr(victim_choice, "MAX_EXACT", 1)
        patch.setattr(victim_choice, "MAX_LISTED", 1)
        patch.setattr(victim_choice, "SPARE", 1)
        found = victims(*problem)
    assert (found is None) == (exact is None)
    if found is not None and exact is not None:
        assert found.bound <= exact.cost <= found.cost


@st.composite
def blocked_units(draw: st.DrawFn) -> tuple[Waiting, dict[int, Room], list[Candidate]]:
    """Return servers with free units but no free memory, and jobs that free both."""
    servers = range(draw(st.integers(2, 5)))
    rooms = {
        server: Room(
            draw(st.integers(0, 3)), Vector(), Vector(1), draw(st.integers(0, 1)), server // 2
        )
        for server in servers
    }
    running = [
        job(
            number,
            Part(draw(st.sampled_from(servers)), 1, Vector(draw(st.integers(1, 4)))),
            lost=draw(st.integers(0, 20)),
            breaks=draw(st.integers(0, 3)) == 0,
        )
        for number in range(draw(st.integers(3, 8)))
    ]
    return Waiting(draw(st.integers(1, 4)), 2, draw(st.booleans())), rooms, running


@given(blocked_units())
@settings(max_examples=300, deadline=None)
def test_the_bound_holds_if_few_of_the_jobs_that_block_free_units_are_listed(
    problem: tuple[Waiting, dict[int, Room], list[Candidate]],
) -> None:
    waiting, rooms, running = problem
    sets = [
        stopped
        for size in range(len(running) + 1)
        for stopped in combinations(running, size)
        if has_room(waiting, rooms, stopped)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(victim_search, "MAX_EXACT", 0)
        patch.setattr(victim_choice, "MAX_EXACT", 0)
        patch.setattr(victim_choice, "MAX_LISTED", 0)
        patch.setattr(victim_choice, "SPARE", 0)
        found = victims(*problem)
    assert (found is None) == (not sets)
    if found is not None:
        assert found.bound <= min(map(cost_of, sets)) <= found.cost


@given(problems(), st.randoms())
@settings(max_examples=50, deadline=None)
def test_the_order_of_the_jobs_does_not_matter(
    problem: tuple[Waiting, dict[int, Room], list[Candidate]], random: object
) -> None:
    waiting, rooms, running = problem
    shuffled = list(running)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert victims(waiting, rooms, running) == victims(waiting, rooms, shuffled)


@pytest.mark.parametrize("is_spread", [False, True])
@pytest.mark.parametrize("memory", [0, 3])
def test_a_large_group_costs_no_more_if_only_some_candidates_are_searched(
    monkeypatch: pytest.MonkeyPatch, memory: int, *, is_spread: bool
) -> None:
    rooms = {
        server: Room(0, per_unit=Vector(memory_bytes=memory), place=server // 2)
        for server in range(60)
    }
    rng = np.random.default_rng(7)
    running = [
        job(
            n,
            Part(n % 60, 1 + n % 2, Vector(memory_bytes=1 + n % 4)),
            lost=int(rng.integers(1, 1000)),
            breaks=bool(rng.integers(2)),
        )
        for n in range(300)
    ]
    some = victims(Waiting(5, 1, is_spread), rooms, running)
    monkeypatch.setattr(victim_choice, "MAX_LISTED", 1000)
    every = victims(Waiting(5, 1, is_spread), rooms, running)
    assert some is not None
    assert every is not None
    assert some.cost <= every.cost
    assert some.bound == every.bound


def test_groups_that_cannot_be_cheaper_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    rooms = {server: Room(0, group=server) for server in range(50)}
    running = [
        job(n, Part(n % 50, 1), lost=100 + n, breaks=n % 50 not in {7, 8}) for n in range(150)
    ]
    searched: list[int] = []
    search = victim_search.search_victims

    def noting(waiting, rooms, candidates, **of):  # type: ignore[no-untyped-def]
        searched.extend(rooms)
        return search(waiting, rooms, candidates, **of)

    monkeypatch.setattr(victim_choice, "search_victims", noting)
    found = victims(Waiting(2, priority=1), rooms, running)
    assert found is not None
    assert (found.jobs, found.cost) == (ids(7, 57), Cost(0, 264, 2))
    assert searched == [7]


@pytest.mark.parametrize(
    ("cost", "than", "less"),
    [
        (Cost(0, 9_000, 1), Cost(1, 10, 1), True),
        (Cost(1, 10, 1), Cost(0, 9_000, 1), False),
        (Cost(0, 100, 1), Cost(0, 2_500, 1), True),
        (Cost(0, 101, 1), Cost(0, 2_500, 1), False),
        (Cost(0, 2_500, 1), Cost(0, 4_999, 1), False),
        (Cost(0, 2_500, 1), Cost(0, 5_000, 1), True),
        (Cost(0, 100, 1), Cost(0, 100, 9), False),
    ],
    ids=["promise", "no promise", "ten minutes", "less than ten minutes", "less than half", "half",
         "fewer jobs"],
)  # fmt: skip
def test_a_proposal_is_replaced_only_by_a_clearly_better_one(
    cost: Cost, than: Cost, *, less: bool
) -> None:
    assert is_clearly_less(cost, than, units=4) is less
