"""R of a job that names it or a guarantee (T4)."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.policies import least_loaded, tarcil
from apps.scheduling.core.registry import POLICIES
from apps.scheduling.core.tarcil.job_sampling import (
    Sampling,
    TopFreeShares,
    job_limits,
    sampling_of,
    top_free_share,
    with_guarantee,
)
from apps.scheduling.core.types import Placed, Request, Within
from apps.workloads.core.guarantees import QualityGuarantee
from apps.workloads.core.spec import JobSpec
from apps.workloads.core.targets import BestEffort
from tests.scheduling.core.clusters import frozen, idle, loaded, request, topology

STRICT = QualityGuarantee(0.8, 1e-3)


def ranked_cluster(*free: int) -> Snapshot:
    """Servers of ten units with their free ones; all are too contended, the first one least."""
    cluster = topology((10,) * len(free), platforms=("J",))
    snapshot = idle(cluster)
    unit_free = np.concatenate([np.arange(10) < count for count in free])
    caused = np.repeat(720.0 + np.arange(len(free))[:, None] * 36.0, N_SOURCES, axis=1)
    return replace(
        snapshot,
        unit_free=frozen(unit_free),
        server_caused=frozen(caused.astype(np.float32)),
    )


def share(snapshot: Snapshot, x: float, of: Request | None = None) -> float:
    return top_free_share(of or request(), snapshot, TopologyFacts(snapshot.topology), x)


def sampling(spec: JobSpec, snapshot: Snapshot, *, max_sample: int = 32) -> Sampling:
    facts = TopologyFacts(snapshot.topology)
    return sampling_of(spec, request(), snapshot, facts, max_sample=max_sample)


def job(**fields: Any) -> JobSpec:
    return replace(JobSpec("sort", BestEffort()), **fields)


@pytest.mark.parametrize(
    ("free", "x", "expected"),
    [
        ((10, 10, 10, 10, 10), 0.8, 1.0),
        ((4, 10, 10, 10, 10), 0.8, 0.4),  # the top 20 % is the first server
        ((4, 6, 0, 0, 0), 0.6, 0.5),
        ((4, 6, 0, 0, 0), 0.7, 7.0 / 15.0),  # half of the second server is in the top 30 %
        ((0, 10, 10, 10, 10), 0.8, 0.0),
    ],
)
def test_the_share_of_the_top_that_is_free_counts_units_of_the_best_servers(
    free: tuple[int, ...], x: float, expected: float
) -> None:
    assert share(ranked_cluster(*free), x) == pytest.approx(expected)


def test_the_top_is_that_of_the_servers_a_job_may_use() -> None:
    snapshot = ranked_cluster(0, 10)
    closed = replace(snapshot, server_open=frozen(np.array([False, True])))
    assert (share(snapshot, 0.5), share(closed, 0.5)) == (0.0, 1.0)
    nowhere = request(platforms=frozenset({"Z"}))
    assert share(snapshot, 0.5, nowhere) == 0.0


def test_r_of_a_guarantee_grows_as_the_top_fills() -> None:
    """T4: 31 with a free top; 8 of the top 20 free move x to 0.92, which needs 83."""
    spec = job(guarantee=STRICT)
    idle_now = sampling(spec, ranked_cluster(10, 10, 10, 10, 10))
    busy_now = sampling(spec, ranked_cluster(4, 10, 10, 10, 10))
    assert (idle_now.size, idle_now.needed, idle_now.top_free_share) == (31, 31, 1.0)
    assert (busy_now.size, busy_now.needed) == (32, 83)
    assert busy_now.as_json() == {
        **STRICT.as_json(),
        "top_free_share": pytest.approx(0.4),
        "needed_size": 83,
        "size": 32,
    }


def test_a_named_r_is_kept_within_the_limit_and_a_job_without_wishes_has_none() -> None:
    snapshot = ranked_cluster(10, 10)
    assert sampling(job(sample_size=16), snapshot).size == 16
    assert sampling(job(sample_size=16), snapshot, max_sample=12).size == 12
    assert sampling(job(), snapshot) == Sampling()
    assert Sampling().as_json() is None


def test_the_probability_is_about_the_rank_threshold_of_the_job() -> None:
    snapshot = ranked_cluster(10, 10, 10, 10, 10)
    chosen = Sampling(4, QualityGuarantee(0.5, 0.1), 4)
    rng = np.random.default_rng(1)
    (placed,) = tarcil().place(snapshot, [request(sample_size=4)], rng)
    assert isinstance(placed, Placed)
    about = with_guarantee(placed, chosen)
    assert (about.rank_threshold, about.probability) == (0.5, 0.5**4)
    assert with_guarantee(placed, Sampling(4)) is placed
    (every,) = least_loaded().place(snapshot, [request()], rng)
    assert isinstance(every, Placed)
    assert with_guarantee(every, chosen).probability == 0.0


def test_a_guarantee_holds_for_a_job_with_a_locality() -> None:
    """R units are drawn, whose servers have many more: only the R count."""
    snapshot = loaded(topology((16,) * 100), 0.64, np.random.default_rng(5))
    wish = QualityGuarantee(0.8, 0.01)
    chosen = sampling(job(guarantee=wish), snapshot)
    spec = request(4, locality=Within.SERVER, sample_size=chosen.size)
    (placed,) = tarcil().place(snapshot, [spec], np.random.default_rng(1))
    assert isinstance(placed, Placed)
    assert chosen.size is not None
    assert placed.examined > chosen.size
    assert with_guarantee(placed, chosen).probability == 0.8**chosen.size <= wish.probability
    assert wish.probability < 0.8**8  # R = 8 would break it


def test_limits_name_the_policies_that_jobs_may_use() -> None:
    assert job_limits([], 32).policies == tuple(sorted(POLICIES))
    few = job_limits(["random", "gone"], 16)
    assert (few.policies, few.max_sample) == (("random",), 16)
    assert few.sample_size(0.8, 1e-3) == 31
    assert few.sample_size(0.9, 1e-3) == 66  # without the limit


def test_only_policies_that_compare_a_sample_take_r_or_a_guarantee() -> None:
    assert job_limits([], 32).sampling_policies == (
        *("paragon_sampling", "quietest", "sampling"),
        *("tarcil", "tarcil_monotone", "tarcil_printed"),
    )


@pytest.mark.parametrize(
    ("free", "size", "needed"),
    [
        ((10, 10, 10, 10, 10), 8, 8),
        ((5, 10, 10, 10, 10), 17, 17),  # x = 0.9: 8 ln 0.8 / ln 0.9 = 16.9
        ((4, 10, 10, 10, 10), 22, 22),  # x = 0.92: 21.4
        ((1, 10, 10, 10, 10), 32, 89),  # x = 0.98: 88.4
        ((0, 10, 10, 10, 10), 32, None),
    ],
)
def test_r_of_any_job_under_tarcil_grows_as_the_top_fills(
    free: tuple[int, ...], size: int, needed: int | None
) -> None:
    snapshot = ranked_cluster(*free)
    facts = TopologyFacts(snapshot.topology)
    found = sampling_of(job(), request(), snapshot, facts, max_sample=32, shares=TopFreeShares())
    assert (found.size, found.needed, found.guarantee) == (size, needed, None)
    assert found.as_json() is None, "the job named no guarantee"


def test_a_job_that_names_r_and_other_policies_do_not_follow_the_load() -> None:
    snapshot = ranked_cluster(4, 10, 10, 10, 10)
    facts, named, shares = TopologyFacts(snapshot.topology), job(sample_size=5), TopFreeShares()
    assert sampling_of(named, request(), snapshot, facts, max_sample=32, shares=shares).size == 5
    assert sampling_of(job(), request(), snapshot, facts, max_sample=32).size is None


def test_the_free_share_of_the_top_is_remembered_for_one_change_in_a_hundred_units() -> None:
    known, before = TopFreeShares(), ranked_cluster(*(10,) * 20)
    facts = TopologyFacts(before.topology)
    full = replace(before, unit_free=frozen(np.zeros(200, dtype=np.bool_)))

    def seen(changes: int, of: Request) -> float:
        return known.of(of, replace(full, sequence=before.sequence + changes), facts, 0.8)

    assert known.of(request(), before, facts, 0.8) == 1.0
    assert seen(2, request()) == 1.0
    assert seen(2, request(caused=np.full(N_SOURCES, 9.0))) == 0.0
    assert seen(3, request()) == 0.0
