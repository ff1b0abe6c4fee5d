import json
from io import StringIO

import numpy as np
import pytest
from django.core.management import CommandError, call_command

from apps.scheduling.core.registry import make
from apps.testbed.core.sampling_quality import (
    SamplingExperiment,
    distances,
    measure,
    without_replacement,
)
from apps.testbed.models import SamplingCheck


def best_of(size: int, units: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Ranks of the best of `size` distinct units, sampled directly."""
    return np.sort(
        [rng.choice(units, size, replace=False).max() / (units - 1) for _ in range(count)]
    )


@pytest.mark.parametrize("size", [8, 32])
def test_ranks_of_a_true_sample_follow_both_laws(size: int) -> None:
    rng = np.random.default_rng(1)
    ranks = best_of(size, 400, 3_000, rng)
    to_power, exact, _ = distances(ranks, np.full(3_000, 400), size)
    # Kolmogorov: 1.95 / sqrt(n) is passed once in a thousand; x^R itself is off by R^2/2N at most
    assert exact < 1.95 / np.sqrt(3_000)
    assert to_power < 0.05


def test_ranks_of_a_smaller_sample_are_far_from_the_law() -> None:
    ranks = best_of(4, 400, 3_000, np.random.default_rng(1))
    assert distances(ranks, np.full(3_000, 400), 8)[0] > 0.1


def test_drawing_all_units_always_finds_the_best() -> None:
    chance = without_replacement(np.array([0.0, 3.0, 4.0]), np.array(5), 8)
    assert chance.tolist() == [0.0, 0.0, 1.0]


def test_two_of_five_without_replacement_by_hand() -> None:
    # C(k, 2) / C(5, 2) for k = 1 .. 5 units at or below the rank
    chance = without_replacement(np.arange(5.0), np.array(5), 2)
    assert chance == pytest.approx([0.0, 0.1, 0.3, 0.6, 1.0])


@pytest.mark.parametrize("size", [8, 16, 32])
def test_tarcil_on_a_loaded_cluster_follows_x_to_the_r(size: int) -> None:
    quality = measure(SamplingExperiment(servers=150, size=size, decisions=2_000), make("tarcil"))
    assert len(quality.ranks) >= 2_000
    assert 0.70 <= quality.load <= 0.75
    assert quality.ks_distance <= 0.05
    assert quality.ks_discrete <= 0.05


def test_a_policy_that_looks_at_one_unit_does_not() -> None:
    quality = measure(SamplingExperiment(servers=100, size=8, decisions=500), make("random"))
    assert quality.ks_distance > 0.2


def test_refuses_a_load_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        measure(SamplingExperiment(load=1.0), make("tarcil"))


def test_the_command_reports_every_size() -> None:
    out = StringIO()
    call_command(
        *("sampling_quality", "--json", "--servers", "100", "--sizes", "8,16"),
        *("--decisions", "1500"),
        stdout=out,
    )
    checks = json.loads(out.getvalue())["checks"]
    assert [check["size"] for check in checks] == [8, 16]


def test_the_command_fails_when_the_law_does_not_hold() -> None:
    with pytest.raises(CommandError, match="R = 8"):
        call_command(
            *("sampling_quality", "--servers", "100", "--sizes", "8", "--decisions", "300"),
            *("--policy", "random"),
            stdout=StringIO(),
        )  # fmt: skip


@pytest.mark.django_db
def test_a_saved_check_keeps_its_curve() -> None:
    call_command(
        *("sampling_quality", "--servers", "100", "--sizes", "8", "--decisions", "1500", "--save"),
        stdout=StringIO(),
    )
    check = SamplingCheck.objects.get()
    assert check.decisions >= 1_500
    assert len(check.xs) == len(check.cdf) == 201
    assert check.cdf[-1] == 1.0
