import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.common.core.interference import N_SOURCES
from apps.scheduling.core.tarcil import encoding
from apps.scheduling.core.tarcil.encoding import BASE, Codes, Form

LARGEST = 10**20 - 1
scores = st.lists(st.floats(0, 100), min_size=N_SOURCES, max_size=N_SOURCES)


def as_integer(codes: Codes, i: int = 0) -> int:
    return int(codes.high[i]) * BASE + int(codes.low[i])


def by_hand(pairs: list[int]) -> int:
    return int("".join(f"{pair:02d}" for pair in pairs))


def codes_of(number: int) -> Codes:
    return Codes(np.array([number // BASE]), np.array([number % BASE]))


@pytest.mark.parametrize(
    ("score", "digit"),
    [(0.0, 0), (0.49, 0), (0.5, 1), (1.5, 2), (2.5, 3), (98.5, 99), (99.4, 99), (100.0, 99)],
)
def test_scores_are_rounded_half_up_and_capped_at_99(score: float, digit: int) -> None:
    assert encoding.digits(np.array([score])).tolist() == [digit]


def test_the_papers_example_of_two_resources_encodes_to_8431() -> None:
    caused = np.array([31.0, 84.0] + [0.0] * 8)
    assert as_integer(encoding.demand(caused).target) == 8431 * 10**16


def test_equal_scores_keep_the_order_of_the_sources() -> None:
    caused = np.array([5.0, 9.0, 5.0, 9.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0])
    assert encoding.demand(caused).order.tolist() == [1, 3, 0, 2, 4, 5, 6, 7, 8, 9]


@given(scores)
def test_the_target_equals_eq_1_in_python_integers(values: list[float]) -> None:
    pairs = sorted((min(99, int(np.floor(v + 0.5))) for v in values), reverse=True)
    assert as_integer(encoding.demand(np.array(values)).target) == by_hand(pairs)


@given(scores, scores)
def test_quality_equals_eq_4_in_python_integers(job: list[float], felt: list[float]) -> None:
    order = encoding.demand(np.array(job)).order
    pairs = [min(99, int(np.floor(felt[k] + 0.5))) for k in order]
    quality = encoding.quality(np.array([felt]), order)
    assert as_integer(quality) == LARGEST - by_hand(pairs)


@given(st.integers(0, LARGEST), st.integers(0, LARGEST))
def test_monotone_closeness_equals_eq_5_in_python_integers(u: int, t: int) -> None:
    expected = LARGEST - (u - t) if u >= t else u
    assert as_integer(encoding.closeness(codes_of(u), codes_of(t), Form.NEAREST)) == expected


@given(st.integers(0, LARGEST), st.integers(0, LARGEST))
def test_printed_closeness_equals_eq_5_in_python_integers(u: int, t: int) -> None:
    expected = LARGEST - (u - t) if u >= t else t - u
    assert as_integer(encoding.closeness(codes_of(u), codes_of(t), Form.PRINTED)) == expected


@given(st.integers(0, LARGEST), st.integers(0, LARGEST))
def test_quietest_closeness_is_the_units_quality(u: int, t: int) -> None:
    assert as_integer(encoding.closeness(codes_of(u), codes_of(t), Form.QUIETEST)) == u


@given(st.integers(0, LARGEST), st.integers(0, LARGEST), st.booleans())
def test_a_guarded_hit_also_needs_the_margin(u: int, t: int, has_margin: bool) -> None:
    expected = LARGEST - (u - t) if u >= t and has_margin else u
    codes = encoding.closeness(codes_of(u), codes_of(t), Form.GUARDED, np.array([has_margin]))
    assert as_integer(codes) == expected


@pytest.mark.parametrize(
    ("minimum", "expected"), [(-5.0, False), (9.99, False), (10.0, True), (60.0, True)]
)
def test_the_margin_is_ten_points_in_every_source(minimum: float, expected: bool) -> None:
    headroom = np.full((1, N_SOURCES), 80.0)
    headroom[0, 4] = minimum
    assert encoding.has_margin(headroom).tolist() == [expected]


@given(st.integers(0, LARGEST), st.integers(0, LARGEST), st.integers(0, LARGEST))
def test_every_miss_ranks_below_every_hit_in_the_monotone_form(t: int, u: int, v: int) -> None:
    miss, hit = min(u, t - 1), max(v, t)
    low = as_integer(encoding.closeness(codes_of(max(miss, 0)), codes_of(t), Form.NEAREST))
    high = as_integer(encoding.closeness(codes_of(hit), codes_of(t), Form.NEAREST))
    assert t == 0 or low < high


def test_codes_that_are_equal_in_float64_are_distinguished() -> None:
    idle = np.zeros((2, N_SOURCES))
    idle[1, 9] = 1.0
    codes = encoding.quality(idle, np.arange(N_SOURCES))
    assert codes.shares()[0] == codes.shares()[1]
    assert as_integer(codes, 0) - as_integer(codes, 1) == 1


def test_a_server_of_one_unit_has_no_pressure() -> None:
    felt = encoding.pressure(np.full((1, N_SOURCES), 80.0), np.array([1], dtype=np.int32))
    assert felt.tolist() == [[0.0] * N_SOURCES]


def test_pressure_is_the_sum_of_the_others_over_all_units_but_one() -> None:
    felt = encoding.pressure(np.full((1, N_SOURCES), 90.0), np.array([4], dtype=np.int32))
    assert felt.tolist() == [[30.0] * N_SOURCES]


@settings(max_examples=30)
@given(scores)
def test_shares_lie_between_0_and_1(values: list[float]) -> None:
    share = encoding.demand(np.array(values)).target.shares()[0]
    assert 0.0 <= share <= 1.0


@pytest.mark.parametrize(
    ("a", "b", "difference"),
    [
        ((5, 7), (3, 7), (2, 0)),  # equal low words: no borrow
        ((5, 7), (3, 6), (2, 1)),
        ((5, 6), (3, 7), (1, BASE - 1)),
        ((5, 7), (5, 7), (0, 0)),
    ],
)
def test_a_difference_has_words_within_the_base(
    a: tuple[int, int], b: tuple[int, int], difference: tuple[int, int]
) -> None:
    first, second = (Codes(np.array([high]), np.array([low])) for high, low in (a, b))
    high, low = encoding.subtract(first, second)
    assert (high.tolist(), low.tolist()) == ([difference[0]], [difference[1]])
