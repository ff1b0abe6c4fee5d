"""All arrival processes beside each other."""

import numpy as np
import pytest

from apps.testbed.core.arrival_comparison import FITS, HEAD, process_distances, table
from apps.testbed.core.arrivals import arrivals
from tests.testbed.core.test_arrival_gaps import DAY_S, GAPS


def test_bursty_arrivals_are_far_from_all_rates_and_near_their_own_gaps() -> None:
    times = arrivals(GAPS, 5_000, 2 * DAY_S, np.random.default_rng(3))
    found = {row.process: row for row in process_distances(times)}
    assert list(found) == list(FITS)
    assert [name for name, row in found.items() if row.is_chosen] == ["gaps"]
    gaps = found.pop("gaps")
    assert gaps.held_out is not None
    assert gaps.all < 0.05
    for row in found.values():
        assert row.held_out is not None
        assert row.all > 0.2
        assert row.held_out > 4 * gaps.held_out


def test_arrivals_at_one_rate_are_near_a_poisson_process() -> None:
    times = np.sort(np.random.default_rng(5).uniform(0.0, DAY_S, 4_000))
    found = {row.process: row for row in process_distances(times)}
    poisson = found["Poisson"]
    assert poisson.is_chosen
    assert poisson.all < poisson.same_all
    assert sum(row.is_chosen for row in found.values()) == 1


def test_few_arrivals_have_no_held_out_windows() -> None:
    rows = table(process_distances(np.array([0.0, 5.0, 9.0])))
    assert all(len(row) == len(HEAD) for row in rows)
    assert rows[0] == ["Poisson", rows[0][1], "-", rows[0][3], "-", "yes"]
    with pytest.raises(ValueError, match="at least 2 arrivals"):
        process_distances(np.array([0.0]))
