"""Designs: the common contract, and planted structures that learning designs must detect."""

import numpy as np
import pytest

from apps.classification.core.design import DESIGNS, FIXED, choose, spread_order
from apps.classification.core.estimators import EmptyLibraryError
from apps.classification.core.matrix import Scale
from apps.inventory.core.snapshot import Floats, Ints

LEARNT = ("informative", "a_optimal")
ROWS, COLUMNS = 24, 10


def two_halves(seed: int = 3) -> Floats:
    """Columns 0-4 rise and fall together, and so do 5-9, apart from the first five."""
    rng = np.random.default_rng(seed)
    factors = np.repeat(rng.normal(0.0, 0.5, (ROWS, 2)), COLUMNS // 2, axis=1)
    return np.exp(factors + rng.normal(0.0, 0.05, (ROWS, COLUMNS)))


def chosen_columns(library: Floats, k: int, method: str, **facts: object) -> list[int]:
    rng = np.random.default_rng(7)
    chosen = choose(library, k, scale=Scale.LOG, method=method, rng=rng, **facts)  # type: ignore[arg-type]
    return [int(column) for column in chosen]


def mask(*columns: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.isin(np.arange(COLUMNS), columns)


@pytest.mark.parametrize("method", DESIGNS)
@pytest.mark.parametrize("k", [1, 2, 4])
def test_k_different_columns_are_chosen_among_those_allowed_and_not_measured(
    method: str, k: int
) -> None:
    chosen = chosen_columns(two_halves(), k, method, allowed=~mask(0, 9), already=mask(4))
    assert len(set(chosen)) == k
    assert set(chosen) <= {1, 2, 3, 5, 6, 7, 8}


@pytest.mark.parametrize("method", DESIGNS)
def test_every_column_can_be_chosen(method: str) -> None:
    assert sorted(chosen_columns(two_halves(), COLUMNS, method)) == list(range(COLUMNS))


@pytest.mark.parametrize("method", DESIGNS)
def test_the_choice_does_not_depend_on_the_order_of_the_rows(
    method: str,
) -> None:
    library, groups = two_halves(), np.arange(ROWS) // 3
    order = np.random.default_rng(1).permutation(ROWS)
    first = chosen_columns(library, 3, method, groups=groups)
    assert chosen_columns(library, 3, method, groups=groups) == first
    assert chosen_columns(library[order], 3, method, groups=groups[order]) == first


@pytest.mark.parametrize("method", DESIGNS)
def test_a_library_with_gaps_or_of_scores_is_as_good(method: str) -> None:
    gaps = two_halves()
    gaps[np.random.default_rng(2).random(gaps.shape) < 0.3] = np.nan
    gaps[5] = np.nan
    assert len(set(chosen_columns(gaps, 2, method))) == 2
    scores = np.random.default_rng(2).uniform(0.0, 100.0, (ROWS, COLUMNS))
    rng = np.random.default_rng(0)
    chosen = choose(scores, 2, scale=Scale.SCORE, method=method, rng=rng)
    assert np.unique(chosen).size == 2


@pytest.mark.parametrize("method", DESIGNS)
@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"k": 0}, "k must lie between 1 and the 10 columns"),
        ({"k": 3, "allowed": mask(1, 2)}, "k must lie between 1 and the 2 columns"),
        ({"k": 2, "allowed": mask(1, 2), "already": mask(2)}, "and the 1 columns"),
        ({"k": 2, "already": mask(1)[:4]}, "already must have 10 columns"),
        ({"k": 2, "groups": np.zeros(3)}, "groups must name 24 applications"),
        ({"k": 2, "cost": np.zeros(COLUMNS)}, "cost must be 10 positive"),
        ({"k": 2, "order": [0, 0, 1]}, "order must name each of 10 columns once"),
    ],
)
def test_an_invalid_problem_is_refused_with_the_reason(
    method: str, facts: dict[str, object], expected: str
) -> None:
    rest = {name: value for name, value in facts.items() if name != "k"}
    with pytest.raises(ValueError, match=expected):
        chosen_columns(two_halves(), int(str(facts["k"])), method, **rest)


def test_an_unknown_method_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(ValueError, match="random, fixed, a_optimal, informative, got 'best'"):
        chosen_columns(two_halves(), 2, "best")


@pytest.mark.parametrize("method", DESIGNS)
def test_a_cell_that_cannot_be_a_measurement_is_refused(method: str) -> None:
    library = two_halves()
    library[3, 4] = -1.0
    with pytest.raises(ValueError, match="positive and finite"):
        chosen_columns(library, 2, method)


@pytest.mark.parametrize("method", LEARNT)
def test_an_empty_library_is_refused(method: str) -> None:
    with pytest.raises(EmptyLibraryError):
        chosen_columns(np.full((4, COLUMNS), np.nan), 2, method)


@pytest.mark.parametrize("method", LEARNT)
def test_one_column_of_each_independent_half_is_chosen(method: str) -> None:
    chosen = chosen_columns(two_halves(), 2, method)
    assert sorted(column // 5 for column in chosen) == [0, 1]


@pytest.mark.parametrize("method", LEARNT)
@pytest.mark.parametrize(("measured", "half"), [(2, 1), (8, 0)])
def test_measured_columns_are_not_chosen_again(method: str, measured: int, half: int) -> None:
    chosen = chosen_columns(two_halves(), 1, method, already=mask(measured))
    assert chosen[0] // 5 == half


@pytest.mark.parametrize("method", LEARNT)
def test_informative_columns_are_chosen_before_noise(method: str) -> None:
    library = two_halves()
    library[:, 0] = np.exp(np.random.default_rng(9).normal(0.0, 0.3, ROWS))
    assert 0 not in chosen_columns(library, 2, method)


@pytest.mark.parametrize("method", LEARNT)
def test_a_cheap_column_is_preferred_to_an_equal_expensive_one(method: str) -> None:
    library = two_halves()
    dear = chosen_columns(library, 2, method)
    cost = np.where(mask(*dear), 10.0, 1.0)
    cheap = chosen_columns(library, 2, method, cost=cost)
    assert not set(cheap) & set(dear)
    assert sorted(column // 5 for column in cheap) == [0, 1]


@pytest.mark.parametrize("method", LEARNT)
def test_the_unit_of_cost_does_not_matter(method: str) -> None:
    cost = np.linspace(1.0, 3.0, COLUMNS)
    once = chosen_columns(two_halves(), 3, method, cost=cost)
    assert chosen_columns(two_halves(), 3, method, cost=1000.0 * cost) == once
    assert chosen_columns(two_halves(), 3, method, cost=0.001 * cost) == once


@pytest.mark.parametrize("method", LEARNT)
def test_an_unmeasured_column_comes_last(method: str) -> None:
    library = two_halves()
    library[:, 7] = np.nan
    assert chosen_columns(library, COLUMNS, method)[-1] == 7
    assert 7 not in chosen_columns(library, 4, method)


@pytest.mark.parametrize("method", LEARNT)
def test_a_single_row_gives_the_fixed_order(method: str) -> None:
    library = np.full((1, COLUMNS), 2.0)
    assert chosen_columns(library, 3, method) == chosen_columns(library, 3, FIXED)


def test_many_rows_of_one_application_do_not_outweigh_the_others() -> None:
    rng = np.random.default_rng(4)
    library = two_halves()
    # one application of 60 rows in which only the second half of the columns moves
    narrow = np.exp(np.repeat(rng.normal(0.0, 1.5, (60, 2)) * [0.0, 1.0], 5, axis=1))
    groups = np.concatenate([np.arange(ROWS), np.full(60, ROWS)])
    chosen = chosen_columns(np.concatenate([library, narrow]), 2, "informative", groups=groups)
    assert sorted(column // 5 for column in chosen) == [0, 1]


def test_the_fixed_order_starts_with_the_ends_and_halves_the_widest_gap() -> None:
    assert spread_order(6).tolist() == [0, 5, 2, 3, 1, 4]
    assert [spread_order(m).tolist() for m in (1, 2, 3)] == [[0], [0, 1], [0, 2, 1]]
    assert (
        chosen_columns(two_halves(), 3, FIXED)
        == chosen_columns(1.0 / two_halves(8), 3, FIXED)
        == [0, 9, 4]
    )


def test_the_fixed_order_can_be_given() -> None:
    order = [5, 3, 9, 0, 1, 2, 4, 6, 7, 8]
    assert chosen_columns(two_halves(), 3, FIXED, order=order, already=mask(3)) == [5, 9, 0]


def drawn(seed: int) -> Ints:
    rng = np.random.default_rng(seed)
    return choose(two_halves(), 2, scale=Scale.LOG, method="random", rng=rng)


def test_random_chooses_columns_uniformly() -> None:
    counts = np.bincount(np.concatenate([drawn(seed) for seed in range(400)]), minlength=COLUMNS)
    assert counts.sum() == 800
    # 80 each are expected, with a deviation of 8
    assert counts.min() > 48
    assert counts.max() < 112


@pytest.mark.parametrize("method", DESIGNS)
def test_columns_of_several_matrices_measured_together_are_chosen_once(method: str) -> None:
    both = np.stack([two_halves(), two_halves(8)])
    chosen = chosen_columns(both, 4, method, allowed=~mask(0, 9), already=mask(4))
    assert len(set(chosen)) == 4
    assert set(chosen) <= {1, 2, 3, 5, 6, 7, 8}


@pytest.mark.parametrize("method", LEARNT)
def test_columns_are_chosen_for_all_matrices_they_are_measured_in(method: str) -> None:
    rng = np.random.default_rng(6)
    # the first matrix is nearly flat; in the second, four fifths of the columns move together
    flat = np.exp(rng.normal(0.0, 0.01, (ROWS, COLUMNS)))
    moving = np.exp(np.repeat(rng.normal(0.0, 0.5, (ROWS, 2)), [8, 2], axis=1))
    moving *= rng.lognormal(0.0, 0.05, moving.shape)
    first, second = (np.stack(pair) for pair in ((flat, moving), (moving, flat)))
    assert sorted(column // 8 for column in chosen_columns(first, 2, method)) == [0, 1]
    assert sorted(column // 8 for column in chosen_columns(second, 2, method)) == [0, 1]


@pytest.mark.parametrize("method", LEARNT)
def test_a_column_unmeasured_in_one_matrix_comes_last(method: str) -> None:
    second = two_halves(8)
    second[:, 7] = np.nan
    assert chosen_columns(np.stack([two_halves(), second]), COLUMNS, method)[-1] == 7


@pytest.mark.parametrize("method", LEARNT)
def test_matrices_without_common_columns_give_the_fixed_order(method: str) -> None:
    both = np.stack([two_halves(), two_halves(8)])
    both[0, :, :5] = np.nan
    both[1, :, 5:] = np.nan
    assert chosen_columns(both, 3, method) == chosen_columns(both, 3, FIXED)


def test_a_library_that_is_a_list_of_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match="two or three dimensions"):
        chosen_columns(np.ones(4), 1, "random")
