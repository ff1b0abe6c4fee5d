"""Quotas limit what agents place, and units that were lent return as jobs end."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from apps.accounts.models import Project
from apps.inventory.models import Cluster, Server
from apps.scheduling.api.serializers import represent_explanation
from apps.scheduling.core.cluster.conflicts import Claim
from apps.scheduling.core.records.replay_verdict import ReplayVerdict
from apps.scheduling.models import Allocation, Decision
from apps.scheduling.selectors.quotas import quota_rows, standings
from apps.scheduling.services import (
    ReservationRequest,
    finish_migrations,
    release,
    reserve_units,
)
from apps.scheduling.services.agent import SchedulingAgent, make_agent
from apps.scheduling.services.quotas import left_in_limits, within_limits
from apps.scheduling.services.replay import replay
from apps.scheduling.services.reservations import reservations
from apps.workloads import services as workloads
from apps.workloads.core.reasons import PERMANENT, Reason
from apps.workloads.models import Application, Job
from tests import factories
from tests.scheduling.world import (
    FirstFree,
    Greedy,
    agent,
    build,
    decide_again,
    known,
    state_and_reason,
    waiting,
    work,
)

pytestmark = pytest.mark.django_db

NOW_S = 3000.0


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=NOW_S)


def project(name: str, guaranteed: int | None = None, limit: int | None = None) -> Project:
    row = factories.project(name)
    row.guaranteed_units, row.max_units = guaranteed, limit
    row.save()
    return row


def job(of: Application, owner: Project, units: int = 1, **values: Any) -> Job:
    fields = {"target": {"kind": "best_effort"}, "target_kind": "best_effort", "gang": True}
    size = {"units_requested": units, "input_bytes": 10**10, "submitted_s": NOW_S}
    return waiting(of, project=owner, **{**fields, **size, **values})


def placed(of: Application, owner: Project, count: int, by: SchedulingAgent) -> list[Job]:
    jobs = [job(of, owner) for _ in range(count)]
    decide_again(by)
    return [one for one in jobs if state_and_reason(one)[0] == "starting"]


def end(*jobs: Job) -> None:
    ended = {"state": "succeeded", "finished_at": timezone.now(), "finished_s": NOW_S}
    Job.objects.filter(id__in=[one.id for one in jobs]).update(**ended)
    release([one.id for one in jobs])


def used(by: Project) -> tuple[int, int, int]:
    """Units used by a project as agents and `GET /queues/` see it, and what its maximum leaves."""
    rows = quota_rows({by.pk})
    assert rows is not None
    (row,) = rows
    return standings()[by.pk].used, row.standing.used, left_in_limits([by.pk], lock=False)[by.pk]


def test_a_job_that_migrates_uses_its_units_once() -> None:
    build("a", "b")
    vision, by = project("vision", guaranteed=6, limit=8), make_agent("agent-1")
    job(known(), vision, 4, constraints={"locality": "server"})
    decide_again(by)
    source = Allocation.objects.get()
    other = Server.objects.exclude(pk=source.server_id).get()
    (target,) = reserve_units([ReservationRequest(source.pk, other.pk)])
    assert isinstance(target, int)
    assert used(vision) == (4, 4, 4)
    finish_migrations({target: NOW_S + 10.0})
    assert used(vision) == (4, 4, 4)


def test_nothing_is_limited_without_quotas() -> None:
    build("a", "b")
    assert quota_rows(None) is None
    assert len(placed(known(), project("vision"), 8, make_agent("agent-1"))) == 8


def test_a_project_at_its_maximum_waits_with_the_reason() -> None:
    build("a", "b")
    of, by, vision = known(), make_agent("agent-1"), project("vision", limit=2)
    assert len(placed(of, vision, 3, by)) == 2
    late = Job.objects.get(state="queued")
    assert state_and_reason(late) == ("queued", "QuotaExceeded")
    assert late.reason_message == "project vision uses 2 of at most 2 units"
    assert Decision.objects.get(job=late).dropped == {"quota": 6}
    end(Job.objects.filter(state="starting")[0])
    decide_again(by)
    assert state_and_reason(late)[0] == "starting"


def test_a_refusal_by_the_quota_of_a_project_has_no_sample_and_no_guarantee() -> None:
    build("a")
    placed(known(), project("vision", limit=4), 5, make_agent("agent-1"))
    late = Job.objects.get(state="queued")
    shown = represent_explanation(late, Decision.objects.get(job=late), [], now_s=NOW_S)
    assert shown["summary"] == (
        "Not placed: the project has used its quota, and may borrow no further units now."
    )
    decision = shown["decision"]
    assert (decision["sample"], decision["guarantee"], decision["dropped"]) == (None, None, {})


def test_unused_units_are_lent_and_come_back_as_jobs_end() -> None:
    """Eight units: web is guaranteed six and uses none, so that vision borrows six of them."""
    build("a", "b")
    of, by = known(), make_agent("agent-1")
    vision, web = project("vision", 2), project("web", 6)
    borrowers = placed(of, vision, 8, by)
    assert len(borrowers) == 8
    rows = {row.standing.name: row for row in quota_rows(None) or []}
    assert (rows["vision"].standing.borrowed, rows["web"].lent) == (6, 6)
    wide = job(of, web, 4)
    more = job(of, vision)
    decide_again(by)
    assert state_and_reason(wide) == ("queued", "NoFreeUnit")
    assert state_and_reason(more) == ("queued", "QuotaExceeded")
    end(*borrowers[:3])
    decide_again(by)
    assert state_and_reason(more) == ("queued", "QuotaExceeded"), "web claims the freed units"
    end(borrowers[3])
    decide_again(by)
    assert state_and_reason(wide)[0] == "starting"


def test_a_project_within_its_guarantee_starts_although_others_claim_units() -> None:
    build("a", "b")
    of, by = known(), make_agent("agent-1")
    vision, web = project("vision", 2), project("web", 8)
    jobs = [job(of, vision) for _ in range(3)]
    job(of, web, 8)
    decide_again(by)
    assert sorted(state_and_reason(one)[1] for one in jobs).count("QuotaExceeded") == 1


def test_jobs_of_one_turn_do_not_borrow_the_units_that_their_own_project_just_took() -> None:
    """Six of eight units are free; vision may take its four, as web claims the other two."""
    build("a", "b")
    of, by = known(), make_agent("agent-1")
    vision, web = project("vision", 4), project("web", 4)
    placed(of, web, 2, by)
    mine = [job(of, vision, 2) for _ in range(3)]
    wide = job(of, web, 2)
    decide_again(by)
    assert [state_and_reason(one)[0] for one in mine] == ["starting", "starting", "queued"]
    late = state_and_reason(mine[2])
    assert late == ("queued", "QuotaExceeded")
    mine[2].refresh_from_db()
    assert mine[2].reason_message == (
        "project vision uses 4 units and 4 are guaranteed;"
        " other projects claim 2 of the 2 free units"
    )
    assert state_and_reason(wide)[0] == "starting"


def test_a_gang_beyond_the_maximum_of_its_project_claims_nothing() -> None:
    """It can never start, so that its project's units would be lent to nobody."""
    build("a", "b")
    of, by = known(), make_agent("agent-1")
    vision, web = project("vision", 2), project("web", 6, 6)
    wide = job(of, web, 7)
    decide_again(by)
    assert state_and_reason(wide) == ("queued", "QuotaExceeded")
    assert len(placed(of, vision, 8, by)) == 8


def test_a_maximum_that_was_removed_between_two_reads_limits_nothing() -> None:
    """The jobs were read while their project had a maximum, the maxima afterwards."""
    vision, web = uuid4(), uuid4()
    wide = Claim("job-1", [1, 2], [1, 1], [(0.0, 0.0, 0.0)] * 2, whole=True)
    kept = within_limits([wide, wide], [(0, 1), (0, 1)], [vision, web], {web: 1})
    assert kept == [(0, 1), ()]


def test_a_job_beyond_its_quota_gives_its_reservation_up() -> None:
    """Else the gang would keep out the job whose claim keeps out the gang."""
    build("a")
    of, by = known(), make_agent("agent-1")
    vision, web = project("vision"), project("web", 4)
    (holder,) = placed(of, vision, 1, by)
    gang = job(of, vision, 4, submitted_s=NOW_S - 700.0)
    decide_again(by)
    (kept,) = reservations()
    assert kept.job == gang.id
    Cluster.objects.update(seen_cluster_s=kept.start_s + 1.0)
    long = job(of, web, 2)
    end(holder)
    for _ in range(3):
        decide_again(by)
    assert state_and_reason(long)[0] == "starting"
    assert state_and_reason(gang) == ("queued", "NotEnoughFreeUnits")


def long_gang(of: Application, owner: Project, units: int, **values: Any) -> Job:
    """Let an agent refuse a gang that was submitted more than `RESERVE_AFTER_S` ago."""
    return job(of, owner, units, submitted_s=NOW_S - 700.0, **values)


def test_smaller_jobs_leave_a_gang_that_waited_long_the_units_of_its_quota() -> None:
    build("a", "b")
    of, by, vision = known(), make_agent("agent-1"), project("vision", limit=4)
    first, second = placed(of, vision, 2, by)
    gang = long_gang(of, vision, 4)
    decide_again(by)
    assert state_and_reason(gang) == ("queued", "QuotaExceeded")
    small = job(of, vision)
    end(first)
    decide_again(by)
    assert state_and_reason(small) == ("queued", "QuotaExceeded")
    small.refresh_from_db()
    assert small.reason_message == (
        "project vision uses 1 of at most 4 units; 4 units are kept for a job that has waited long"
    )
    end(second)
    decide_again(by)
    assert [state_and_reason(one)[0] for one in (gang, small)] == ["starting", "queued"]


def test_jobs_of_higher_priority_come_before_the_gang() -> None:
    build("a", "b")
    of, by, vision = known(), make_agent("agent-1"), project("vision", limit=2)
    placed(of, vision, 1, by)
    long_gang(of, vision, 2)
    decide_again(by)
    urgent = job(of, vision, priority=1)
    decide_again(by)
    assert state_and_reason(urgent)[0] == "starting"


def test_no_units_are_kept_for_a_gang_that_has_not_waited_long() -> None:
    build("a", "b")
    of, by, vision = known(), make_agent("agent-1"), project("vision", limit=2)
    placed(of, vision, 1, by)
    job(of, vision, 2)
    decide_again(by)
    assert len(placed(of, vision, 1, by)) == 1


def test_no_units_are_kept_for_a_gang_that_can_never_start() -> None:
    build("a", "b")
    of, by, vision = known(), make_agent("agent-1"), project("vision", limit=2)
    long_gang(of, vision, 3)
    decide_again(by)
    assert len(placed(of, vision, 2, by)) == 2


@pytest.mark.parametrize(
    ("constraints", "reason"),
    [
        ({"labels": {"disk": "ssd"}}, "NoMatchingServer"),
        ({"excluded": ["a", "b"]}, "NotEnoughFreeUnits"),
        ({"excluded": ["a", "b"], "spread": "server"}, "SpreadShort"),
        ({"excluded": ["a"], "locality": "rack"}, "LocalityShort"),
    ],
)
def test_no_units_are_kept_for_a_gang_that_the_open_servers_cannot_hold(
    constraints: dict[str, Any], reason: str
) -> None:
    """The quota would leave it units again and again, and the policy would refuse it."""
    build("a", "b", "c")
    of, by, vision = known(), make_agent("agent-1"), project("vision", limit=5)
    placed(of, vision, 1, by)
    units = 3 if "spread" in constraints else 5
    placed(of, vision, 5 - units, by)
    wide = long_gang(of, vision, units, constraints=constraints)
    decide_again(by)
    assert state_and_reason(wide) == ("queued", reason)
    assert len(placed(of, vision, 4, by)) == units - 1


def test_without_reservations_no_units_are_kept(settings: Settings) -> None:
    settings.MAX_RESERVATIONS = 0
    build("a", "b")
    of, by, vision = known(), make_agent("agent-1"), project("vision", limit=2)
    placed(of, vision, 1, by)
    long_gang(of, vision, 2)
    decide_again(by)
    assert len(placed(of, vision, 1, by)) == 1


def test_a_gang_with_a_reservation_keeps_its_part_of_the_quota() -> None:
    """Four units, of which another project holds one until its job ends."""
    build("a")
    of, by = known(), make_agent("agent-1")
    vision, web = project("vision", limit=4), project("web")
    (holder,) = placed(of, web, 1, by)
    gang = long_gang(of, vision, 4)
    decide_again(by)
    (kept,) = reservations()
    assert kept.job == gang.id
    long = job(of, vision, input_bytes=10**13)
    work(by)
    assert state_and_reason(long) == ("queued", "QuotaExceeded")
    end(holder)
    decide_again(by)
    assert state_and_reason(gang)[0] == "starting"


class _LastFree(FirstFree):
    """A policy that takes the last free units."""

    def place(self, *args: Any) -> Any:
        free = args[0].unit_free
        marked = np.flatnonzero(free)[: -sum(one.units for one in args[1])]
        kept = free.copy()
        kept[marked] = False
        return super().place(replace(args[0], unit_free=kept), *args[1:])


def decided_at_once(*jobs: Job) -> list[tuple[int | None, int]]:
    """Let an agent decide on the second job between choice and commit of the first; units."""
    other = agent("agent-2", _LastFree())
    slower = agent("agent-1", FirstFree(meanwhile=lambda: work(other)))
    slower._decide(workloads.claim_waiting(agent="agent-1", limit=1))
    for one in jobs:
        one.refresh_from_db()
    return sorted((one.units or 0, one.units_missing) for one in jobs)


def test_concurrent_agents_do_not_exceed_the_maximum() -> None:
    build("a", "b")
    of, vision = known(), project("vision", limit=3)
    jobs = [job(of, vision, 2) for _ in range(2)]
    assert decided_at_once(*jobs) == [(0, 0), (2, 0)]
    assert Job.objects.get(state="queued").reason_code == "QuotaExceeded"


def test_an_incremental_job_takes_what_the_maximum_leaves_at_its_commit() -> None:
    build("a", "b")
    of, vision = known(), project("vision", limit=3)
    jobs = [job(of, vision, 2, gang=False) for _ in range(2)]
    assert decided_at_once(*jobs) == [(1, 1), (2, 0)]


def test_a_policy_that_chooses_more_units_does_not_exceed_the_maximum() -> None:
    build("a", "b")
    vision = project("vision", limit=3)
    fields: dict[str, Any] = {"gang": True, "project": vision, "submitted_s": NOW_S}
    sized = waiting(known(), **fields)
    decide_again(agent("agent-1", Greedy()))
    sized.refresh_from_db()
    assert (sized.state, sized.units) == ("starting", 2)


def test_a_policy_that_chooses_more_units_borrows_none_that_others_claim() -> None:
    """Eight units, of which web claims six; the policy would give the first job four units."""
    build("a", "b")
    of, vision, web = known(), project("vision", 2), project("web", 6)
    sized = waiting(of, gang=True, project=vision, submitted_s=NOW_S)
    wide = job(of, web, 6)
    decide_again(agent("agent-1", Greedy()))
    sized.refresh_from_db()
    assert (sized.state, sized.units) == ("starting", 2)
    assert state_and_reason(wide)[0] == "starting"


def test_without_quotas_a_turn_has_no_statement_about_them() -> None:
    build("a", "b")
    of, by, vision = known(), make_agent("agent-1"), project("vision")
    job(of, vision)
    with CaptureQueriesContext(connection) as captured:
        decide_again(by)
    statements = [query["sql"] or "" for query in captured.captured_queries]
    about = [sql for sql in statements if "max_units" in sql and "workloads_job" not in sql]
    assert about
    assert all(sql.strip().startswith("SELECT EXISTS") for sql in about)


def test_jobs_that_no_server_matches_claim_nothing() -> None:
    build("a", "b")
    of, by = known(), make_agent("agent-1")
    vision, web = project("vision", 2), project("web", 6)
    nowhere = job(of, web, 4, constraints={"labels": {"disk": "ssd"}})
    decide_again(by)
    assert state_and_reason(nowhere) == ("queued", "NoMatchingServer")
    assert len(placed(of, vision, 8, by)) == 8


def test_a_gang_whose_memory_no_idle_cluster_has_claims_nothing() -> None:
    """Two servers of four units hold two units of 8 GB each."""
    build("a", "b")
    of, by = known(), make_agent("agent-1")
    vision, web = project("vision", 2), project("web", 6)
    wide = job(of, web, 5, unit_memory_bytes=8 * 10**9)
    decide_again(by)
    assert state_and_reason(wide) == ("queued", "NoMatchingServer")
    assert len(placed(of, vision, 8, by)) == 8


class _FailsForLarge(FirstFree):
    """A policy that raises an error for jobs of more than one unit."""

    def place(self, *args: Any) -> Any:
        if any(one.units > 1 for one in args[1]):
            raise KeyError("rack-7")
        return super().place(*args)


def test_jobs_whose_policy_fails_claim_nothing() -> None:
    build("a", "b")
    of, by = known(), agent("agent-1", _FailsForLarge())
    vision, web = project("vision", 2), project("web", 6)
    failed = job(of, web, 4)
    decide_again(by)
    assert state_and_reason(failed) == ("queued", "PolicyFailed")
    rows = quota_rows([web.id])
    assert rows is not None
    assert [row.standing.waiting for row in rows] == [0]
    assert len(placed(of, vision, 8, by)) == 8


@pytest.mark.parametrize("reason", sorted(PERMANENT))
def test_a_launched_job_with_a_permanent_reason_claims_nothing(reason: Reason) -> None:
    web = project("web", 6)
    job(known(), web, 4, state="queued", reason_code=reason.value)
    assert standings()[web.id].claimed == 0


def test_a_running_job_that_lacks_units_gets_none_beyond_the_quota() -> None:
    build("a")
    of, by, vision = known(), make_agent("agent-1"), project("vision", limit=4)
    first = job(of, vision, 3)
    decide_again(by)
    grows = job(of, factories.project("other"), 4, gang=False)
    decide_again(by)
    Project.objects.filter(name="other").update(max_units=1)
    end(first)
    decide_again(by)
    grows.refresh_from_db()
    assert (grows.units, grows.units_missing) == (1, 3)
    Project.objects.filter(name="other").update(max_units=4)
    decide_again(by)
    grows.refresh_from_db()
    assert (grows.units, grows.units_missing) == (4, 0)


def test_an_incremental_job_over_the_quota_starts_with_what_is_left_and_grows() -> None:
    build("a", "b")
    of, by, vision = known(), make_agent("agent-1"), project("vision", limit=3)
    wide = job(of, vision, 5, gang=False)
    decide_again(by)
    wide.refresh_from_db()
    assert (wide.state, wide.units, wide.units_missing) == ("starting", 3, 2)
    assert Decision.objects.filter(job=wide).values_list("units", "units_won").get() == (5, 3)
    Project.objects.filter(name="vision").update(max_units=4)
    decide_again(by)
    wide.refresh_from_db()
    assert (wide.units, wide.units_missing) == (4, 1)
    for decision in Decision.objects.filter(job=wide):
        assert replay(decision.pk).verdict == ReplayVerdict.IDENTICAL
