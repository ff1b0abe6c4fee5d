"""Total rates and load factors of queues."""

import numpy as np
import pytest

from apps.scheduling.core.admission.stability import load_factors, total_rates


def test_diverted_jobs_add_to_the_queue_they_join() -> None:
    """Half of queue 0 goes to 1, a quarter of queue 1 to 2: 4, 2 + 2 = 4, 1 + 1 = 2."""
    routing = np.array([[0, 0.5, 0], [0, 0, 0.25], [0, 0, 0]])
    assert total_rates(np.array([4.0, 2.0, 1.0]), routing) == pytest.approx([4.0, 4.0, 2.0])


def test_jobs_that_return_are_counted_again() -> None:
    """x = 1 + y/2, y = x/2: x = 4/3, y = 2/3."""
    routing = np.array([[0, 0.5], [0.5, 0]])
    assert total_rates(np.array([1.0, 0.0]), routing) == pytest.approx([4 / 3, 2 / 3])


def test_jobs_that_circle_for_ever_have_no_finite_rate() -> None:
    routing = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert total_rates(np.array([1.0, 0.0]), routing).tolist() == [np.inf, np.inf]


def test_load_factors() -> None:
    found = load_factors(np.array([1.0, 3.0, 0.0, 1.0, 0.0]), np.array([2.0, 2.0, 0.0, 0.0, 5.0]))
    assert found.tolist() == [0.5, 1.5, 0.0, np.inf, 0.0]
