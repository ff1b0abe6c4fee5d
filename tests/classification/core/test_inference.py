from dataclasses import replace

import numpy as np
import pytest

from apps.classification.core.estimates import HALF_WIDTH_90
from apps.classification.core.estimators import EmptyLibraryError
from apps.classification.core.inference import Library, infer_profile, pool_rows
from apps.classification.core.matrix import Cell, Matrix, MatrixName, columns_of, from_cells

PLATFORMS = ("J", "A", "C")


def dense(name: MatrixName, rng: np.random.Generator) -> list[Cell]:
    """One fully measured row that depends on one latent number."""
    latent = rng.normal()
    columns = columns_of(name, PLATFORMS)
    steps = np.arange(len(columns))
    values = {
        MatrixName.BASE_RATE: np.exp(16.0 + latent + 0.0 * steps),
        MatrixName.HETEROGENEITY: np.exp(-(0.5 + 0.1 * latent) * steps),
        MatrixName.SCALE_UP: 2.0 ** (steps * (0.9 + 0.02 * latent)),
        MatrixName.SCALE_OUT: np.exp(-0.05 * steps * (1 + 0.2 * latent)),
        MatrixName.TOLERATED: np.clip(50.0 + 15 * latent + steps, 0, 100),
        MatrixName.CAUSED: np.clip(50.0 - 15 * latent + steps, 0, 100),
        MatrixName.FRAMEWORK: np.exp(0.02 * latent * steps),
    }[name]
    return [Cell(name, c, float(v), 0.001) for c, v in zip(columns, values, strict=True)]


def library(rows: int = 24) -> Library:
    """Rows that are alike in every matrix: the latent number is the application's."""
    matrices = {
        name: from_cells(
            name,
            columns_of(name, PLATFORMS),
            {f"lib-{i}": dense(name, np.random.default_rng([6, i])) for i in range(rows)},
        )
        for name in MatrixName
    }
    return Library(revision=4, matrices=matrices)


CELLS = [
    Cell(MatrixName.BASE_RATE, "metric", 5e6, 1e5),
    Cell(MatrixName.BASE_RATE, "bytes", 5e6, 1e5),
    Cell(MatrixName.HETEROGENEITY, "J", 1.0, 0.0),
    Cell(MatrixName.HETEROGENEITY, "C", np.exp(-1.2), 0.01),
    Cell(MatrixName.SCALE_UP, "1", 1.0, 0.0),
    Cell(MatrixName.SCALE_UP, "8", 6.6, 0.05),
    Cell(MatrixName.SCALE_OUT, "1", 1.0, 0.0),
    Cell(MatrixName.SCALE_OUT, "4", 0.9, 0.01),
    Cell(MatrixName.TOLERATED, "memory_bandwidth", 70.0, 1.0),
    Cell(MatrixName.CAUSED, "memory_bandwidth", 30.0, 1.0),
]


def test_measured_cells_are_kept_and_marked() -> None:
    profile = infer_profile("kmeans", "analytics", CELLS, library(), platforms=PLATFORMS)
    assert profile.base_rate == pytest.approx(5e6)
    assert profile.base_rate_se == pytest.approx(0.02)
    assert profile.platform_speed.measured.tolist() == [True, False, True]
    assert profile.scale_up.value[3] == pytest.approx(6.6)
    assert profile.tolerated.measured.sum() == 1
    assert (profile.revision, profile.kind) == (4, "analytics")


def test_unknown_cells_follow_the_known_ones() -> None:
    profile = infer_profile("kmeans", "analytics", CELLS, library(), platforms=PLATFORMS)
    assert profile.platform_speed.value[1] == pytest.approx(np.exp(-0.6), rel=0.02)
    # tolerated 70 at the second source: the latent number is 19 / 15, so the last one tolerates 78
    assert profile.tolerated.value[9] == pytest.approx(78.0, abs=3.0)


def test_without_measurements_the_profile_is_the_librarys_average_and_wide() -> None:
    profile = infer_profile("unknown", "batch", [], library(), platforms=PLATFORMS)
    assert not profile.platform_speed.measured.any()
    assert profile.base_rate_se > 0.5
    rate = profile.rate(4, servers=4)
    assert rate.high / rate.low > np.exp(2 * HALF_WIDTH_90 * 0.5)


def test_the_platforms_are_those_of_the_cluster_in_its_order() -> None:
    profile = infer_profile("kmeans", "analytics", CELLS, library(), platforms=("C", "J"))
    assert profile.platforms == ("C", "J")
    assert profile.platform_speed.value == pytest.approx([np.exp(-1.2), 1.0])


def test_an_unknown_estimator_is_named() -> None:
    with pytest.raises(ValueError, match="'svd'"):
        infer_profile("x", "batch", [], library(), platforms=PLATFORMS, estimator="svd")


def test_an_empty_library_is_an_error() -> None:
    with pytest.raises(EmptyLibraryError):
        infer_profile("x", "batch", [], library(rows=0), platforms=PLATFORMS)


def test_only_analytics_have_framework_settings() -> None:
    set_of = {
        kind: infer_profile("x", kind, CELLS, library(), platforms=PLATFORMS)
        for kind in ("analytics", "batch")
    }
    assert len(set_of["analytics"].settings) == set_of["analytics"].framework.value.size == 18
    assert (set_of["batch"].settings, set_of["batch"].framework.value.size) == ((), 0)


def test_a_library_without_settings_gives_none() -> None:
    known = library()
    few: dict[MatrixName, Matrix] = {
        name: m for name, m in known.matrices.items() if name is not MatrixName.FRAMEWORK
    }
    profile = infer_profile("x", "analytics", CELLS, Library(1, few), platforms=PLATFORMS)
    assert profile.settings == ()


def test_caused_interference_predicts_tolerated_interference() -> None:
    # tolerated falls as caused rises, both by the latent number: 15 points down at one source of
    # one matrix are 15 points up at every source of the other
    caused = [cell for cell in CELLS if cell.matrix != MatrixName.TOLERATED]
    quiet = [replace(c, value=10.0) if c.matrix == MatrixName.CAUSED else c for c in caused]
    plain = infer_profile("kmeans", "analytics", caused, library(), platforms=PLATFORMS)
    other = infer_profile("kmeans", "analytics", quiet, library(), platforms=PLATFORMS)
    assert not other.tolerated.measured.any()
    assert (other.tolerated.value - plain.tolerated.value).mean() > 10.0


def test_an_application_that_one_matrix_of_a_pool_lacks_still_counts_in_the_other() -> None:
    full = library()
    caused = full.matrices[MatrixName.CAUSED]
    half = replace(caused, rows=caused.rows[:11:-1], values=caused.values[:11:-1])
    mixed = Library(4, {**full.matrices, MatrixName.CAUSED: half})
    rows = pool_rows(mixed, (MatrixName.TOLERATED, MatrixName.CAUSED), PLATFORMS)
    assert rows.shape == (24, 20)
    assert np.isnan(rows[:12, 10:]).all()
    assert np.array_equal(rows[12:, 10:], caused.values[12:])
    profile = infer_profile("kmeans", "analytics", CELLS, mixed, platforms=PLATFORMS)
    assert np.isfinite(profile.tolerated.value).all()


def test_only_relevant_matrices_are_flagged() -> None:
    alone = [cell for cell in CELLS if cell.matrix != MatrixName.SCALE_OUT or cell.column == "1"]
    flags = {
        kind: infer_profile("x", kind, alone, library(), platforms=PLATFORMS).flags
        for kind in ("latency_critical", "single_node")
    }
    assert flags == {"latency_critical": ("scale_out:one_cell",), "single_node": ()}


def test_a_profile_says_which_matrices_are_unlike_the_library() -> None:
    # twice as fast on B as on A, where every application of the library is slower
    strange = [
        replace(cell, value=2.0 * cell.value)
        if cell.matrix == MatrixName.HETEROGENEITY and cell.column != "J"
        else cell
        for cell in CELLS
    ]
    plain = infer_profile("kmeans", "analytics", CELLS, library(), platforms=PLATFORMS)
    profile = infer_profile("kmeans", "analytics", strange, library(), platforms=PLATFORMS)
    assert not any("unfamiliar" in flag for flag in plain.flags)
    assert {"heterogeneity:unfamiliar", "scale_up:unfamiliar"} <= set(profile.flags)
