"""Counterfactuals and flips: stored decisions, decided again with something changed."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from pytest_django import Settings
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.models import Membership
from apps.inventory.models import Cluster, Server
from apps.scheduling.core import registry
from apps.scheduling.core.admission.placing import within
from apps.scheduling.core.admission.types import Admitted
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.records.redecide import Moment, Neighbour
from apps.scheduling.core.types import DEFAULT_SAMPLE, Placed
from apps.scheduling.models import Allocation, Decision, DecisionBatch
from apps.scheduling.services import commit, release
from apps.scheduling.services.admission import AdmissionDesk
from apps.scheduling.services.agent import SchedulingAgent, make_agent
from apps.scheduling.services.counterfactuals import (
    Changes,
    counterfactual,
    largest_losses,
    situation_of,
)
from apps.scheduling.services.flips import flips
from apps.scheduling.services.proposals import SizedJob
from apps.scheduling.services.repeats import NotRepeatableError
from apps.workloads.core.reasons import MEANINGS, Reason
from apps.workloads.models import Job
from tests import factories
from tests.api.schema import check_answer
from tests.scheduling import policies_that_fail
from tests.scheduling.core.clusters import idle, request, topology
from tests.scheduling.world import ME, build, claimed, known, proposal, waiting, work

pytestmark = pytest.mark.django_db
BEST_EFFORT = {"target": {"kind": "best_effort"}}


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=3000.0)


def hold(copy: Any, *units: int, **values: Any) -> Job:
    """A job that holds units of a cluster."""
    job = claimed(**values)
    commit([proposal(job, copy.topology, units)], agent=ME)
    return job


def decided(count: int = 1, **fields: Any) -> Decision:
    """The last decision of a batch."""
    application = known()
    values = {"units_requested": 1, **BEST_EFFORT, **fields}
    jobs = [waiting(application, **values) for _ in range(count)]
    work(make_agent("agent-1"))
    return Decision.objects.filter(job__in=jobs).order_by("-position")[0]


def servers(choice: dict[str, Any]) -> set[str]:
    return {each["server"] for each in choice["servers"]}


@pytest.mark.parametrize("policy", sorted(registry.POLICIES))
def test_an_unchanged_decision_has_the_same_outcome_after_the_earlier_jobs_of_its_batch(
    policy: str,
) -> None:
    copy = build(*"abcdef")
    hold(copy, 0, 1, 9)
    decision = decided(5, policy=policy, units_requested=2)
    assert decision.position == 4
    situation = situation_of(decision)
    again = situation.moment.decide(situation.batch.policy, situation.request, seed=decision.seed)
    assert isinstance(again, Placed)
    assert isinstance(situation.outcome, Placed)
    assert again.units.tolist() == situation.outcome.units.tolist()
    assert [c.key for c in again.candidates] == [c.key for c in situation.outcome.candidates]


def test_without_its_server_another_one_is_chosen() -> None:
    build(*"abcd")
    decision = decided()
    chosen = Server.objects.get(id=decision.candidates[0]["server_id"])
    found = counterfactual(decision.pk, Changes(without=(chosen.id,)))
    assert servers(found["before"]) == {chosen.name}
    assert chosen.name not in servers(found["after"])
    assert (found["is_same"], found["after"]["outcome"]) == (False, "placed")
    everywhere = tuple(Server.objects.values_list("id", flat=True))
    refused = counterfactual(decision.pk, Changes(without=everywhere))["after"]
    assert (refused["outcome"], refused["prediction"]) == ("refused", None)
    assert refused["dropped"]["excluded"] == 16


def test_another_policy_and_r_decide_by_their_own_rules() -> None:
    copy = build(*"ab")
    hold(copy, 0, 1)
    decision = decided()
    full = counterfactual(decision.pk, Changes(policy="slot_rr"))["after"]
    assert (full["policy"], servers(full)) == ("slot_rr", {"a"})
    sample = counterfactual(decision.pk, Changes(sample_size=3))["after"]
    assert (sample["policy"], sample["examined"]) == ("tarcil", 3)


def loaded() -> None:
    """Ten servers, of whose best units many are busy."""
    hold(build(*"abcdefghij"), *(0, 1, 2, 3, 4, 5, 8, 9, 12, 16, 20, 24))


def test_another_policy_takes_its_own_number_of_candidates() -> None:
    loaded()
    decision = decided(policy="tarcil")
    assert decision.sample_size > DEFAULT_SAMPLE
    few = Changes(policy="sampling", parameters={"candidates": 2})
    assert counterfactual(decision.pk, few)["after"]["examined"] == 2


@pytest.mark.parametrize("pool", [None, np.arange(10) > 6], ids=["everywhere", "in-a-pool"])
def test_a_policy_whose_r_follows_the_load_compares_as_many_as_live(
    pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R of agents follows from the servers outside the pool of the admission control, too."""

    def admit(_: Any, __: Any, ready: Any, *___: Any) -> tuple[list[SizedJob], list[Any]]:
        admitted = Admitted(pool)
        return [replace(each, request=within(each.request, admitted)) for each in ready], []

    monkeypatch.setattr(AdmissionDesk, "admit", admit)
    loaded()
    decision = decided()
    release([decision.job_id])
    live = decided(policy="tarcil")
    again = counterfactual(decision.pk, Changes(policy="tarcil"))["after"]
    assert live.sample_size > DEFAULT_SAMPLE
    assert (again["examined"], again["eligible"]) == (live.examined, live.eligible)


def test_a_job_keeps_its_own_r_and_guarantee_by_another_policy() -> None:
    loaded()
    own = decided(sample_size=5)
    guarantee = {"rank_threshold": 0.8, "probability": 0.1}
    guaranteed = decided(guarantee=guarantee)
    assert (own.policy, guaranteed.policy) == ("tarcil", "tarcil")
    sizes = [
        counterfactual(each.pk, Changes(policy="sampling"))["after"]["examined"]
        for each in (own, guaranteed)
    ]
    assert sizes == [5, guaranteed.sample_size]


def test_weights_change_the_choice() -> None:
    copy = build(*"ab")
    hold(copy, 0)
    decision = decided()
    assert servers(counterfactual(decision.pk, Changes(policy="expected"))["before"]) == {"b"}
    together = {"neighbours": 0.0, "kept": 0.0, "spread": 0.0}
    found = counterfactual(decision.pk, Changes(parameters=together))
    assert found["after"]["policy"] == "expected"
    idle_server = Server.objects.get(name="b").id
    scores = {
        name: {c["closeness"] for c in found[name]["candidates"] if c["server_id"] == idle_server}
        for name in ("before", "after")
    }
    assert scores["after"] == {0.0}
    assert scores["before"] != {0.0}


def test_another_target_changes_the_size_or_is_infeasible() -> None:
    build(*"abcd")
    decision = decided(units_requested=None, target={"kind": "completion_time", "seconds": 100.0})
    assert decision.units == 2
    easier = {"kind": "completion_time", "seconds": 1000.0}
    found = counterfactual(decision.pk, Changes(target=easier))
    assert (found["before"]["units"], found["after"]["units"]) == (2, 1)
    # 9 GB at 100 MB/s, of which sizing counts on 90 %
    assert found["after"]["predicted"]["value"] == pytest.approx(100.0)
    never = {"kind": "completion_time", "seconds": 0.01}
    refused = counterfactual(decision.pk, Changes(target=never))["after"]
    assert (refused["outcome"], refused["reason"]) == ("refused", "InfeasibleTarget")
    assert refused["detail"]


def test_a_job_keeps_its_pool_with_another_target(monkeypatch: pytest.MonkeyPatch) -> None:
    build(*"abcd")
    only_d = Admitted(np.array([False, False, False, True]))

    def admit(
        _: Any, __: Any, ready: Sequence[SizedJob], *___: Any
    ) -> tuple[list[SizedJob], list[Any]]:
        return [replace(each, request=within(each.request, only_d)) for each in ready], []

    monkeypatch.setattr(AdmissionDesk, "admit", admit)
    decision = decided(target={"kind": "completion_time", "seconds": 1000.0})
    found = counterfactual(decision.pk, Changes(target=decision.job.target))
    assert (servers(found["after"]), found["is_same"]) == ({"d"}, True)


def test_a_target_is_sized_with_the_time_until_work_starts() -> None:
    """15 cluster seconds at 60x: with them, 100 s of work on one unit end too late."""
    build(*"abcd")
    Cluster.objects.update(speed=60.0, wall_anchor_s=time.time())
    target = {"kind": "completion_time", "seconds": 1000.0}
    decision = decided(units_requested=None, target=target)
    assert decision.units == 1
    since_s = decision.cluster_s - decision.job.submitted_s
    tight = {"kind": "completion_time", "seconds": since_s + 107.0}
    assert counterfactual(decision.pk, Changes(target=tight))["after"]["units"] == 2


def test_a_loss_is_that_of_the_model() -> None:
    snapshot = idle(topology((4,)))
    moment = Moment(snapshot, TopologyFacts(snapshot.topology), [])
    job = request(1, caused=np.full(10, 60.0))
    tolerant = Neighbour(0, 1, np.zeros(10), np.full(10, 20.0))
    unknown = Neighbour(0, 1, np.zeros(10), None)
    units = np.array([0], dtype=np.int32)
    # a unit of three others causes 60 / 3 = 20 points: 5 % of the speed by each of ten sources
    assert moment.losses(job, units, [tolerant, unknown]) == [
        pytest.approx(1.0 - 0.95**10),
        0.0,
    ]


def test_who_loses_is_named_as_of_the_decision() -> None:
    copy = build("a")
    neighbour = hold(copy, 0)
    decision = decided()
    release([neighbour.id])
    late = hold(copy, 0)
    (loser,) = counterfactual(decision.pk, Changes(policy="random"))["before"]["neighbours"]
    assert (loser["job"], loser["server"]) == (str(neighbour.id), "a")
    assert 0.0 < loser["loss"] < 1.0
    assert Allocation.objects.filter(job=late, released_seq=None).exists()


def test_a_job_with_several_allocations_loses_once_and_only_what_is_visible() -> None:
    def loser(job: str, server: str, loss: float) -> dict[str, Any]:
        return {"job": job, "server": server, "loss": loss}

    found = [loser("1", "a", 0.02), loser("1", "b", 0.07), loser("2", "a", 0.03)]
    negligible = [loser("3", "a", 0.0004), loser("4", "a", 0.0)]
    assert largest_losses([*found, *negligible]) == [found[1], found[2]]


def test_jobs_placed_earlier_in_the_batch_lose_too() -> None:
    build("a")
    decision = decided(2)
    earlier = Decision.objects.filter(batch_id=decision.batch_id).exclude(pk=decision.pk).get()
    before = counterfactual(decision.pk, Changes(policy="random"))["before"]
    assert [each["job"] for each in before["neighbours"]] == [str(earlier.job_id)]
    assert 1.0 - before["neighbours"][0]["loss"] == pytest.approx(
        before["prediction"]["neighbours"], rel=1e-3
    )
    first = counterfactual(earlier.pk, Changes(policy="random"))["before"]
    assert first["neighbours"] == []


def test_a_job_that_is_given_more_units_is_not_its_own_neighbour() -> None:
    holder = hold(build("a"), 0, 1, 2)
    job = waiting(known(), units_requested=4, gang=False, **BEST_EFFORT)
    agent = make_agent("agent-1")
    work(agent)
    release([holder.id])
    Job.objects.update(claimed_until=None)
    work(agent)
    more = Decision.objects.filter(job=job).latest("at")
    assert more.units_before == 1
    before = counterfactual(more.pk, Changes(policy="random"))["before"]
    assert before["neighbours"] == []


def test_flips_are_changes_that_choose_the_server() -> None:
    copy = build(*"ab")
    hold(copy, 0)
    decision = decided()
    found = flips(decision.pk, Server.objects.get(name="a").id)
    assert (found["server"], found["is_chosen"]) == ("a", False)
    changes = [each["change"] for each in found["flips"]]
    assert {"without_servers": ["b"]} in changes
    assert {"policy": "slot_rr"} in changes
    for change in changes:
        change.update(without=tuple(
            Server.objects.filter(name__in=change.pop("without_servers", [])).values_list(
                "id", flat=True
            )
        ))  # fmt: skip
        after = counterfactual(decision.pk, Changes(**change))["after"]
        assert "a" in servers(after), change
    assert flips(decision.pk, None)["server"] == "a"
    assert flips(decision.pk, Server.objects.get(name="b").id)["is_chosen"]


# ---- REST ----


def client_of(role: Role, *projects: Any) -> APIClient:
    user = factories.user(role=role)
    for project in projects:
        Membership.objects.create(user=user, project=project)
    client = APIClient()
    client.force_login(user)
    return client


def test_the_reason_of_a_refusal_is_answered_as_a_sentence() -> None:
    build("a")
    address = f"/api/v1/decisions/{decided().pk}/counterfactuals/"
    response = client_of(Role.OPERATOR).post(address, {"without_servers": ["a"]}, format="json")
    before, after = response.json()["before"], response.json()["after"]
    assert (before["reason_text"], after["reason_text"]) == (
        "",
        MEANINGS[Reason(after["reason"])].sentence,
    )


def test_jobs_of_other_projects_are_counted_and_not_named() -> None:
    copy = build("a")
    theirs = hold(copy, 0, project=factories.project("theirs"))
    ours = hold(copy, 1, project=factories.project("ours"))
    decision = decided(project=factories.project("ours"))
    address = f"/api/v1/decisions/{decision.pk}/counterfactuals/"
    response = client_of(Role.VIEWER, decision.job.project).post(
        address, {"policy": "random"}, format="json"
    )
    assert response.status_code == 200, response.content
    losers = response.json()["before"]["losers"]
    assert [each["name"] for each in losers["jobs"]] == [ours.name]
    assert losers["others"] == 1
    assert losers["largest_other"] > 0.0
    assert str(theirs.pk) not in response.content.decode()
    everything = client_of(Role.OPERATOR).post(address, {"policy": "random"}, format="json")
    names = [each["name"] for each in everything.json()["before"]["losers"]["jobs"]]
    assert sorted(names) == sorted([ours.name, theirs.name])


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/"),
        ({"policy": "fifo"}, "/policy"),
        ({"parameters": {"speed": 1.0}}, "/parameters/speed"),
        ({"parameters": {"width": 99.0}}, "/parameters/width"),
        ({"sample_size": 1000}, "/sample_size"),
        ({"sample_size": 3, "parameters": {"kept": 0.5}}, "/parameters/kept"),
        ({"sample_size": 3, "policy": "least_loaded"}, "/sample_size"),
        ({"target": {"kind": "soon"}}, "/target/kind"),
        ({"without_servers": ["zz"]}, "/without_servers/0"),
    ],
    ids=[
        "nothing",
        "policy",
        "parameter",
        "value",
        "sample",
        "of-the-sampling-policy",
        "sample-of-all-units",
        "target",
        "server",
    ],
)
def test_an_invalid_change_names_its_field(body: dict[str, Any], pointer: str) -> None:
    build("a")
    decision = decided()
    address = f"/api/v1/decisions/{decision.pk}/counterfactuals/"
    response = client_of(Role.OPERATOR).post(address, body, format="json")
    assert response.status_code == 422
    assert [each["pointer"] for each in response.json()["errors"]] == [pointer]


def test_a_decision_that_cannot_be_repeated_is_a_conflict() -> None:
    build("a")
    decision = decided()
    DecisionBatch.objects.all().delete()
    client, address = client_of(Role.OPERATOR), f"/api/v1/decisions/{decision.pk}/"
    posted = client.post(f"{address}counterfactuals/", {"policy": "random"}, format="json")
    assert (posted.status_code, client.get(f"{address}flips/").status_code) == (409, 409)
    assert "no longer stored" in posted.json()["detail"]


@pytest.mark.parametrize("fault", ["raises", "cannot-be-made"])
def test_a_change_to_a_policy_that_fails_names_it(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies_that_fail.install(monkeypatch, "theirs", fault)
    build("a")
    decision = decided()
    address = f"/api/v1/decisions/{decision.pk}/counterfactuals/"
    response = client_of(Role.OPERATOR).post(address, {"policy": "theirs"}, format="json")
    kind = {"raises": "KeyError", "cannot-be-made": "OSError"}[fault]
    assert response.status_code == 409
    assert response.json()["detail"] == (
        f"The change cannot be tried: the policy theirs failed with {kind}."
    )


def test_a_change_to_a_decision_of_a_policy_that_fails_now_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policies_that_fail.install(monkeypatch, "theirs", "none")
    build("a")
    decision = decided(policy="theirs")
    policies_that_fail.install(monkeypatch, "theirs", "raises")
    client, address = client_of(Role.OPERATOR), f"/api/v1/decisions/{decision.pk}/"
    posted = client.post(f"{address}counterfactuals/", {"policy": "random"}, format="json")
    read = client.get(f"{address}flips/")
    sentence = "The decision cannot be repeated: the policy theirs failed with KeyError."
    assert [each.status_code for each in (posted, read)] == [409, 409]
    assert [each.json()["detail"] for each in (posted, read)] == [sentence, sentence]


@pytest.mark.parametrize(
    "body",
    [{"sample_size": 3}, {"parameters": {"spread": 0.0}}, {"policy": "random"}],
    ids=["sample", "parameters", "policy"],
)
def test_a_change_to_a_decision_of_a_removed_policy_is_a_conflict(
    body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    build("a")
    decision = decided(policy="slot_rr")
    monkeypatch.delitem(registry.POLICIES, "slot_rr")
    address = f"/api/v1/decisions/{decision.pk}/counterfactuals/"
    response = client_of(Role.OPERATOR).post(address, body, format="json")
    assert response.status_code == 409
    assert "unknown policy 'slot_rr'" in response.json()["detail"]


def test_a_decision_that_was_deleted_meanwhile_is_not_repeatable() -> None:
    with pytest.raises(NotRepeatableError, match="it is no longer stored"):
        counterfactual(uuid4(), Changes())
    with pytest.raises(NotRepeatableError, match="it is no longer stored"):
        flips(uuid4(), None)


@pytest.mark.broker
@pytest.mark.parametrize(
    ("method", "path"),
    [("post", "replay/"), ("post", "counterfactuals/"), ("get", "flips/")],
)
def test_deciding_again_has_the_rate_limit_of_the_solver(
    method: str, path: str, settings: Settings
) -> None:
    settings.BERTH_RATES = {**settings.BERTH_RATES, "solver": 1}
    build("a")
    client, address = client_of(Role.VIEWER), f"/api/v1/decisions/{decided().pk}/{path}"
    statuses = [getattr(client, method)(address).status_code for _ in range(2)]
    assert statuses == [404, 429]


def test_a_flip_to_another_policy_takes_the_number_of_candidates_of_that_policy() -> None:
    loaded()
    job = waiting(known(), units_requested=1, **BEST_EFFORT)
    work(SchedulingAgent("a", policy=registry.make("tarcil"), rng=np.random.default_rng(1)))
    decision = Decision.objects.get(job=job)
    (chosen,) = servers(counterfactual(decision.pk, Changes(policy="sampling"))["after"])
    found = flips(decision.pk, Server.objects.get(name=chosen).pk)
    assert {"policy": "sampling"} in [each["change"] for each in found["flips"]]


def test_flips_leave_out_a_policy_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    policies_that_fail.install(monkeypatch, "theirs", "raises")
    copy = build(*"ab")
    hold(copy, 0)
    found = flips(decided().pk, Server.objects.get(name="a").id)
    policies = {each["change"].get("policy") for each in found["flips"]}
    assert "slot_rr" in policies
    assert "theirs" not in policies


def test_flips_of_a_named_server() -> None:
    copy = build(*"ab")
    hold(copy, 0)
    decision = decided()
    client, address = client_of(Role.OPERATOR), f"/api/v1/decisions/{decision.pk}/flips/"
    body = client.get(address, {"server": "a"}).json()
    check_answer("/api/v1/decisions/{decision_id}/flips/", "get", 200, body)
    assert (body["decision"], body["server"]) == (str(decision.pk), "a")
    assert {"change": {"without_servers": ["b"]}, "effect": "if b had no free unit"} in (
        body["flips"]
    )
    assert client.get(address, {"server": "zz"}).status_code == 404
