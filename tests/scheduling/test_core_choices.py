"""Choice of cores on a described server with two L3 groups, by commits and migrations."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.test import Client

from apps.accounts.core.roles import Role
from apps.common.core.interference import N_SOURCES
from apps.execution.services.agents import orders_of
from apps.inventory.core.backends import AGENT
from apps.inventory.models import ChangeKind, ResourceUnit, Server
from apps.inventory.selectors import cluster_time
from apps.inventory.services import NewChange, append_changes
from apps.scheduling.api.serializers import represent_explanation
from apps.scheduling.core import registry
from apps.scheduling.core.records.replay_verdict import ReplayVerdict
from apps.scheduling.models import Allocation, Decision, Reservation
from apps.scheduling.selectors import core_choice_of, read_copy
from apps.scheduling.services import Proposal, ReservationRequest, commit, reserve_units
from apps.scheduling.services.agent import SchedulingAgent
from apps.scheduling.services.replay import replay
from apps.scheduling.services.shadow_turns import ShadowWorker
from apps.scheduling.services.shadows import start_shadow
from apps.workloads.core.spec import parse_job
from apps.workloads.models import Job
from apps.workloads.services import submit_jobs
from tests import factories
from tests.scheduling.world import ME, claimed, proposal, work

pytestmark = pytest.mark.django_db

PROGRAM: dict[str, Any] = {"command": ["true"], "environment": {}, "working_directory": None}
TAZ: dict[str, Any] = {"caused": [100.0] * N_SOURCES, "tolerated": [10.0] * N_SOURCES}
TURTLE: dict[str, Any] = {"caused": [0.0] * N_SOURCES, "tolerated": [100.0] * N_SOURCES}


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=3000.0)


@pytest.fixture
def as_operator(client: Client) -> Client:
    client.force_login(factories.user("olga", role=Role.OPERATOR))
    return client


def box(name: str = "box-1", groups: Sequence[int] = (0, 0, 0, 0, 1, 1, 1, 1)) -> Server:
    kind = factories.platform(cores=8)
    server = factories.server(name, of=kind, backend=AGENT, l3_groups=list(groups))
    now = cluster_time()
    append_changes([NewChange(ChangeKind.TOPOLOGY, server.id)], at=now.at, cluster_s=now.cluster_s)
    return server


def resident(on: Server, *cores: int, **scores: Any) -> Allocation:
    """A running command on some cores."""
    job = factories.job(state="running", program=PROGRAM)
    row = factories.allocation(job, on, cores=len(cores), **scores)
    ResourceUnit.objects.filter(id__in=row.unit_ids).update(allocation_id=None)
    units = ResourceUnit.objects.filter(server=on, core__in=cores)
    row.unit_ids = list(units.values_list("id", flat=True))
    row.save()
    units.update(allocation_id=row.id)
    return row


def proposed(cores: Sequence[int], job: Job | None = None, **scores: Any) -> Proposal:
    """The placement of a command on the cores that a policy names."""
    made = proposal(job or claimed(program=PROGRAM), read_copy().topology, cores)
    given: dict[str, Any] = {name: np.array(v) for name, v in (scores or TURTLE).items()}
    request = replace(made.sized_job.request, **given)
    return replace(made, sized_job=replace(made.sized_job, request=request))


def job_of(made: Proposal) -> Job:
    return Job.objects.get(pk=made.job.id)


def cores_of(job: Job) -> list[int]:
    row = Allocation.objects.get(job=job, released_seq=None, moved_from=None)
    return core_numbers(row)


def core_numbers(row: Allocation) -> list[int]:
    units = ResourceUnit.objects.filter(id__in=row.unit_ids, allocation_id=row.id)
    return sorted(units.values_list("core", flat=True))


def test_a_memory_intensive_command_avoids_the_chip_of_another() -> None:
    resident(box(), 0, **TAZ)
    new = proposed([1, 2], **TAZ)
    won, lost = commit([new], agent=ME)
    assert (len(won), lost) == (1, [])
    assert cores_of(job_of(new)) == [4, 5]


def test_the_agent_is_ordered_to_use_the_chosen_cores() -> None:
    server = box()
    resident(server, 0, **TAZ)
    new = proposed([1, 2], **TAZ)
    commit([new], agent=ME)
    (order,) = [o for o in orders_of(server.id) if o.job == str(new.job.id)]
    assert order.cores == (4, 5)


def test_two_commands_of_one_batch_are_dealt_together() -> None:
    box()
    first, second, third = (proposed([c], **s) for c, s in ((0, TURTLE), (1, TAZ), (2, TAZ)))
    commit([first, second, third], agent=ME)
    chips = [cores_of(job_of(each))[0] // 4 for each in (second, third)]
    assert sorted(chips) == [0, 1]


def test_a_unit_that_another_job_got_meanwhile_is_replaced() -> None:
    server = box()
    new = proposed([0])
    resident(server, 0, **TURTLE)
    won, _ = commit([new], agent=ME)
    assert len(won) == 1
    assert cores_of(job_of(new)) == [4]  # the emptier chip


def test_units_reserved_for_another_job_are_left_alone() -> None:
    server = box()
    resident(server, 0, **TAZ)
    kept = ResourceUnit.objects.filter(server=server, core__gte=4).values_list("id", flat=True)
    Reservation.objects.create(
        job_id=factories.job().id, unit_ids=list(kept), made_s=0.0, promised_s=0.0, start_s=0.0
    )
    new = proposed([1], **TAZ)
    commit([new], agent=ME)
    assert cores_of(job_of(new)) == [1]


def test_a_server_with_one_group_keeps_the_units_of_the_policy() -> None:
    resident(box(groups=()), 0, **TAZ)
    new = proposed([1, 2], **TAZ)
    commit([new], agent=ME)
    assert cores_of(job_of(new)) == [1, 2]
    assert Allocation.objects.get(job=job_of(new)).core_choice is None


def test_jobs_that_need_more_cores_than_are_free_conflict_as_before() -> None:
    server = box()
    resident(server, *range(7), **TURTLE)
    first, second = proposed([7]), proposed([7])
    won, lost = commit([first, second], agent=ME)
    assert list(won) == [first.job.id]
    assert [entry.proposal.job.id for entry in lost] == [second.job.id]


def test_the_decision_says_which_l3_group_and_why(as_operator: Client) -> None:
    resident(box(), 0, **TAZ)
    new = proposed([1], **TAZ)
    commit([new], agent=ME)
    decision = Decision.objects.get(job=job_of(new))
    sentence = "It is memory-intensive; other such jobs on L3 groups: 0 on its own (1), 1 on 0."
    assert core_choice_of(decision) == sentence
    job = Job.objects.get(pk=new.job.id)
    assert sentence in represent_explanation(job, decision, ["box-1"], now_s=0.0)["summary"]
    assert sentence in as_operator.get(f"/jobs/{job.pk}/?tab=why").content.decode()


def test_a_choice_among_equal_chips_is_not_explained() -> None:
    box()
    new = proposed([1])
    commit([new], agent=ME)
    assert core_choice_of(Decision.objects.get(job=job_of(new))) == ""


def test_the_page_of_the_server_shows_its_l3_groups(as_operator: Client) -> None:
    box()
    page = as_operator.get("/servers/box-1/").content.decode()
    assert "<dt>L3 caches</dt><dd>2</dd>" in page
    assert 'title="core 3, L3 group 0: free"' in page
    assert 'title="core 4, L3 group 1: free"' in page


def test_a_decision_repeats_although_its_cores_were_exchanged() -> None:
    box()
    rng = np.random.default_rng(7)
    by = SchedulingAgent("agent-1", policy=registry.make("random"), rng=rng)
    jobs = submit_jobs(
        [parse_job({"command": ["true"]}) for _ in range(3)],
        project=factories.project(), user=factories.user(), correlation_id="request-1",
    )  # fmt: skip
    work(by)
    rows = Allocation.objects.filter(job__in=jobs)
    assert rows.count() == 3
    verdicts = {replay(row.decision_id).verdict for row in rows}
    assert verdicts == {ReplayVerdict.IDENTICAL}
    assert any(row.unit_ids != row.core_choice["named"] for row in rows if row.core_choice)


def test_a_shadow_compares_decisions_whose_cores_were_exchanged() -> None:
    box()
    shadow = start_shadow(policy="random", parameters={}, share=1.0, until=None, by=None)
    rng = np.random.default_rng(7)
    submit_jobs(
        [parse_job({"command": ["true"]}) for _ in range(3)],
        project=factories.project(), user=factories.user(), correlation_id="request-1",
    )  # fmt: skip
    work(SchedulingAgent("agent-1", policy=registry.make("random"), rng=rng))
    exchanged = Allocation.objects.filter(core_choice__isnull=False)
    assert any(row.unit_ids != row.core_choice["named"] for row in exchanged if row.core_choice)
    ShadowWorker(settled=timedelta(0)).turn(budget_s=60.0)
    shadow.refresh_from_db()
    assert (shadow.decided, shadow.unavailable) == (3, 0)


def test_migrations_of_a_plan_are_dealt_with_memory_intensive_jobs_first() -> None:
    source, target = box("box-1", groups=()), box("box-2")
    resident(target, 0, **TAZ)
    turtle, taz, other = (
        resident(source, core, **scores) for core, scores in ((0, TURTLE), (1, TAZ), (2, TAZ))
    )
    reserved = reserve_units(
        [ReservationRequest(row.id, target.id) for row in (turtle, taz, other)]
    )
    new = [Allocation.objects.get(id=key) for key in reserved]
    chips = [[core // 4 for core in core_numbers(row)] for row in new]
    # the first taz avoids the one that runs; the second cannot, and takes the first chip
    assert chips[1:] == [[1], [0]]
    assert all(row.core_choice is not None for row in new)


def test_a_migration_to_a_server_with_too_few_free_cores_is_refused() -> None:
    source, target = box("box-1", groups=()), box("box-2")
    resident(target, *range(7), **TURTLE)
    wide = resident(source, 0, 1, **TURTLE)
    (failure,) = reserve_units([ReservationRequest(wide.id, target.id)])
    assert failure == "units_short"
