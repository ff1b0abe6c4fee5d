"""Values of scores."""

import numpy as np
import pytest

from apps.scheduling.core.scorers import beyond_tolerance


@pytest.mark.parametrize(
    ("headroom", "points"),
    [
        ([], 0.0),
        ([[3.0, 9.0]], 0.0),
        ([[3.0, -20.0, -4.0]], 20.0),
        ([[3.0, -20.0], [5.0, 1.0]], 10.0),
        ([np.array([-1.0, 2.0]), np.array([-3.0, -5.0])], 3.0),
    ],
)
def test_the_worst_source_of_each_unit_counts(headroom: list[list[float]], points: float) -> None:
    assert beyond_tolerance(headroom) == points
