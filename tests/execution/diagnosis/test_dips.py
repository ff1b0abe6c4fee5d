import numpy as np
import pytest

from apps.execution.core.diagnosis.dips import Dip, dips, shown_dip


def found(*attainment: float, readings: tuple[float, ...] = ()) -> tuple[Dip, ...]:
    at_s = np.arange(0.0, 10.0 * len(attainment), 10.0)
    counts = np.array(readings or [1.0] * len(attainment))
    return dips(at_s, np.array(attainment), counts)


def test_two_reports_below_the_target_are_a_dip() -> None:
    assert found(1.1, 0.9, 0.8, 1.1) == (Dip(10.0, 20.0, False, 2, 0.8),)


def test_the_last_report_keeps_a_dip_open() -> None:
    assert found(1.1, 0.9, 0.8) == (Dip(10.0, 20.0, True, 2, 0.8),)


def test_a_single_report_below_the_target_is_noise_unless_it_is_a_mean() -> None:
    assert found(1.1, 0.9, 1.1) == ()
    assert found(1.1, 0.9, 1.1, readings=(1, 6, 1)) == (Dip(10.0, 10.0, False, 1, 0.9),)


def test_a_single_report_above_the_target_does_not_end_a_dip() -> None:
    assert found(0.9, 0.8, 1.01, 0.9, 1.1) == (Dip(0.0, 30.0, False, 3, 0.8),)


def test_dips_apart_are_two() -> None:
    assert [dip.begin_s for dip in found(0.9, 0.9, 1.1, 1.1, 0.8, 0.8)] == [0.0, 40.0]


def test_reports_without_a_measurement_are_ignored() -> None:
    assert found(np.nan, 0.9, np.nan, 0.8, np.nan) == (Dip(10.0, 30.0, True, 2, 0.8),)
    assert found(np.nan, np.nan) == ()
    assert found() == ()


@pytest.mark.parametrize(
    ("at_s", "begin_s"), [(None, 40.0), (45.0, 40.0), (30.0, 0.0), (-1.0, None)]
)
def test_the_shown_dip_is_the_latest_or_the_one_asked_for(
    at_s: float | None, begin_s: float | None
) -> None:
    shown = shown_dip(found(0.9, 0.9, 1.1, 1.1, 0.8, 0.8), at_s)
    assert (None if shown is None else shown.begin_s) == begin_s
