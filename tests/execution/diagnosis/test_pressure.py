import math

import numpy as np
import pytest

from apps.execution.core.diagnosis.pressure import (
    AT_TOLERATED,
    loss,
    marginal_loss,
    server_pressure,
    source_pressure,
)
from tests.execution.diagnosis.cases import AT, HERE, THERE, case, holding, limits, vector

LLC = 3


def test_pressure_is_the_sum_of_the_others_over_the_other_units() -> None:
    loud = holding("loud", vector(llc_bandwidth=80.0), units=5, from_s=300.0)
    quiet = holding("quiet", vector(llc_bandwidth=10.0), units=2)
    known = case(np.zeros(100), others=(loud, quiet))
    pressed = server_pressure(known, HERE, np.array([0.0, 300.0]))
    assert pressed[:, LLC] == pytest.approx([2.0, 42.0])  # 2·10/10; (5·80 + 2·10)/10
    assert not pressed[:, :LLC].any()


def test_units_on_a_quiet_server_lower_the_mean() -> None:
    loud = holding("loud", vector(llc_bandwidth=80.0), units=10, from_s=500.0)
    own = (holding("me", units=3), holding("me", server=THERE))
    known = case(np.zeros(100), own=own, others=(loud,))
    found = source_pressure(known, AT < 500.0, AT >= 500.0)
    assert found.before[LLC] == 0.0
    assert found.at_dip[LLC] == pytest.approx(60.0)
    assert found.crossed.tolist() == [i == LLC for i in range(10)]


def test_without_reports_before_there_is_no_pressure_before() -> None:
    found = source_pressure(case(np.zeros(100)), AT < 0.0, AT >= 0.0)
    assert np.isnan(found.before).all()


def test_a_server_of_one_unit_has_no_neighbours() -> None:
    known = case(np.zeros(100), others=(holding("x", vector(core=50.0)),), server_units={HERE: 1})
    assert not server_pressure(known, HERE, AT).any()


@pytest.mark.parametrize(
    ("points", "lost"),
    [(0.0, 0.0), (25.0, AT_TOLERATED / 4), (50.0, AT_TOLERATED), (60.0, AT_TOLERATED + 0.15)],
)
def test_the_loss_is_5_percent_at_the_tolerance_and_1_5_percent_a_point_above(
    points: float, lost: float
) -> None:
    pressed = vector(llc_bandwidth=points)
    assert loss(pressed, np.full(10, 50.0)) == pytest.approx(lost)


def test_a_neighbour_alone_causes_the_whole_loss() -> None:
    alone = vector(llc_bandwidth=70.0)
    value, deviation = marginal_loss(alone, alone, limits(50.0, 50.0, 50.0))
    assert value == pytest.approx(AT_TOLERATED + 0.3)
    assert deviation == pytest.approx(value * 2 / 3)


def test_two_equal_neighbours_share_the_loss() -> None:
    alone, together = vector(llc_bandwidth=35.0), vector(llc_bandwidth=70.0)
    value, _ = marginal_loss(alone, together, limits(50.0, 50.0, 50.0))
    assert 2 * value == pytest.approx(float(loss(together, np.full(10, 50.0))))


def test_a_wide_tolerance_widens_the_loss() -> None:
    alone = vector(llc_bandwidth=60.0)
    _, narrow = marginal_loss(alone, alone, limits(50.0, 50.0, 50.0))
    _, wide = marginal_loss(alone, alone, limits(50.0, 30.0, 70.0))
    spread = (AT_TOLERATED + 0.45 - AT_TOLERATED * (60 / 70) ** 2) / (2 * 1.6448536)
    assert wide == pytest.approx(math.hypot(narrow, spread), rel=1e-6)
