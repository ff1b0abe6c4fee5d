import numpy as np
import pytest
from scipy.stats import hypergeom

from apps.scheduling.core import policies
from apps.scheduling.core.registry import make
from apps.scheduling.core.types import Placed, Policy, Within
from tests.scheduling.core.clusters import idle, loaded, request, topology

SIZES = tuple([4, 8, 16] * 100)


def measured(sample: int, decisions: int, name: str = "tarcil") -> np.ndarray:
    rng = np.random.default_rng(5)
    snapshot = loaded(topology(SIZES), 0.72, rng)
    policy, ranks = make(name), []
    for _ in range(decisions):
        spec = request(caused=rng.uniform(0, 90, 10), sample_size=sample, measure_rank=True)
        (outcome,) = policy.place(snapshot, [spec], rng)
        assert isinstance(outcome, Placed)
        ranks.append(outcome.ranks[0])
    return np.sort(ranks)


def largest_distance(ranks: np.ndarray, sample: int) -> float:
    steps = np.arange(ranks.size + 1) / ranks.size
    theory = ranks**sample
    return float(max(np.abs(steps[1:] - theory).max(), np.abs(steps[:-1] - theory).max()))


@pytest.mark.parametrize("name", ["tarcil", "quietest", "sampling"])
def test_the_best_of_eight_has_rank_distribution_x_to_the_eighth(name: str) -> None:
    # Kolmogorov: Pr[distance > 1.95 / sqrt(n)] = 0.001; 4,000 decisions give 0.031, within the
    # 0.05 of Tarcil Fig. 4
    assert largest_distance(measured(8, 4000, name), 8) < 0.031


def test_ties_do_not_distort_the_distribution() -> None:
    snapshot = idle(topology(SIZES))  # all units are equal: ties are broken at random
    policy = make("tarcil")
    spec = request(sample_size=8, measure_rank=True)
    rng = np.random.default_rng(6)
    outcomes = [policy.place(snapshot, [spec], rng)[0] for _ in range(2000)]
    ranks = np.sort([o.ranks[0] for o in outcomes if isinstance(o, Placed)])
    assert largest_distance(ranks, 8) < 0.044


def with_locality(policy: Policy, units: int, sample: int, decisions: int) -> list[Placed]:
    """Jobs on one server each, on 100 servers of 16 units; a third of all is free."""
    rng = np.random.default_rng(5)
    snapshot = loaded(topology((16,) * 100), 0.64, rng)
    outcomes = []
    for _ in range(decisions):
        spec = request(
            *(units,),
            caused=rng.uniform(0, 90, 10),
            locality=Within.SERVER,
            sample_size=sample,
            measure_rank=True,
        )
        outcomes += policy.place(snapshot, [spec], rng)
    return [outcome for outcome in outcomes if isinstance(outcome, Placed)]


@pytest.mark.parametrize("policy", [make("tarcil"), policies.tarcil()], ids=["compiled", "parts"])
@pytest.mark.parametrize(("units", "sample"), [(2, 8), (4, 8), (4, 3), (4, 16)])
def test_the_stated_chance_holds_for_jobs_with_a_locality(
    policy: Policy, units: int, sample: int
) -> None:
    """The units beside those drawn are equally good: they do not count as draws."""
    outcomes = with_locality(policy, units, sample, 1000)
    stated = 0.8**sample
    assert {(outcome.draws, outcome.probability) for outcome in outcomes} == {(sample, stated)}
    assert all(outcome.examined > 2 * sample for outcome in outcomes)
    missed = np.mean([outcome.ranks.min() < 0.8 for outcome in outcomes])
    # four deviations of a share of 1,000
    assert abs(missed - stated) < 4.0 * np.sqrt(stated * (1.0 - stated) / 1000)


def test_a_sample_with_a_locality_that_is_widened_is_no_sample() -> None:
    snapshot = idle(topology((30, 1, 1, 1), racks=1))
    spec = request(3, locality=Within.RACK, spread=Within.SERVER, sample_size=1)
    (outcome,) = make("tarcil").place(snapshot, [spec], np.random.default_rng(1))
    assert isinstance(outcome, Placed)
    assert (outcome.draws, outcome.probability) == (None, 0.0)


def test_a_full_sample_finds_the_best_unit() -> None:
    snapshot = loaded(topology((4, 4, 4, 4)), 0.5, np.random.default_rng(1))
    spec = request(sample_size=1000, measure_rank=True)
    (outcome,) = make("tarcil").place(snapshot, [spec], np.random.default_rng(2))
    assert isinstance(outcome, Placed)
    assert outcome.ranks.tolist() == [1.0]
    assert outcome.probability == 0.0


@pytest.mark.parametrize("policy", [make("tarcil"), policies.tarcil()])
def test_the_only_eligible_unit_has_rank_one(policy: Policy) -> None:
    snapshot = idle(topology((1,)))
    (outcome,) = policy.place(snapshot, [request(measure_rank=True)], np.random.default_rng(2))
    assert isinstance(outcome, Placed)
    assert outcome.ranks.tolist() == [1.0]


def test_small_clusters_follow_sampling_without_replacement() -> None:
    snapshot = idle(topology((2,) * 10))  # 20 units, 5 drawn
    spec = request(sample_size=5, measure_rank=True)
    policy, rng = make("tarcil"), np.random.default_rng(3)
    outcomes = [policy.place(snapshot, [spec], rng)[0] for _ in range(3000)]
    ranks = np.array([o.ranks[0] for o in outcomes if isinstance(o, Placed)])
    missed = hypergeom.pmf(0, 20, 4, 5)  # none of the 4 best among the 5 drawn
    # a binomial share of 3,000 has a deviation of at most 0.0091; four of them
    assert abs((ranks < 16 / 19).mean() - missed) < 4 * 0.0091
