"""Hashing of contention vectors into buckets."""

import numpy as np
import pytest

from apps.common.core.interference import N_SOURCES
from apps.scheduling.core.admission.buckets import (
    BANDS,
    BUCKETS,
    NORMALS,
    PLANES,
    bucket_name,
    bucket_of,
)


def test_equal_contention_in_all_sources_has_one_direction_whatever_the_batch() -> None:
    """Its projections are 0 but for rounding, which depends on the number of vectors."""
    assert set(bucket_of(np.full((1000, N_SOURCES), 77.7)).tolist()) == {16}
    assert bucket_of(np.full((1, N_SOURCES), 77.7)).tolist() == [16]


def test_there_are_twenty_buckets_as_in_the_paper() -> None:
    assert BUCKETS == 20


def test_planes_are_orthogonal_to_each_other_and_to_the_diagonal() -> None:
    basis = np.vstack((np.ones(N_SOURCES) / np.sqrt(N_SOURCES), NORMALS))
    assert basis @ basis.T == pytest.approx(np.eye(PLANES + 1), abs=1e-12)


def test_a_bucket_is_the_signs_of_the_projections_and_a_band() -> None:
    """Vectors along the normals, plus enough of the diagonal to be positive."""
    first = (NORMALS[0] - NORMALS[1]) * 10.0 + 15.0
    both = (NORMALS[0] + NORMALS[1]) * 10.0 + 15.0
    neither = -(NORMALS[0] + NORMALS[1]) * 10.0 + 15.0
    vectors = np.vstack((first, both, neither))
    band = np.searchsorted(BANDS, vectors.max(axis=1), side="right")
    assert bucket_of(vectors).tolist() == (band * 4 + [1, 3, 0]).tolist()


@pytest.mark.parametrize(
    ("contention", "band"),
    [(0.0, 0), (9.9, 0), (10.0, 1), (19.9, 1), (20.0, 2), (54.9, 3), (55.0, 4), (100.0, 4)],
)
def test_equal_directions_of_other_magnitude_differ_by_band(contention: float, band: int) -> None:
    """Cosine hashing alone would put a quiet and a crowded server into one bucket."""
    mix = np.linspace(0.2, 1.0, N_SOURCES)
    bucket, loudest = bucket_of(np.vstack((mix * contention, mix * 100.0))).tolist()
    assert bucket // 4 == band
    assert (bucket % 4 == loudest % 4) == (contention > 0.0 or loudest % 4 == 0)


def test_close_vectors_share_a_direction_more_often_than_distant_ones() -> None:
    """Pr[equal sign] = 1 - angle/pi for each plane (Charikar 2002)."""
    rng = np.random.default_rng(1)
    some = rng.uniform(0, 100, (4000, N_SOURCES))
    close = np.clip(some + rng.normal(0, 5, some.shape), 0, None)
    other = rng.uniform(0, 100, some.shape)

    def share(vectors: np.ndarray) -> float:
        return float((bucket_of(some) % 4 == bucket_of(vectors) % 4).mean())

    assert share(close) > 0.8
    assert share(other) == pytest.approx(0.25, abs=0.05)


def test_names_say_the_band_and_the_direction() -> None:
    assert bucket_name(0) == "0 to 10 points, direction 1"
    assert bucket_name(19) == "55 to 100 points, direction 4"
