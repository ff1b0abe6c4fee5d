"""Cells in which two profiles differ."""

from typing import Any

import pytest

from apps.classification.core.differences import CellEstimate, cell_changes


def cells(**changed: list[Any]) -> dict[str, Any]:
    """Two cells of one matrix."""
    part: dict[str, Any] = {
        "columns": ["A", "B"],
        "value": [1.0, 0.5],
        "low": [0.9, 0.4],
        "high": [1.1, 0.6],
        "source": ["measured", "inferred"],
    }
    return {"heterogeneity": part | changed}


def test_equal_profiles_have_no_differences() -> None:
    assert cell_changes(cells(), cells(value=[1.0, 0.5 * (1 + 1e-12)])) == []


@pytest.mark.parametrize(
    ("changed", "after"),
    [
        ({"value": [1.0, 0.7]}, CellEstimate(0.7, 0.4, 0.6, "inferred")),
        ({"low": [0.9, 0.3]}, CellEstimate(0.5, 0.3, 0.6, "inferred")),
        ({"high": [1.1, 0.9]}, CellEstimate(0.5, 0.4, 0.9, "inferred")),
        ({"source": ["measured", "override"]}, CellEstimate(0.5, 0.4, 0.6, "override")),
    ],
)
def test_a_changed_cell_is_listed_with_its_old_value(
    changed: dict[str, list[Any]], after: CellEstimate
) -> None:
    (change,) = cell_changes(cells(), cells(**changed))
    assert change.column == "B"
    assert (change.before, change.after) == (CellEstimate(0.5, 0.4, 0.6, "inferred"), after)


def test_a_new_column_has_no_old_value() -> None:
    (change,) = cell_changes(cells(), cells(columns=["A", "C"]))
    assert (change.matrix, change.column, change.before) == ("heterogeneity", "C", None)


def test_every_cell_of_a_first_profile_is_new() -> None:
    assert [change.column for change in cell_changes({}, cells())] == ["A", "B"]


def test_zero_equals_zero() -> None:
    assert cell_changes(cells(value=[0.0, 0.5]), cells(value=[0.0, 0.5])) == []
