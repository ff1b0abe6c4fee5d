"""Which cells two profiles say something else about."""

from typing import Any

import pytest

from apps.classification.core.differences import Believed, cell_changes


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


def test_equal_profiles_differ_nowhere() -> None:
    assert cell_changes(cells(), cells(value=[1.0, 0.5 * (1 + 1e-12)])) == []


@pytest.mark.parametrize(
    ("changed", "after"),
    [
        ({"value": [1.0, 0.7]}, Believed(0.7, 0.4, 0.6, "inferred")),
        ({"low": [0.9, 0.3]}, Believed(0.5, 0.3, 0.6, "inferred")),
        ({"high": [1.1, 0.9]}, Believed(0.5, 0.4, 0.9, "inferred")),
        ({"source": ["measured", "override"]}, Believed(0.5, 0.4, 0.6, "override")),
    ],
)
def test_a_changed_cell_is_told_with_what_it_was(
    changed: dict[str, list[Any]], after: Believed
) -> None:
    (change,) = cell_changes(cells(), cells(**changed))
    assert change.column == "B"
    assert (change.before, change.after) == (Believed(0.5, 0.4, 0.6, "inferred"), after)


def test_a_new_column_was_nothing_before() -> None:
    (change,) = cell_changes(cells(), cells(columns=["A", "C"]))
    assert (change.matrix, change.column, change.before) == ("heterogeneity", "C", None)


def test_a_first_profile_is_new_throughout() -> None:
    assert [change.column for change in cell_changes({}, cells())] == ["A", "B"]


def test_a_value_of_nought_is_the_same_as_itself() -> None:
    assert cell_changes(cells(value=[0.0, 0.5]), cells(value=[0.0, 0.5])) == []
