"""Classes of similar jobs."""

import numpy as np
import pytest

from apps.testbed.core.classes import similarity_classes


def classes_of(features: list[list[float]], k: int, seed: int = 1) -> list[int]:
    return similarity_classes(np.array(features), k, np.random.default_rng(seed)).tolist()


def test_finds_planted_groups_and_numbers_them_by_size() -> None:
    rng = np.random.default_rng(5)
    groups = [rng.normal(centre, 0.1, (40, 3)) for centre in (8.0, 2.0, 5.0)]
    classes = similarity_classes(np.concatenate(groups), 3, np.random.default_rng(1))
    assert classes.tolist() == [2] * 40 + [0] * 40 + [1] * 40


def test_the_same_seed_gives_the_same_classes() -> None:
    features = np.random.default_rng(2).normal(size=(200, 3))
    first = similarity_classes(features, 6, np.random.default_rng(9))
    second = similarity_classes(features, 6, np.random.default_rng(9))
    assert np.array_equal(first, second)


@pytest.mark.parametrize(
    ("features", "k", "expected"),
    [
        ([[1.0]], 5, [0]),
        ([[1.0], [1.0], [1.0]], 2, [0, 0, 0]),
        ([[1.0], [9.0], [1.0]], 7, [0, 1, 0]),
    ],
)
def test_never_more_classes_than_different_rows(
    features: list[list[float]], k: int, expected: list[int]
) -> None:
    assert classes_of(features, k) == expected


def test_leaves_its_input_alone() -> None:
    features = np.random.default_rng(2).normal(size=(50, 2))
    before = features.copy()
    similarity_classes(features, 4, np.random.default_rng(1))
    assert np.array_equal(features, before)


@pytest.mark.parametrize("features", [np.zeros((0, 3)), np.zeros(3), np.array([[np.nan]])])
def test_refuses_what_has_no_distances(features: np.ndarray) -> None:
    with pytest.raises(ValueError, match="features must be"):
        similarity_classes(features, 2, np.random.default_rng(1))
