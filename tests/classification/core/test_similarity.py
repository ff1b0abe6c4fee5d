"""Nearest known applications: similarity and shared concept."""

import numpy as np
import pytest

from apps.classification.core.matrix import MatrixName
from apps.classification.core.similarity import COMPARED, Driver, nearest, space_of
from apps.inventory.core.snapshot import Floats

LLC, NET = "llc_capacity", "network_bandwidth"
HETEROGENEITY, TOLERATED = MatrixName.HETEROGENEITY, MatrixName.TOLERATED
COLUMNS = (LLC, NET)


def tolerated(*rows: tuple[float, ...]) -> dict[MatrixName, tuple[tuple[str, ...], Floats]]:
    return {TOLERATED: (COLUMNS, np.array(rows))}


def known_row(*values: float) -> dict[MatrixName, tuple[tuple[str, ...], Floats]]:
    return {TOLERATED: (COLUMNS, np.array(values))}


FOUR = tolerated((10, 50), (90, 50), (50, 10), (50, 90))
NAMES = ("cache-bound", "cache-free", "net-bound", "net-free")


def test_an_equal_row_has_similarity_one() -> None:
    first = nearest(space_of(NAMES, FOUR), known_row(10, 50))[0]
    assert first.name == "cache-bound"
    assert first.similarity == pytest.approx(1.0)


def test_opposite_and_unrelated_rows_are_not_neighbours() -> None:
    neighbours = nearest(space_of(NAMES, FOUR), known_row(10, 50))
    assert [neighbour.name for neighbour in neighbours] == ["cache-bound"]


def test_the_shared_concept_names_the_column_and_the_side() -> None:
    neighbour = nearest(space_of(NAMES, FOUR), known_row(20, 51))[0]
    assert neighbour.drivers == (Driver(TOLERATED, LLC, is_above=False),)
    assert neighbour.concept_share == pytest.approx(1.0, abs=0.05)


def test_concepts_add_up_to_the_similarity() -> None:
    rng = np.random.default_rng(3)
    rows = rng.uniform(5, 95, (12, 2))
    space = space_of([f"a{i}" for i in range(12)], tolerated(*map(tuple, rows)))
    a, b = space.rows[0], space.rows[1]
    by_concept = 2 * (space.concepts @ a) * (space.concepts @ b) / (a @ a + b @ b)
    assert by_concept.sum() == pytest.approx(2 * a @ b / (a @ a + b @ b))


def test_an_application_is_not_its_own_neighbour() -> None:
    neighbours = nearest(space_of(NAMES, FOUR), known_row(10, 50), leave_out="cache-bound")
    assert neighbours == []


def test_neighbours_are_sorted_and_limited() -> None:
    rows = tolerated((10, 50), (12, 50), (20, 50), (30, 50), (90, 50))
    neighbours = nearest(space_of("abcde", rows), known_row(11, 50), limit=3)
    assert [neighbour.name for neighbour in neighbours] == ["a", "b", "c"]


def test_a_driver_lies_on_the_named_side_for_both() -> None:
    rows = tolerated((10, 20), (90, 80), (12, 90), (88, 15), (50, 50))
    space = space_of("abcde", rows)
    neighbour = nearest(space, known_row(15, 85))[0]
    assert neighbour.name == "c"
    assert Driver(TOLERATED, LLC, is_above=False) in neighbour.drivers
    assert Driver(TOLERATED, NET, is_above=True) in neighbour.drivers


def test_rates_are_compared_by_ratio() -> None:
    speeds = np.array([[1.0, 0.1], [1.0, 0.4], [1.0, 1.6]])
    space = space_of("abc", {HETEROGENEITY: (("J", "A"), speeds)})
    # 0.4 is the geometric middle of 0.1 and 1.6
    assert space.rows[1] == pytest.approx(np.zeros(2), abs=1e-12)


def test_the_overall_rate_is_not_compared() -> None:
    assert MatrixName.BASE_RATE not in COMPARED
    both = FOUR | {MatrixName.BASE_RATE: (("metric",), np.array([[1.0], [9.0], [2.0], [7.0]]))}
    assert space_of(NAMES, both).places == space_of(NAMES, FOUR).places


def test_every_matrix_weighs_the_same() -> None:
    rng = np.random.default_rng(5)
    space = space_of(
        [f"a{i}" for i in range(9)],
        {
            HETEROGENEITY: (("J", "A", "B", "C"), rng.uniform(0.1, 1, (9, 4))),
            TOLERATED: (COLUMNS, rng.uniform(0, 100, (9, 2))),
        },
    )
    energy = (space.rows**2).sum(axis=0)
    assert energy[:4].sum() == pytest.approx(energy[4:].sum())


def test_missing_cells_count_as_average() -> None:
    space = space_of(NAMES, tolerated((10, 50), (90, 50), (50, np.nan), (50, 90)))
    assert space.rows[2, 1] == 0.0
    neighbours = nearest(space, {TOLERATED: ((LLC,), np.array([10.0]))})
    assert neighbours[0].name == "cache-bound"


def test_an_empty_library_has_no_neighbours() -> None:
    assert nearest(space_of((), {}), known_row(10, 50)) == []
    assert nearest(space_of((), {TOLERATED: (COLUMNS, np.zeros((0, 2)))}), known_row(10, 50)) == []


def test_a_library_of_equal_rows_has_no_neighbours() -> None:
    assert nearest(space_of("ab", tolerated((30, 30), (30, 30))), known_row(30, 80)) == []


def test_the_input_is_not_modified() -> None:
    rows = np.array([[10.0, 50.0], [90.0, 50.0], [50.0, 10.0]])
    rows.flags.writeable = False
    assert len(nearest(space_of("abc", {TOLERATED: (COLUMNS, rows)}), known_row(20, 50))) == 1
