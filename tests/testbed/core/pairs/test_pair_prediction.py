"""Predicted slowdown of an application next to another one."""

import numpy as np
import pytest

from apps.classification.core.cells import KnownCell, Source
from apps.classification.core.estimates import Estimate, Estimates
from apps.classification.core.matrix import MatrixName
from apps.classification.core.scores import Scores, scores_of_cells
from apps.common.core.interference import N_SOURCES, SOURCES
from apps.testbed.core.pairs.prediction import predicted_slowdown

LLC = SOURCES.index("llc_capacity")


def estimates(value: float, half: float, others: float) -> Estimates:
    """Scores that differ in one source only."""
    values, halves = np.full(N_SOURCES, others), np.zeros(N_SOURCES)
    values[LLC], halves[LLC] = value, half
    low, high = np.clip(values - halves, 0.0, 100.0), np.clip(values + halves, 0.0, 100.0)
    return Estimates(values, low, high, np.ones(N_SOURCES, dtype=np.bool_))


def scores(tolerated: float, caused: float, *, half: float = 0.0) -> Scores:
    return Scores(estimates(tolerated, half, 100.0), estimates(caused, half, 0.0))


def predict(
    own: Scores, neighbour: Scores, units: int = 1, server_units: int = 2, seed: int = 7
) -> Estimate:
    rng = np.random.default_rng(seed)
    return predicted_slowdown(own, neighbour, units=units, server_units=server_units, rng=rng)


def test_a_neighbour_at_the_tolerated_pressure_costs_five_percent() -> None:
    found = predict(scores(40.0, 0.0), scores(100.0, 40.0))
    assert found == pytest.approx((1.0 / 0.95,) * 3)


def test_pressure_is_that_of_the_units_over_all_units_but_one() -> None:
    # Tarcil Eq. 3: 3 units of 40 on a server of 13 press like one of 10 on a server of two
    wide = predict(scores(10.0, 0.0), scores(100.0, 40.0), units=3, server_units=13)
    assert wide.value == pytest.approx(1.0 / 0.95)


def test_only_the_neighbour_presses() -> None:
    assert predict(scores(10.0, 100.0), scores(100.0, 0.0)) == Estimate(1.0, 1.0, 1.0)


def test_an_interval_widens_with_the_errors_and_contains_the_value() -> None:
    exact = predict(scores(30.0, 0.0), scores(100.0, 50.0))
    unsure = predict(scores(30.0, 0.0, half=15.0), scores(100.0, 50.0, half=15.0))
    assert exact.low == exact.value == exact.high == unsure.value
    assert unsure.low < unsure.value < unsure.high


def test_the_interval_is_that_of_the_quantiles_for_one_uncertain_score() -> None:
    # above the tolerance the logarithm is linear in the pressure: 5 % + (p - t) / 30
    neighbour = Scores(estimates(100.0, 0.0, 100.0), estimates(60.0, 12.0, 0.0))
    found = predict(scores(20.0, 0.0), neighbour)
    # 4,000 draws: the standard error of a 5 % quantile is 0.0067 of the standard deviation x 5
    assert np.log(found.high / found.value) == pytest.approx(12.0 / 30.0, abs=0.03)
    assert np.log(found.value / found.low) == pytest.approx(12.0 / 30.0, abs=0.03)


def test_the_same_seed_gives_the_same_interval() -> None:
    pair = scores(30.0, 0.0, half=10.0), scores(90.0, 50.0, half=10.0)
    assert predict(*pair) == predict(*pair)


@pytest.mark.parametrize("units", [0, 2])
def test_a_server_without_a_unit_for_the_application_is_refused(units: int) -> None:
    with pytest.raises(ValueError, match="between 1 and 1"):
        predict(scores(1.0, 1.0), scores(1.0, 1.0), units=units)


def cell(matrix: MatrixName, column: str, value: float, error: float) -> KnownCell:
    return KnownCell(matrix, column, value, error, Source.MEASURED, 1, 0.0)


def test_a_source_without_a_cell_is_tolerated_and_not_caused() -> None:
    found = scores_of_cells(
        [
            cell(MatrixName.TOLERATED, "llc_capacity", 30.0, 5.0),
            cell(MatrixName.SCALE_UP, "2", 1.9, 0.1),
        ]
    )
    assert found is not None
    assert found.tolerated.at(LLC) == pytest.approx((30.0, 21.776, 38.224), abs=1e-3)
    assert np.delete(found.tolerated.value, LLC).tolist() == [100.0] * (N_SOURCES - 1)
    assert found.caused.value.tolist() == [0.0] * N_SOURCES
    assert set(found.unmeasured) == set(SOURCES) - {"llc_capacity"}


def test_cells_without_scores_predict_nothing() -> None:
    assert scores_of_cells([cell(MatrixName.SCALE_UP, "2", 1.9, 0.1)]) is None
    assert scores_of_cells([]) is None
