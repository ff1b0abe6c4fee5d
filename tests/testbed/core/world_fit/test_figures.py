"""Figures of measurements, on tables with a known answer."""

import numpy as np
import pytest

from apps.testbed.core.world_fit import figures


def test_a_table_of_row_and_column_effects_has_no_spread() -> None:
    table = np.arange(5.0)[:, None] + np.array([0.0, 3.0, -1.0, 2.0])
    assert figures.doubly_centred(table) == pytest.approx(np.zeros((5, 4)), abs=1e-12)


def test_effects_are_removed_around_missing_cells() -> None:
    table = np.arange(5.0)[:, None] + np.array([0.0, 3.0, -1.0, 2.0])
    table[2, 1] = np.nan
    rest = figures.doubly_centred(table)
    assert np.nanmax(np.abs(rest)) < 1e-9
    assert np.isnan(rest[2, 1])


def test_heterogeneity_of_one_component() -> None:
    weight, factor = np.array([1.0, -1.0, 2.0, -2.0]), np.array([1.0, 0.0, -1.0])
    spread, *shares = figures.heterogeneity((weight[:, None] * factor)[:, None])
    assert spread == pytest.approx(np.std(weight[:, None] * factor))
    assert shares == pytest.approx([1.0, 1.0, 1.0])


def test_rows_without_any_value_do_not_count() -> None:
    rng = np.random.default_rng(1)
    table = rng.normal(size=(6, 1, 5))
    padded = np.concatenate((table, np.full((6, 2, 5), np.nan)), axis=1)
    assert figures.heterogeneity(padded) == pytest.approx(figures.heterogeneity(table))


def test_a_job_that_loses_what_it_causes_correlates_fully() -> None:
    strength = np.array([0.1, 0.2, 0.3, 0.4])
    loss = (strength[:, None] + strength)[:, :, None] / 2.0
    assert figures.pair_correlation(loss) == pytest.approx([1.0])
    opposite = (strength[:, None] - strength)[:, :, None]
    assert figures.pair_correlation(opposite) == pytest.approx([-1.0])


def test_pairs_that_did_not_run_are_left_out() -> None:
    strength = np.array([0.1, 0.2, 0.3, 0.4])
    loss = np.dstack([strength[:, None] + strength] * 2)
    loss[0, :, 1] = loss[:, 0, 1] = np.nan
    assert figures.pair_correlation(loss) == pytest.approx([1.0])
    assert np.isnan(figures.pair_correlation(np.full((2, 2, 1), 0.5))).all()


def test_slowdown_separates_sources_from_benchmarks() -> None:
    shift = np.array([-0.5, 0.0, 0.5])
    logs = np.arange(6.0)[None] + shift[:, None]
    found = figures.slowdown(np.exp(logs)[:, None])
    assert found[:6] == pytest.approx(np.arange(6.0))
    assert found[6:] == pytest.approx([shift.std(), 1.0])


def test_equal_tasks_have_no_variation_and_padding_does_not_count() -> None:
    values = np.array([[0.0] * 11 + [np.nan], [0.0] * 11 + [1.0]])
    found = figures.task_durations(values)
    durations = np.exp(values[1])
    logs = np.log([figures.MIN_VARIATION, durations.std(ddof=1) / durations.mean()])
    assert found == pytest.approx([logs.mean(), logs.std(), 0.0, 0.5])


def test_figures_of_services_are_those_of_the_middle_set_up() -> None:
    values = np.array([[[0.1, 1.0]], [[0.2, 5.0]], [[0.6, 2.0]]])
    assert figures.service_capacity(values) == pytest.approx([0.3, 8.0 / 3.0])
    assert figures.service_latency(values) == pytest.approx([0.2, 2.0])
