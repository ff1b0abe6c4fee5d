"""Agents that decide at the same time know of each other, and prefer disjoint servers."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.inventory.models import Server
from apps.operations.models import SystemSample
from apps.scheduling.core import registry
from apps.scheduling.models import Allocation, Decision
from apps.scheduling.selectors.default_policy import policy_in_use
from apps.scheduling.services.agent import SchedulingAgent, make_agent
from apps.scheduling.services.counterfactuals import Changes, counterfactual
from apps.scheduling.services.flips import flips
from apps.scheduling.services.peers import POLL_S, Peers, deciding_agents, place_among
from apps.scheduling.services.repeats import repeated_batch
from apps.scheduling.services.replay import replay
from tests import factories
from tests.scheduling.world import build, known, waiting, work

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=3000.0)


def sampled(*agents: str, age_s: float = 0.0) -> None:
    """Store a sample in which agents have decided."""
    counted = {name: {"decisions": 1, "lost": 0, "p50_s": 0.0, "p99_s": 0.0} for name in agents}
    at = timezone.now() - timedelta(seconds=age_s)
    SystemSample.objects.create(at=at, seconds=10.0, queues={}, agents=counted, streams=0)


def test_the_agents_of_the_last_samples_decide() -> None:
    sampled("agent-1", "agent-2")
    sampled("agent-3", age_s=20.0)
    sampled("agent-4", age_s=60.0)
    assert deciding_agents() == {"agent-1", "agent-2", "agent-3"}


def test_agents_take_the_shares_in_the_order_of_their_names() -> None:
    names = ["b", "a", "c"]
    assert [place_among(name, names)["share"] for name in names] == [1, 0, 2]
    assert place_among("new", []) == {"agents": 1, "share": 0}
    assert place_among("new", names) == {"agents": 4, "share": 3}


def test_the_samples_are_read_once_in_a_while() -> None:
    now = [0.0]
    peers = Peers("agent-1", clock=lambda: now[0])
    with CaptureQueriesContext(connection) as captured:
        assert peers.parameters() == {"agents": 1, "share": 0}
        sampled("agent-1", "agent-0")
        now[0] = POLL_S - 0.1
        assert peers.parameters() == {"agents": 1, "share": 0}
        now[0] = POLL_S
        assert peers.parameters() == {"agents": 2, "share": 1}
    assert sum("systemsample" in q["sql"] and "SELECT" in q["sql"] for q in captured) == 2


def decided(agent: str) -> Decision:
    """The decision of an agent on a new job."""
    job = waiting(known(), units_requested=1, target={"kind": "best_effort"})
    work(make_agent(agent))
    return Decision.objects.get(job=job)


def test_the_parameters_of_an_agent_are_stored_with_a_decision_and_repeated() -> None:
    build(*"abcdefgh")
    sampled("agent-1", "agent-2", "agent-3")
    decision = decided("agent-2")
    batch = repeated_batch(decision)
    assert (batch.parameters["agents"], batch.parameters["share"]) == (3, 1)
    found = replay(decision.pk)
    assert (found.verdict, found.differences, found.changed) == ("identical", (), ())


def test_a_decision_of_a_lone_agent_says_so() -> None:
    build(*"abcd")
    decision = decided("agent-1")
    batch = repeated_batch(decision)
    assert (batch.parameters["agents"], batch.parameters["share"]) == (1, 0)
    assert replay(decision.pk).changed == ()


def test_agents_that_decide_in_turn_use_servers_of_their_own_shares() -> None:
    copy = build(*"abcdefgh")
    names = [f"agent-{n}" for n in range(3)]
    sampled(*names)
    servers = []
    for name in names:
        unit = Allocation.objects.get(job=decided(name).job).unit_ids[0]
        index = copy.topology.unit_id.tolist().index(unit)
        servers.append(int(copy.topology.unit_server[index]))
    assert len(set(servers)) == 3


def test_a_flip_names_the_choice_of_an_agent_alone() -> None:
    build(*"abcdefgh")
    sampled("agent-1", "agent-2", "agent-3", "agent-4")
    policy, rng = registry.make("expected"), np.random.default_rng(1)
    job = waiting(known(), units_requested=1, target={"kind": "best_effort"})
    work(SchedulingAgent("agent-3", policy=policy, rng=rng, default=policy_in_use,
                         peers=Peers("agent-3")))  # fmt: skip
    decision = Decision.objects.get(job=job)
    alone: dict[str, Any] = {"parameters": {"agents": 1}}
    outcomes = counterfactual(decision.pk, Changes(**alone))
    assert not outcomes["is_same"]
    wanted = Server.objects.get(name=outcomes["after"]["servers"][0]["server"])
    changes = [flip["change"] for flip in flips(decision.pk, wanted.id)["flips"]]
    assert alone in changes
    assert not [c for c in changes if "share" in c.get("parameters", {})]
