"""Energy and utilisation against second-by-second sums."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.testbed.core.replay.summary import INTERVALS, Holds, hold_energy_j, series, utilisation
from tests.emulation.worlds import machines

HOLD = st.tuples(st.integers(0, 1), st.integers(1, 2), st.integers(0, 20), st.integers(1, 9))


def holds_of(rows: list[tuple[int, int, int, int]]) -> Holds:
    server, units, from_s, length = np.array(rows, dtype=np.int64).T
    ends_s = (from_s + length).astype(float)
    return Holds(server, units, from_s.astype(float), ends_s, np.arange(len(rows)))


@given(st.lists(HOLD, min_size=1, max_size=8))
def test_energy_of_each_hold_is_the_sum_over_the_seconds(
    rows: list[tuple[int, int, int, int]],
) -> None:
    facts, idle = machines(16, 16), 0.0
    joules = [0.0] * len(rows)
    for second in range(30):
        used = [0, 0]
        now = [from_s <= second < from_s + length for _, _, from_s, length in rows]
        for (server, units, *_), is_held in zip(rows, now, strict=True):
            used[server] += units * is_held
        idle += sum(10.0 for u in used if u)
        for i, (server, units, *_) in enumerate(rows):
            joules[i] += now[i] * units * (10.0 / max(used[server], 1) + 10.0 / 16)
    found = hold_energy_j(holds_of(rows), facts)
    assert found.joules == pytest.approx(joules)
    assert found.idle_joules == pytest.approx(idle)


@given(st.lists(HOLD, min_size=1, max_size=8))
def test_utilisation_is_the_mean_over_the_seconds(rows: list[tuple[int, int, int, int]]) -> None:
    used = [sum(u for _, u, f, n in rows if f <= second < f + n) for second in range(30)]
    assert utilisation(holds_of(rows), 32, 0.0, 30.0) == pytest.approx(np.mean(used) / 32)
    at_s, share = series(holds_of(rows), 32, float(INTERVALS))
    assert at_s.tolist() == list(range(INTERVALS + 1))
    assert share[:30] == pytest.approx(np.array(used) / 32, abs=1e-9)
