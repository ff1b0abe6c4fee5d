"""Replay: a stored decision is repeated to the bit, or its differences are shown."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from django.utils import timezone
from pytest_django import Settings

from apps.accounts.models import Project
from apps.execution.services.retention import execution_kinds
from apps.inventory.core.backends import SLURM
from apps.inventory.core.cluster_file import RackSpec
from apps.inventory.models import Change, Rack, ServerState
from apps.inventory.services import MachineShape, import_cluster, register_machine
from apps.operations.services.retention import run_retention
from apps.scheduling.core import registry
from apps.scheduling.core.expected.performance import Weights
from apps.scheduling.core.records.replay_verdict import ReplayVerdict
from apps.scheduling.models import ClusterCheckpoint, Decision, DecisionBatch, Reservation
from apps.scheduling.selectors import ClusterFollower
from apps.scheduling.services import commit, release
from apps.scheduling.services.agent import SchedulingAgent, make_agent
from apps.scheduling.services.checkpoints import write_checkpoint
from apps.scheduling.services.proposals import LostProposal
from apps.scheduling.services.replay import Replay, replay
from apps.workloads.core.reasons import Reason
from apps.workloads.models import Application, Job
from tests import factories
from tests.scheduling import policies_that_fail
from tests.scheduling.world import (
    ME,
    build,
    claimed,
    cluster_of,
    decide_again,
    followed_copy,
    known,
    proposal,
    put,
    waiting,
    work,
)

pytestmark = pytest.mark.django_db
BEST_EFFORT = {"target": {"kind": "best_effort"}}


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=3000.0)


def busy(topology: Any, *units: int) -> Job:
    """A job that holds units."""
    job = claimed()
    assert not commit([proposal(job, topology, units)], agent=ME)[1]
    return job


def replayed(job: Job) -> Replay:
    return replay(Decision.objects.filter(job=job).latest("at").pk)


def assert_identical(*jobs: Job) -> None:
    for job in jobs:
        found = replayed(job)
        assert (found.detail, found.differences[:8]) == ("", ())
        assert found.verdict == ReplayVerdict.IDENTICAL


def batch_of(count: int, *applications: Application, **fields: Any) -> list[Job]:
    """Jobs that an agent decides together."""
    chosen = {"units_requested": 2, **BEST_EFFORT, **fields}
    return [waiting(applications[i % len(applications)], **chosen) for i in range(count)]


@pytest.mark.parametrize("policy", sorted(registry.POLICIES))
def test_every_decision_of_a_batch_is_repeated_to_the_bit(policy: str) -> None:
    copy = build(*"abcdefgh")
    busy(copy.topology, 0, 1, 5, 12)
    quiet = known()
    loud = known(base_rate=5e7, error=0.1)
    jobs = batch_of(6, quiet, loud, policy=policy)
    jobs += [waiting(quiet, policy=policy, gang=True), waiting(loud, policy=policy)]
    work(make_agent("agent-1"))
    assert DecisionBatch.objects.get().jobs == len(jobs)
    places = Decision.objects.filter(job__in=jobs).values_list("position", flat=True)
    assert sorted(place for place in places if place is not None) == list(range(len(jobs)))
    assert_identical(*jobs)


def test_a_decision_is_repeated_after_the_cluster_has_changed() -> None:
    copy = build(*"abcd")
    holder = busy(copy.topology, 0, 1, 2)
    put("b", ServerState.CORDONED)
    jobs = batch_of(3, known())
    work(make_agent("agent-1"))
    release([holder.id, jobs[0].id])
    put("b", ServerState.ACTIVE)
    put("c", ServerState.DRAINING)
    import_cluster(cluster_of(*"abcdxy"))
    later = batch_of(2, known())
    work(make_agent("agent-1"))
    assert_identical(*jobs, *later)


@pytest.mark.parametrize(
    ("kind", "labels"), [("big", {"zone": "a"}), ("small", {"zone": "b"})], ids=["kind", "label"]
)
def test_a_decision_before_a_machine_changed_is_not_repeated(
    kind: str, labels: dict[str, str]
) -> None:
    build(*"ab")
    shape = MachineShape(4, 1, 2**34, 10**9, 10**12, kind="small")
    for name in ("m1", "m2"):
        register_machine(name, shape, backend=SLURM, labels={"zone": "a"})
    jobs = batch_of(2, known())
    work(make_agent("agent-1"))
    register_machine("m1", replace(shape, kind=kind), backend=SLURM, labels=labels)
    later = batch_of(2, known())
    work(make_agent("agent-1"))
    found = replayed(jobs[0])
    assert (found.verdict, found.detail) == (
        ReplayVerdict.UNAVAILABLE,
        "servers were changed since this decision",
    )
    assert_identical(*later)


def test_a_decision_is_repeated_after_a_machine_was_added() -> None:
    build("a")
    shape = MachineShape(4, 1, 2**34, 10**9, 10**12, kind="small")
    register_machine("m1", shape, backend=SLURM)
    jobs = batch_of(2, known())
    work(make_agent("agent-1"))
    register_machine("m2", replace(shape, kind="big"), backend=SLURM)
    assert_identical(*jobs)


def test_a_decision_is_repeated_after_the_switch_of_a_machine_was_changed() -> None:
    shape = MachineShape(4, 1, 2**34, 10**9, 10**12, kind="small")
    register_machine("m1", replace(shape, rack="r9"), backend=SLURM)
    build("a")
    jobs = batch_of(2, known())
    work(make_agent("agent-1"))
    switches = replace(cluster_of("a"), racks=(RackSpec("r9", "agg-1"),))
    before = Change.objects.filter(kind="topology").count()
    assert import_cluster(switches) == 0
    assert Change.objects.filter(kind="topology").count() == before + 1
    assert Rack.objects.get(name="r9").switch == "agg-1"
    assert_identical(*jobs)


def test_a_refusal_is_repeated() -> None:
    copy = build("a")
    busy(copy.topology, 0, 1, 2)
    job = waiting(known(), units_requested=3, gang=True, **BEST_EFFORT)
    work(make_agent("agent-1"))
    decision = Decision.objects.get(job=job)
    assert (decision.outcome, decision.batch_id is None) == ("refused", False)
    assert_identical(job)


def test_decisions_around_a_reservation_are_repeated() -> None:
    copy = build(*"ab")
    busy(copy.topology, 0, 1)
    gang = waiting(known(), units_requested=8, gang=True, **BEST_EFFORT)
    agent = make_agent("agent-1")
    work(agent)
    kept = copy.topology.unit_id[2:7].tolist()
    Reservation.objects.create(
        job_id=gang.id, unit_ids=kept, made_s=3000.0, promised_s=3010.0, start_s=3010.0
    )
    application = known()
    jobs = [waiting(application, units_requested=1, **BEST_EFFORT) for _ in range(2)]
    wide = waiting(application, units_requested=3, gang=True, **BEST_EFFORT)
    decide_again(agent)
    reasons = Decision.objects.filter(job__in=[*jobs, wide]).values_list("reason_code", flat=True)
    assert sorted(reasons) == ["PlacedBestExpected", "UnitsReserved", "UnitsReserved"]
    assert_identical(*(each for each in (*jobs, wide) if each.decisions.exists()))


def test_the_units_given_to_a_running_job_are_repeated() -> None:
    copy = build("a")
    holder = busy(copy.topology, 0, 1, 2)
    job = waiting(known(), units_requested=4, gang=False, **BEST_EFFORT)
    agent = make_agent("agent-1")
    work(agent)
    release([holder.id])
    Job.objects.update(claimed_until=None)
    work(agent)
    assert Decision.objects.filter(job=job).latest("at").units_before == 1
    assert_identical(job)


def test_a_guarantee_and_a_measured_rank_are_repeated() -> None:
    build(*"abcdefgh")
    application = known()
    guarantee = {"rank_threshold": 0.9, "probability": 0.1}
    jobs = [waiting(application, guarantee=guarantee, **BEST_EFFORT) for _ in range(20)]
    work(make_agent("agent-1"))
    assert Decision.objects.filter(rank__isnull=False).exists()
    assert_identical(*jobs)


def decided_together() -> Decision:
    """The decision on a job of two units on one server, by `tarcil` with R = 1."""
    build(*"abcdefgh")
    near = {"constraints": {"locality": "server"}, "policy": "tarcil", "sample_size": 1}
    (job,) = batch_of(1, known(), **near)
    work(make_agent("agent-1"))
    return Decision.objects.get(job=job)


def test_a_decision_with_a_locality_is_stored_with_the_units_drawn_and_repeated() -> None:
    decision = decided_together()
    assert (decision.units_won, decision.examined, decision.eligible) == (2, 4, 32)
    assert decision.sample_size == 1
    assert decision.probability == pytest.approx(0.8)
    assert_identical(decision.job)


def test_a_decision_that_counted_all_units_beside_those_drawn_shows_its_differences() -> None:
    """As stored by version 2 of the policy."""
    decision = decided_together()
    Decision.objects.update(sample_size=2, probability=0.8192, policy_version=2)
    found = replayed(decision.job)
    assert {each.field: (each.stored, each.now) for each in found.differences} == {
        "sample_size": (2, 1),
        "probability": (0.8192, pytest.approx(0.8)),
    }
    assert [(each.field, each.stored, each.now) for each in found.changed] == [
        ("policy_version", 2, 3)
    ]


def test_a_decision_that_lost_its_commits_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build(*"abcdefgh")
    monkeypatch.setattr("apps.scheduling.services.agent_sizing.RANK_ONE_IN", 1)
    monkeypatch.setattr(
        "apps.scheduling.services.agent.commit",
        lambda proposals, **_: ({}, [LostProposal(each, is_gone=False) for each in proposals]),
    )
    job = waiting(known(), units_requested=1, policy="tarcil", **BEST_EFFORT)
    make_agent("agent-1").take_turn()
    assert Decision.objects.get(job=job).outcome == "conflict"
    assert_identical(job)


def test_a_decision_is_repeated_from_a_checkpoint_without_the_log_before_it() -> None:
    copy = build(*"abcd")
    busy(copy.topology, 0, 1, 2)
    put("b", ServerState.CORDONED)
    follower = followed_copy()
    assert write_checkpoint(follower)
    assert not write_checkpoint(follower)
    Change.objects.filter(seq__lt=follower.copy.sequence).exclude(kind="topology").delete()
    jobs = batch_of(4, known())
    work(make_agent("agent-1"))
    assert_identical(*jobs)
    assert {replayed(job).checkpoint for job in jobs} == {follower.copy.sequence}


def test_a_checkpoint_is_due_when_the_log_has_grown_or_time_has_passed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy = build(*"ab")
    follower = followed_copy()
    assert write_checkpoint(follower)
    busy(copy.topology, 0)
    assert not write_checkpoint(follower)
    ClusterCheckpoint.objects.update(at=timezone.now() - timedelta(minutes=11))
    assert write_checkpoint(follower)
    monkeypatch.setattr("apps.scheduling.services.checkpoints.CHANGES", 1)
    busy(copy.topology, 1)
    assert write_checkpoint(follower)
    assert ClusterCheckpoint.objects.count() == 3


def test_the_log_is_read_only_for_a_checkpoint_that_is_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy = build(*"ab")
    follower = followed_copy()
    assert write_checkpoint(follower)
    busy(copy.topology, 0)
    known_to = follower.copy.sequence
    write_checkpoint(follower)
    assert follower.copy.sequence == known_to
    monkeypatch.setattr("apps.scheduling.services.checkpoints.CHANGES", 1)
    write_checkpoint(follower)
    assert follower.copy.sequence > known_to


def test_a_copy_that_may_be_ahead_of_the_log_makes_no_checkpoint() -> None:
    build("a")
    follower = followed_copy()
    follower.exact_from = follower.copy.sequence + 1
    assert not write_checkpoint(follower)
    follower.exact_from -= 1
    assert write_checkpoint(follower)


def test_a_changed_policy_shows_its_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    build(*"abcd")
    job = batch_of(1, known())[0]
    work(make_agent("agent-1"))
    Decision.objects.filter(job=job).update(code_version="0.0.9")
    monkeypatch.setattr("apps.scheduling.core.fused.DEFAULT", Weights())
    entry = registry.POLICIES["expected"]
    monkeypatch.setitem(
        registry.POLICIES,
        "expected",
        registry.Entry(
            lambda **_: policies_that_fail.Theirs("none", name="expected"),
            entry.source,
            entry.formula,
            (
                registry.Parameter("spread", 9.0, 0.0, 10.0, "another default"),
                *(each for each in entry.parameters if each.name != "spread"),
            ),
        ),
    )
    found = replayed(job)
    assert found.verdict == ReplayVerdict.DIFFERENT
    fields = {each.field for each in found.differences}
    assert any(name.startswith("candidates") for name in fields)
    assert "seed" not in fields
    changed = {each.field: (each.stored, each.now) for each in found.changed}
    assert changed["parameters.spread"] == (Weights().spread, 9.0)
    assert changed["code_version"][0] == "0.0.9"


def test_a_tampered_record_shows_the_field() -> None:
    build(*"abcd")
    job = batch_of(1, known())[0]
    work(make_agent("agent-1"))
    decision = Decision.objects.get(job=job)
    decision.candidates[0]["core"] += 1
    decision.eligible += 1
    decision.save()
    found = replayed(job)
    stored = {each.field: (each.stored, each.now) for each in found.differences}
    core = decision.candidates[0]["core"]
    assert stored == {
        "eligible": (decision.eligible, decision.eligible - 1),
        "candidates[0].core": (core, core - 1),
    }


@pytest.mark.parametrize(
    ("missing", "detail"),
    [
        ("batch", "its request is no longer stored"),
        ("checkpoint", "no state of the cluster is stored"),
        ("policy", "unknown policy"),
        ("profile", "a profile of the batch is no longer stored"),
    ],
)
def test_a_decision_without_its_inputs_cannot_be_repeated(missing: str, detail: str) -> None:
    build(*"ab")
    application = known()
    job = batch_of(1, application)[0]
    work(make_agent("agent-1"))
    if missing == "batch":
        DecisionBatch.objects.all().delete()
    elif missing == "checkpoint":
        Change.objects.exclude(kind="topology").update(at=timezone.now() - timedelta(days=400))
        run_retention([kind for kind in execution_kinds() if kind.name == "changes"])
        later = claimed()
        commit([proposal(later, followed_copy().copy.topology, [7])], agent=ME)
        run_retention([kind for kind in execution_kinds() if kind.name == "changes"])
    elif missing == "policy":
        DecisionBatch.objects.update(policy="of-a-removed-package")
    else:
        application.profiles.all().delete()
    found = replayed(job)
    assert found.verdict == ReplayVerdict.UNAVAILABLE
    assert detail in found.detail


def test_a_decision_that_was_deleted_meanwhile_is_not_repeated() -> None:
    found = replay(uuid4())
    assert (found.verdict, found.detail) == (ReplayVerdict.UNAVAILABLE, "it is no longer stored")


def test_a_decision_of_a_policy_that_fails_now_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policies_that_fail.install(monkeypatch, "theirs", "none")
    build("a")
    (job,) = batch_of(1, known(), policy="theirs")
    work(make_agent("agent-1"))
    assert_identical(job)
    policies_that_fail.install(monkeypatch, "theirs", "raises")
    found = replayed(job)
    assert (found.verdict, found.detail) == (
        ReplayVerdict.UNAVAILABLE,
        "the policy theirs failed with KeyError",
    )


def test_a_decision_by_sizing_says_so() -> None:
    build("a")
    job = waiting(known(), target={"kind": "completion_time", "seconds": 0.001})
    work(make_agent("agent-1"))
    assert "decided by sizing" in replayed(job).detail


def test_a_decision_about_an_invalid_job_says_so() -> None:
    build("a")
    job = waiting(known(), policy="removed", **BEST_EFFORT)
    work(make_agent("agent-1"))
    assert replayed(job).detail == "the job was invalid, so no policy examined any server"


NO_OPEN_SERVER = "no open server could run the job, so no policy examined any"


def test_a_decision_while_all_servers_are_closed_says_so() -> None:
    build("a")
    put("a", ServerState.DRAINING)
    job = waiting(known(), **BEST_EFFORT)
    work(make_agent("agent-1"))
    assert Decision.objects.get(job=job).reason_code == Reason.SERVERS_CLOSED
    assert replayed(job).detail == NO_OPEN_SERVER


def test_a_decision_without_servers_says_so() -> None:
    job = waiting(factories.application(), **BEST_EFFORT)
    work(make_agent("agent-1"))
    assert Decision.objects.get(job=job).reason_code == Reason.NO_MATCHING_SERVER
    assert replayed(job).detail == NO_OPEN_SERVER


def test_a_decision_of_a_policy_that_failed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    policies_that_fail.install(monkeypatch, "theirs", "raises")
    build("a")
    (job,) = batch_of(1, known(), policy="theirs")
    work(make_agent("agent-1"))
    assert replayed(job).detail == "its policy failed and gave no outcome"


def test_a_decision_by_the_quota_says_so() -> None:
    build("a")
    job = waiting(known(), **BEST_EFFORT)
    Project.objects.filter(pk=job.project_id).update(max_units=0)
    work(make_agent("agent-1"))
    assert replayed(job).detail == (
        "it was decided by the quota of the project, before any server was examined"
    )


def test_batches_and_checkpoints_are_kept_for_the_replay_days(settings: Settings) -> None:
    settings.BERTH_REPLAY_DAYS, settings.BERTH_CHANGE_DAYS = 3, 1
    build(*"ab")
    batch_of(1, known())
    work(make_agent("agent-1"))
    write_checkpoint(followed_copy())
    names = ("changes", "decision_batches", "checkpoints")
    kinds = [kind for kind in execution_kinds() if kind.name in names]
    changes = Change.objects.count()
    for days, left in ((2, (changes, 1, 1)), (4, (2, 0, 0))):
        at = timezone.now() - timedelta(days=days)
        for model in (Change, DecisionBatch, ClusterCheckpoint):
            model.objects.update(at=at)
        run_retention(kinds)
        counts = (model.objects.count() for model in (Change, DecisionBatch, ClusterCheckpoint))
        assert tuple(counts) == left


def test_a_batch_by_a_policy_outside_of_the_registry_is_stored_without_parameters() -> None:
    build("a")
    job = waiting(known(), units_requested=1, **BEST_EFFORT)
    policy = registry.make("random")
    agent = SchedulingAgent("agent-1", policy=policy, rng=np.random.default_rng(5))
    work(agent)
    assert Decision.objects.get(job=job).batch_id == DecisionBatch.objects.get().pk
    assert isinstance(ClusterFollower().follow().sequence, int)
