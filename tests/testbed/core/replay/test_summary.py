"""Energy and utilisation against second-by-second sums."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.testbed.core.replay.summary import INTERVALS, Holds, energy_j, series, utilisation
from tests.emulation.worlds import machines

HOLD = st.tuples(st.integers(0, 1), st.integers(1, 2), st.integers(0, 20), st.integers(1, 9))


def holds_of(rows: list[tuple[int, int, int, int]]) -> Holds:
    server, units, from_s, length = np.array(rows, dtype=np.int64).T
    return Holds(server, units, from_s.astype(float), (from_s + length).astype(float))


@given(st.lists(HOLD, min_size=1, max_size=8))
def test_energy_is_the_sum_over_the_seconds(rows: list[tuple[int, int, int, int]]) -> None:
    facts, joules = machines(16, 16), 0.0
    for second in range(30):
        used = [0, 0]
        for server, units, from_s, length in rows:
            used[server] += units * (from_s <= second < from_s + length)
        joules += sum(10.0 + 10.0 * u / 16 for u in used if u)
    assert energy_j(holds_of(rows), facts) == pytest.approx(joules)


@given(st.lists(HOLD, min_size=1, max_size=8))
def test_utilisation_is_the_mean_over_the_seconds(rows: list[tuple[int, int, int, int]]) -> None:
    used = [sum(u for _, u, f, n in rows if f <= second < f + n) for second in range(30)]
    assert utilisation(holds_of(rows), 32, 0.0, 30.0) == pytest.approx(np.mean(used) / 32)
    at_s, share = series(holds_of(rows), 32, float(INTERVALS))
    assert at_s.tolist() == list(range(INTERVALS + 1))
    assert share[:30] == pytest.approx(np.array(used) / 32, abs=1e-9)
