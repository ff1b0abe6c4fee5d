"""The share of the servers that each of several agents prefers under the policy `expected`."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Snapshot, Topology
from apps.scheduling.core import policies
from apps.scheduling.core.expected import performance as expected
from apps.scheduling.core.expected.performance import ALONE, Share
from apps.scheduling.core.fused import FusedExpected
from apps.scheduling.core.registry import (
    agent_parameters,
    default_parameters,
    make,
    parameter_problem,
)
from apps.scheduling.core.types import Placed
from tests.scheduling.core.clusters import idle, loaded, request, topology

AGENTS = 10
LARGE = topology((4,) * 400)


def units_of(share: Share, snapshot: Snapshot, count: int = 1, seed: int = 1) -> list[int]:
    """Units that an agent chooses for equal jobs of one batch."""
    jobs = [request(job=f"job-{n}") for n in range(count)]
    outcomes = FusedExpected(share=share).place(snapshot, jobs, np.random.default_rng(seed))
    return [int(outcome.units[0]) for outcome in outcomes if isinstance(outcome, Placed)]


def test_every_server_is_in_the_share_of_one_agent() -> None:
    own = [Share(AGENTS, k).elsewhere(400) == 0.0 for k in range(AGENTS)]
    assert (np.sum(own, axis=0) == 1).all()
    # 40 each on average; 12 is four standard deviations of the binomial below
    assert min(int(each.sum()) for each in own) >= 16


def test_the_shares_of_servers_do_not_change_when_servers_are_added() -> None:
    few, many = Share(AGENTS, 3).elsewhere(50), Share(AGENTS, 3).elsewhere(400)
    assert few.tolist() == many[:50].tolist()


@pytest.mark.parametrize("share", [ALONE, Share(1, 7)])
def test_one_agent_prefers_no_server(share: Share) -> None:
    assert not share.elsewhere(400).any()


def test_the_loss_grows_with_the_number_of_agents() -> None:
    losses = [Share(agents).loss for agents in (1, 2, 4, 8)]
    assert losses == pytest.approx([0.0, losses[1], 2.0 * losses[1], 3.0 * losses[1]])
    assert losses[1] == pytest.approx(0.2 * np.log(2.0))


def test_agents_that_see_the_same_cluster_choose_different_units() -> None:
    snapshot = idle(LARGE)
    chosen = [unit for k in range(AGENTS) for unit in units_of(Share(AGENTS, k), snapshot, 8)]
    assert len(chosen) == len(set(chosen)) == 8 * AGENTS


def two_platforms(advantage: float, agents: int) -> tuple[Topology, list[int], list[float]]:
    """Return servers on platforms of their own, and two that are faster than the others.

    These are of the shares 0 and 1, and the first is faster by a log performance.
    """
    owner = [
        next(k for k in range(agents) if Share(agents, k).elsewhere(s + 1)[s] == 0.0)
        for s in range(20)
    ]
    first = owner.index(0)
    other = owner.index(1)
    cluster = topology((4,) * 20, platforms=tuple(f"P{s}" for s in range(20)))
    speed = [0.01] * 20
    speed[first], speed[other] = 1.0, float(np.exp(-advantage))
    return cluster, [first, other], speed


@pytest.mark.parametrize(("advantage", "leaves"), [(0.9, False), (1.1, True)])
def test_an_agent_leaves_its_share_for_a_unit_that_is_better_by_more_than_the_stated_loss(
    advantage: float, leaves: bool
) -> None:
    cluster, (fast, own), speed = two_platforms(advantage * Share(2, 1).loss, 2)
    job = request(platform_speed=np.array(speed))
    for policy in (policies.expected(share=Share(2, 1)), FusedExpected(share=Share(2, 1))):
        (outcome,) = policy.place(idle(cluster), [job], np.random.default_rng(1))
        assert isinstance(outcome, Placed)
        assert cluster.unit_server[outcome.units[0]] == (fast if leaves else own)


def test_the_score_shown_is_that_of_an_agent_alone() -> None:
    snapshot = loaded(topology((4, 8, 16, 4)), 0.5, np.random.default_rng(3))
    job = request(caused=np.full(N_SOURCES, 30.0), tolerated=np.full(N_SOURCES, 60.0))
    shown = []
    for share in (ALONE, Share(3, 1)):
        (outcome,) = FusedExpected(share=share).place(snapshot, [job], np.random.default_rng(1))
        assert isinstance(outcome, Placed)
        shown.append({c.unit: c.closeness for c in outcome.candidates})
    common = shown[0].keys() & shown[1].keys()
    assert common
    assert [shown[1][u] for u in common] == pytest.approx([shown[0][u] for u in common])


@given(seed=st.integers(0, 2**31), agents=st.integers(1, 12), share=st.integers(0, 30))
def test_both_forms_decide_alike_in_every_share(seed: int, agents: int, share: int) -> None:
    rng = np.random.default_rng(seed)
    snapshot = loaded(topology((4, 8, 16, 1, 2, 4, 8, 16) * 3), 0.7, rng)
    jobs = [
        request(
            (1, 3)[n % 2],
            job=f"job-{n}",
            caused=rng.uniform(0, 100, N_SOURCES),
            tolerated=rng.uniform(0, 100, N_SOURCES),
            platform_speed=rng.uniform(0.2, 2.0, len(snapshot.topology.platform_name)),
        )
        for n in range(4)
    ]
    found = []
    for policy in (policies.expected(share=Share(agents, share)),
                   FusedExpected(share=Share(agents, share))):  # fmt: skip
        outcomes = policy.place(snapshot, jobs, np.random.default_rng(seed))
        found.append([(o.units.tolist(), [c.key for c in o.candidates])
                      for o in outcomes if isinstance(o, Placed)])  # fmt: skip
    assert found[0] == found[1]


def test_the_registry_makes_the_policy_of_a_share() -> None:
    snapshot = idle(LARGE)
    place = {"agents": AGENTS, "share": 3}
    assert agent_parameters("expected", place) == place
    made = make("expected", place)
    (outcome,) = made.place(snapshot, [request()], np.random.default_rng(1))
    assert isinstance(outcome, Placed)
    assert outcome.units.tolist() == units_of(Share(AGENTS, 3), snapshot)
    assert expected.Share(AGENTS, 3).elsewhere(400)[LARGE.unit_server[outcome.units[0]]] == 0.0


def test_other_policies_have_no_share() -> None:
    place = {"agents": AGENTS, "share": 3}
    assert agent_parameters("tarcil", place) == {}
    assert agent_parameters("of another package", place) == {}
    assert "agents" not in default_parameters("tarcil")
    assert parameter_problem("expected", "agents", 2.5) is not None
