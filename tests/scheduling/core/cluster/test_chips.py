"""Choice of the cores of containers among the chips of their server."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.scheduling.core.cluster.chips import (
    Chip,
    Container,
    assign_cores,
    container_of,
    core_sentence,
    taz_pairs,
)

TAZ, TURTLE = Container(1, 0.9, is_taz=True), Container(1, 0.1, is_taz=False)


def empty(*cores: int) -> list[Chip]:
    first = [sum(cores[:i]) for i in range(len(cores))]
    return [Chip(n, tuple(range(f, f + n))) for f, n in zip(first, cores, strict=True)]


def groups(containers: list[Container], chips: list[Chip]) -> list[tuple[int, ...]]:
    return [choice.groups for choice in assign_cores(containers, chips)]


def test_two_tazes_of_a_server_are_on_different_chips() -> None:
    found = groups([TAZ, TURTLE, TAZ, TURTLE], empty(2, 2))
    assert found[0] != found[2]
    assert sorted(found) == [(0,), (0,), (1,), (1,)]


def test_the_least_intense_turtle_shares_a_chip_with_the_most_intense_taz() -> None:
    found = groups(
        [
            Container(1, 1.0, is_taz=True),
            Container(1, 0.6, is_taz=True),
            Container(1, 0.3, is_taz=False),
            Container(1, 0.0, is_taz=False),
        ],
        empty(2, 2),
    )
    assert found[0] == found[3]
    assert found[1] == found[2]


def test_the_number_of_tazes_on_a_chip_matters_more_than_their_intensity() -> None:
    weak = Container(1, 0.5, is_taz=True)
    chips = empty(4, 4)
    chips[0] = chips[0].after(Container(1, 1.0, is_taz=True), [0])
    chips[1] = chips[1].after(weak, [4]).after(weak, [5])
    assert groups([TAZ], chips) == [(0,)]


def test_a_container_stays_on_one_chip_if_one_has_room() -> None:
    chips = empty(2, 4)
    chips[1] = chips[1].after(TAZ, [2])
    (choice,) = assign_cores([Container(3, 0.9, is_taz=True)], chips)
    assert choice.units == (3, 4, 5)


def test_a_container_that_fits_into_no_chip_takes_several() -> None:
    (choice,) = assign_cores([Container(3, 0.0, is_taz=False)], empty(2, 2))
    assert (choice.units, choice.groups) == ((0, 1, 2), (0, 1))
    before = choice.before
    halves = [before[0].after(choice.container, (0, 1)), before[1].after(choice.container, (2,))]
    assert [chip.free for chip in halves] == [(), (3,)]


def test_containers_of_equal_intensity_spread_over_the_chips() -> None:
    unknown = Container(1, 0.0, is_taz=False)
    assert groups([unknown] * 4, empty(4, 4)) == [(0,), (1,), (0,), (1,)]


def test_too_few_free_cores_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 2 cores, got 3"):
        assign_cores([TAZ] * 3, empty(1, 1))


@pytest.mark.parametrize(
    ("caused", "tolerated", "is_taz"),
    [
        ([80.0] * 10, [40.0] * 10, True),
        ([5.0] * 10, [90.0] * 10, False),
        # a bad neighbour of its own core and of the disk only
        ([0.0] * 4 + [100.0] * 6, [20.0] * 10, False),
        ([], [], False),
    ],
    ids=["presses the cache", "presses little", "presses other resources", "unknown"],
)
def test_a_taz_is_predicted_to_lose_a_tenth_beside_its_own_kind(
    caused: list[float], tolerated: list[float], is_taz: bool
) -> None:
    assert container_of(2, 4, caused, tolerated).is_taz is is_taz


def test_a_loss_of_a_tenth_is_an_intensity_of_a_half() -> None:
    # 5 % at the tolerated pressure, and 1/30 of the logarithm for each point beyond it
    beyond = 30.0 * np.log(0.95 / 0.9)
    caused = [0.0, 50.0 + beyond] + [0.0] * 8
    found = container_of(3, 4, caused, [50.0] * 10)
    assert found.intensity == pytest.approx(0.5, abs=1e-5)


@pytest.mark.parametrize(
    ("container", "chips", "sentence"),
    [
        (TAZ, empty(2, 2), ""),
        (
            TAZ,
            [empty(2, 2)[0].after(TAZ, [0]), empty(2, 2)[1]],
            "It is memory-intensive; other such jobs on L3 groups: 0 on its own (1), 1 on 0.",
        ),
        (
            TURTLE,
            [empty(2, 2)[0].after(TAZ, [0]), empty(2, 2)[1]],
            "Memory intensity of the jobs on L3 groups: 0 on its own (1), 0.9 on 0.",
        ),
        (TURTLE, [Chip(2, ()), Chip(2, (2, 3))], "Only L3 group 1 had 1 free core."),
        (
            Container(3, 0.0, is_taz=False),
            empty(2, 2),
            "No L3 group had 3 free cores: it runs on groups 0 and 1.",
        ),
        (TURTLE, [Chip(2, (1,)), Chip(2, (2, 3))], "L3 group 1 had the most free cores."),
    ],
    ids=["equal", "tazes", "load", "only one", "several", "free"],
)
def test_the_sentence_names_what_decided(
    container: Container, chips: list[Chip], sentence: str
) -> None:
    (choice,) = assign_cores([container], chips)
    assert core_sentence(choice.as_json([0])) == sentence


containers = st.builds(
    Container,
    size=st.integers(1, 3),
    intensity=st.floats(0.0, 1.0),
    is_taz=st.booleans(),
)


@given(st.lists(containers, max_size=5), st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_every_container_gets_its_cores_and_no_core_is_given_twice(
    wanted: list[Container], cores: list[int]
) -> None:
    chips = empty(*cores, 15)
    found = assign_cores(wanted, chips)
    given_units = [unit for choice in found for unit in choice.units]
    assert [len(choice.units) for choice in found] == [c.size for c in wanted]
    assert len(set(given_units)) == len(given_units)
    assert set(given_units) <= {unit for chip in chips for unit in chip.free}
    # one chip always has room here
    assert all(len(choice.groups) == 1 for choice in found)


@given(
    st.lists(st.tuples(st.booleans(), st.floats(0.0, 1.0)), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=3, max_size=3),
)
def test_no_other_assignment_has_fewer_pairs_of_tazes(
    wanted: list[tuple[bool, float]], use: list[tuple[int, int]]
) -> None:
    chips = [Chip(8, tuple(range(10 * g, 10 * g + n)), t) for g, (n, t) in enumerate(use)]
    room = sum(len(chip.free) for chip in chips)
    ones = [Container(1, heat, is_taz=is_taz) for is_taz, heat in wanted][:room]
    found = [choice.groups[0] for choice in assign_cores(ones, chips)]

    def pairs(assignment: tuple[int, ...]) -> int:
        now = list(chips)
        for container, group in zip(ones, assignment, strict=True):
            now[group] = now[group].after(container, now[group].free[:1] or (-1,))
        return taz_pairs(now)

    allowed = [
        each
        for each in product(range(3), repeat=len(ones))
        if all(each.count(g) <= len(chip.free) for g, chip in enumerate(chips))
    ]
    assert pairs(tuple(found)) == min(map(pairs, allowed))
