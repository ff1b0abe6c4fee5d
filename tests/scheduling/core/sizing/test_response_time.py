import math

import numpy as np
import pytest

from apps.scheduling.core.sizing.response_time import late_share, latency_percentile


def test_one_server_has_the_exponential_tail_of_m_m_1() -> None:
    late = late_share(np.array([1]), np.array([10.0]), 6.0, 0.5)
    assert late == pytest.approx([math.exp(-(10.0 - 6.0) * 0.5)])


def test_the_percentile_of_m_m_1_has_its_closed_form() -> None:
    seconds = latency_percentile(1, np.array([10.0]), 6.0, 0.99)
    assert seconds == pytest.approx([math.log(100.0) / 4.0])


def erlang_c(c: int, a: float) -> float:
    """The sum of the textbooks (Erlang C)."""
    terms = [a**k / math.factorial(k) for k in range(c)]
    last = a**c / math.factorial(c) * c / (c - a)
    return last / (sum(terms) + last)


@pytest.mark.parametrize(("c", "a"), [(1, 0.5), (2, 1.5), (4, 3.9), (16, 8.0), (64, 60.0)])
def test_the_tail_equals_the_textbook_formula(c: int, a: float) -> None:
    mu, t = 3.0, 0.4
    wait, slack = erlang_c(c, a), c - 1 - a
    late = math.exp(-mu * t) * (1 + wait * (1 - math.exp(-mu * t * slack)) / slack)
    assert late_share(np.array([c]), np.array([c * mu]), a * mu, t) == pytest.approx([late])


def test_the_removable_pole_is_removed() -> None:
    # c - 1 - a = 0 for two units at one erlang: the limit is exp(-x) (1 + C x)
    x = 1.3
    expected = math.exp(-x) * (1 + erlang_c(2, 1.0) * x)
    late = late_share(np.array([2]), np.array([2.0]), 1.0, x)
    assert late == pytest.approx([expected], rel=1e-6)


@pytest.mark.parametrize("load", [10.0, 11.0, 1e6])
def test_an_overloaded_service_is_always_late(load: float) -> None:
    assert late_share(np.array([2]), np.array([10.0]), load, 100.0).tolist() == [1.0]
    assert latency_percentile(2, np.array([10.0]), load, 0.99).tolist() == [math.inf]


def test_the_percentile_inverts_the_tail() -> None:
    capacity = np.array([50.0, 60.0, 200.0])
    seconds = latency_percentile(8, capacity, 45.0, 0.95)
    assert late_share(np.full(3, 8), capacity, 45.0, seconds) == pytest.approx([0.05] * 3)
