"""Placements that are equally good are told apart by their order, never by rounding errors."""

import numpy as np
import pytest

from apps.placement.core.rebalancing.planner import improve
from tests.placement.core.small_cluster import small_cluster

ULP = float(np.finfo(np.float64).eps)


def migrations(seed: int, diversity: float) -> list[tuple[int, ...]]:
    weights = {"P": 1.0, "D": diversity, "C": 1.0}
    found = improve(small_cluster(seed), weights, clock=lambda: 0.0)
    return [
        (migration.container, migration.target)
        for bundle in found.bundles
        for migration in bundle.migrations
    ]


@pytest.mark.parametrize("seed", range(12))
def test_the_last_bits_of_a_weight_change_no_migration(seed: int) -> None:
    plan = migrations(seed, 0.1781253265308512)
    assert plan
    for k in range(-6, 7):
        assert migrations(seed, 0.1781253265308512 * (1.0 + k * ULP)) == plan
