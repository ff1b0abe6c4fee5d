"""Statistics and scenario of the fidelity benchmark."""

import numpy as np
import pytest
from scipy import stats

from benchmarks import fidelity
from benchmarks._distributions import DRAWS, distance, ks_limit, quantiles
from benchmarks._fidelity_sites import Stamps, cluster_of
from benchmarks.fidelity import Arrival, delays_of, scenario, tables_of


def groups(seed: int, *, shift: float = 0.0, number: int = 5) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(10.0 + shift, 1.0, 80) for _ in range(number)]


def test_the_ks_limit_is_that_of_the_asymptotic_distribution() -> None:
    # P(D > limit) = 2 exp(-2 limit² n m / (n + m)) = 5 %
    assert 2.0 * np.exp(-2.0 * ks_limit(60, 90) ** 2 * 60 * 90 / 150) == pytest.approx(0.05)


def test_the_ks_distance_is_that_of_scipy() -> None:
    first, second = groups(1), groups(2, shift=0.4)
    expected = stats.ks_2samp(np.concatenate(first), np.concatenate(second)).statistic
    assert distance(first, second).ks == pytest.approx(expected)


def test_one_distribution_is_rarely_distinguishable() -> None:
    different = sum(
        distance(groups(2 * k), groups(2 * k + 1)).is_distinguishable for k in range(200)
    )
    # binomial with 200 draws of at most 5 %: more than 21 have a probability below 0.2 %
    assert different <= 21


def test_a_shift_of_half_a_deviation_is_distinguishable() -> None:
    found = distance(groups(1), groups(2, shift=0.5))
    assert found.is_distinguishable
    assert found.mean.low < 0.5 < found.mean.high


def test_the_interval_of_the_mean_is_students_over_the_groups() -> None:
    first = [np.zeros(3), np.zeros(2), np.zeros(4)]
    second = [np.full(3, 1.0), np.full(2, 2.0), np.full(4, 3.0)]
    found = distance(first, second).mean
    expected = stats.t.interval(0.95, 2, loc=2.0, scale=1.0 / np.sqrt(3.0))
    assert (found.low, found.high) == pytest.approx(expected)
    assert found.value == 2.0


def test_the_intervals_of_means_cover_the_difference() -> None:
    covered = 0
    for k in range(200):
        found = distance(groups(2 * k), groups(2 * k + 1, shift=0.3)).mean
        covered += found.low <= 0.3 <= found.high
    # 190 expected; binomial: fewer than 180 have a probability of 0.2 %
    assert 180 <= covered < 200


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([np.zeros(3)], [np.zeros(3)], "two groups"),
        ([np.zeros(3), np.zeros(2)], [np.zeros(2), np.zeros(3)], "same jobs"),
    ],
)
def test_refuses_samples_that_are_not_paired(
    first: list[np.ndarray], second: list[np.ndarray], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        distance(first, second)


def test_intervals_of_quantiles_hold_the_estimate_and_cover_the_difference_of_groups() -> None:
    alike = [np.linspace(0.0, 1.0, 50) for _ in range(4)]
    apart = [one + 5.0 * k for k, one in enumerate(alike)]
    same, spread = (quantiles(each, rng=np.random.default_rng(1))[0] for each in (alike, apart))
    assert same.value == pytest.approx(0.5)
    assert same.low < 0.5 < same.high
    assert same.high - same.low < 0.4
    # the median of four groups 5 apart follows which of them are drawn
    assert spread.high - spread.low > 5.0
    assert DRAWS >= 1_000


def test_a_scenario_repeats_and_has_its_rate_and_run_times() -> None:
    first, second = (scenario(np.random.default_rng(3), jobs=4_000) for _ in range(2))
    assert first == second
    rate = 4_000 / first[-1].at_s
    # standard errors: 1.6 % of the rate, 1 % of the mean run time, 0.7 % of the jobs
    assert rate == pytest.approx(fidelity.RATE_PER_S, rel=0.06)
    assert np.mean([one.run_s for one in first]) == pytest.approx(fidelity.MEAN_RUN_S, rel=0.05)
    assert np.mean([one.computes for one in first]) == pytest.approx(fidelity.COMPUTING, abs=0.03)


def test_delays_are_differences_of_stamps() -> None:
    arrivals = [Arrival(0.0, 2.0, computes=False), Arrival(1.0, 3.0, computes=True)]
    stamps = [Stamps(10.0, 10.1, 10.3, 12.5, 12.6), Stamps(11.0, 11.2, 11.3, 14.8, 14.9)]
    found = delays_of(arrivals, stamps)
    assert found.placing == pytest.approx([0.1, 0.2])
    assert found.starting == pytest.approx([0.2, 0.1])
    assert found.overrun_sleeping == pytest.approx([0.2])
    assert found.overrun_computing == pytest.approx([0.5])
    assert found.reporting == pytest.approx([0.1, 0.1])
    assert found.turnaround == pytest.approx([2.6, 3.9])


def test_the_tables_name_each_delay_and_the_later_backend() -> None:
    rounds = {}
    for name, shift in (("agents", 0.0), ("emulated", 0.5)):
        rng = np.random.default_rng(5)
        rounds[name] = [
            fidelity.Delays(*(rng.normal(1.0 + shift, 0.01, 30) for _ in fidelity.COMPARED))
            for _ in range(3)
        ]
    tables = tables_of(rounds, rng=np.random.default_rng(1))
    assert [row[0] for row in tables["delays"][1:]] == list(fidelity.COMPARED)
    assert {row[1] for row in tables["distances"][1:]} == {"1.00"}
    assert all(row[3].startswith("500 [") for row in tables["distances"][1:])
    assert {row[4] for row in tables["distances"][1:]} == {"differ"}


def test_the_launch_delay_ignores_a_few_late_launches() -> None:
    rng = np.random.default_rng(4)
    seconds = rng.lognormal(np.log(0.03), 0.4, 1_000)
    seconds[:20] = 2.0
    median, sigma = fidelity.log_normal(seconds)
    # standard errors: 1.6 % of the median and 4 % of the deviation; the late ones move both by 2 %
    assert median == pytest.approx(0.03, rel=0.08)
    assert sigma == pytest.approx(0.4, rel=0.15)


def test_the_cluster_file_has_the_shapes_of_the_machines() -> None:
    shape = {"cores": 2, "memory_bytes": 8, "network_bps": 9, "storage_bytes": 10}
    servers = [
        {"metadata": {"name": name}, "spec": {**shape, "platform": "machine-2", "rack": "r"}}
        for name in ("box-1", "box-2")
    ]
    found = cluster_of(servers)
    assert found["platforms"] == [
        {"name": "machine-2", **shape, "idle_watts": 0, "peak_watts": 0},
    ]
    assert [one["name"] for one in found["servers"]] == ["box-1", "box-2"]
