import numpy as np
import pytest

from apps.classification.core.matrix import (
    Cell,
    Matrix,
    MatrixName,
    Scale,
    columns_of,
    from_cells,
    observed,
)
from apps.common.core.interference import SOURCES

UP = MatrixName.SCALE_UP


def cell(column: str, value: float, error: float = 0.1, matrix: MatrixName = UP) -> Cell:
    return Cell(matrix, column, value, error)


def test_scores_are_compared_in_points_and_rates_in_logarithms() -> None:
    assert MatrixName.CAUSED.scale is Scale.SCORE
    assert MatrixName.TOLERATED.scale is Scale.SCORE
    assert {name.scale for name in MatrixName if "score" not in name.scale} == {Scale.LOG}


def test_every_matrix_has_its_columns() -> None:
    assert columns_of(MatrixName.HETEROGENEITY, ("J", "A")) == ("J", "A")
    assert columns_of(MatrixName.SCALE_UP, ("J",)) == ("1", "2", "4", "8", "16", "32")
    assert columns_of(MatrixName.SCALE_OUT, ("J",))[-3:] == ("32", "64", "100")
    assert "2x0.5GB+lz4" in columns_of(MatrixName.FRAMEWORK, ("J",))
    assert columns_of(MatrixName.TOLERATED, ("J",)) == SOURCES
    assert columns_of(MatrixName.BASE_RATE, ("J",)) == ("metric", "bytes")


def test_cells_not_measured_are_nan() -> None:
    values, errors = observed(UP, ("1", "2"), [cell("2", 1.9)])
    assert np.isnan([values[0], errors[0]]).all()
    assert (values[1], errors[1]) == pytest.approx((1.9, 0.1))


def test_repeated_cells_are_weighted_by_their_precision() -> None:
    values, errors = observed(UP, ("2",), [cell("2", 1.0, 0.1), cell("2", 2.0, 0.2)])
    assert values == pytest.approx([1.2])
    assert errors == pytest.approx([1 / np.sqrt(125)])


def test_cells_exact_by_definition_keep_their_value() -> None:
    values, errors = observed(UP, ("1",), [cell("1", 1.0, 0.0)])
    assert values == pytest.approx([1.0])
    assert errors[0] < 1e-8


def test_a_score_of_a_hundred_stays_one_whatever_its_error() -> None:
    errors = np.random.default_rng(1).uniform(0.1, 5.0, 2000)
    once = [
        observed(MatrixName.TOLERATED, ("core",), [Cell(MatrixName.TOLERATED, "core", 100.0, e)])
        for e in errors.tolist()
    ]
    assert {float(values[0]) for values, _ in once} == {100.0}


def test_cells_of_other_matrices_and_columns_are_left_out() -> None:
    cells = [cell("2", 1.9, matrix=MatrixName.SCALE_OUT), cell("64", 30.0)]
    assert np.isnan(observed(UP, ("1", "2"), cells)[0]).all()


def test_a_matrix_marks_its_measured_cells_as_known() -> None:
    rows = {"a": [cell("1", 1.0), cell("2", 1.8)], "b": [cell("1", 1.0)], "c": []}
    assert from_cells(UP, ("1", "2"), rows).known.sum() == 3


def test_a_missing_column_is_named() -> None:
    with pytest.raises(ValueError, match="scale_up has no column 64"):
        from_cells(UP, ("1",), {}).at(("64",))


def test_values_must_have_the_shape_of_their_labels() -> None:
    with pytest.raises(ValueError, match="1 x 2"):
        Matrix(UP, ("a",), ("1", "2"), np.zeros((2, 2)))
