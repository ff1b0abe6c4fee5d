import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from apps.scheduling.core import chance


def test_words_are_those_of_splitmix64() -> None:
    # the first outputs for seed 1234567 in Vigna's reference implementation
    assert [chance.word(1234567, i) for i in range(3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


@given(st.integers(0, 2**63 - 1), st.integers(0, 10**6))
def test_the_array_form_draws_the_same_words(seed: int, at: int) -> None:
    assert int(chance.words(seed, np.array([at]))[0]) == chance.word(seed, at)


@given(st.integers(0, 2**64 - 1), st.integers(1, 2**31 - 1))
def test_scaled_words_stay_below_n(word: int, n: int) -> None:
    assert 0 <= chance.below(word, n) < n


def test_scaled_words_are_uniform() -> None:
    counts = np.bincount([chance.below(chance.word(7, i), 10) for i in range(20_000)])
    # each count is binomial(20000, 0.1): deviation 42.4, and 4.5 of them leave 7e-5 for ten cells
    assert np.abs(counts - 2000).max() < 4.5 * 42.4


def test_coins_of_one_decision_differ_and_are_not_negative() -> None:
    coins = chance.coins(11, np.arange(5000))
    assert np.unique(coins).size == 5000
    assert coins.min() >= 0


def test_another_seed_gives_another_order_of_units() -> None:
    units = np.arange(2000)
    ranks = [np.argsort(np.argsort(chance.coins(seed, units))) for seed in (1, 2)]
    # for independent orders Spearman's correlation has deviation 1 / sqrt(n - 1) = 0.022
    assert abs(np.corrcoef(ranks[0], ranks[1])[0, 1]) < 0.1
