"""Shares of projects are stored, and agents decide in their order."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.core.roles import Role
from apps.accounts.models import Membership, Project, ProjectShare
from apps.common.core.errors import ConflictError
from apps.inventory.models import Cluster
from apps.scheduling.core.sharing.fair_share import NOTHING, interval_weight
from apps.scheduling.models import Allocation, Reservation
from apps.scheduling.selectors.fair_share import dominant_shares, share_rows, uses
from apps.scheduling.selectors.queue import waiting_queue
from apps.scheduling.services import release
from apps.scheduling.services.agent import make_agent
from apps.scheduling.services.fair_share import update_shares
from apps.workloads import services as workloads
from apps.workloads.models import Application, Job, WaitingShape
from tests import factories
from tests.scheduling.shapes import not_due
from tests.scheduling.world import build, decide_again, known, state_and_reason, waiting

pytestmark = pytest.mark.django_db

NOW_S = 3000.0
HALF_LIFE_S = 600.0


@pytest.fixture(autouse=True)
def clock(db: None, settings: Any) -> None:
    factories.cluster(seen_cluster_s=NOW_S)
    settings.FAIR_SHARE_HALF_LIFE_S = HALF_LIFE_S


def at(cluster_s: float) -> None:
    Cluster.objects.update(seen_cluster_s=cluster_s)


def job(of: Application, owner: Project, units: int = 1, **values: Any) -> Job:
    fields = {"target": {"kind": "best_effort"}, "target_kind": "best_effort", "gang": True}
    size = {"units_requested": units, "input_bytes": 10**10, "submitted_s": NOW_S}
    return waiting(of, project=owner, **{**fields, **size, **values})


def placed(of: Application, owner: Project, count: int, **values: Any) -> list[Job]:
    """Jobs of one unit that an agent places alone."""
    jobs = [job(of, owner, **values) for _ in range(count)]
    decide_again(make_agent("agent-0"))
    assert all(state_and_reason(one)[0] == "starting" for one in jobs)
    return jobs


def end(*jobs: Job) -> None:
    ended = {"state": "succeeded", "finished_at": timezone.now(), "finished_s": NOW_S}
    Job.objects.filter(id__in=[one.id for one in jobs]).update(**ended)
    release([one.id for one in jobs])


def started(*jobs: Job) -> list[bool]:
    return [state_and_reason(one)[0] == "starting" for one in jobs]


def share(owner: Project) -> float:
    return ProjectShare.objects.get(project=owner).dominant


def test_a_share_rises_while_units_are_held_and_halves_in_each_half_life() -> None:
    """Vision holds 2 of 8 units for one half-life: half of 1/4. Then it holds nothing."""
    build("a", "b")
    of, vision = known(), factories.project("vision")
    jobs = placed(of, vision, 2)
    assert update_shares() == 1
    assert share(vision) == 0.0
    at(NOW_S + HALF_LIFE_S)
    update_shares()
    assert share(vision) == pytest.approx(1 / 8)
    end(*jobs)
    for half_lives, expected in [(1, 1 / 8), (2, 1 / 16), (4, 1 / 64)]:
        at(NOW_S + half_lives * HALF_LIFE_S)
        update_shares()
        assert share(vision) == pytest.approx(expected)


def test_the_largest_share_is_of_memory_if_jobs_request_more_than_an_equal_share() -> None:
    """One of 8 units, with 8 of the 32 GB of the two servers."""
    build("a", "b")
    vision = factories.project("vision")
    placed(known(), vision, 1, unit_memory_bytes=8 * 10**9)
    at(NOW_S + HALF_LIFE_S)
    update_shares()
    row = ProjectShare.objects.get(project=vision)
    assert row.resource == "memory"
    assert row.dominant == pytest.approx(1 / 8)
    assert row.shares[0] == pytest.approx(1 / 16)


def test_stored_shares_are_those_of_all_allocations_at_once(settings: Any) -> None:
    """The database and the formula agree, however often the shares are stored meanwhile."""
    build("a", "b")
    of, rng = known(), np.random.default_rng(5)
    owners = [factories.project(name) for name in ("vision", "web")]
    running: list[Job] = []
    for turn in range(6):
        at(NOW_S + 250.0 * turn)
        running += placed(of, owners[int(rng.integers(2))], int(rng.integers(9 - len(running))))
        if turn % 2:
            update_shares()
        ended = [one for one in running if rng.random() < 0.5]
        end(*ended)
        running = [one for one in running if one not in ended]
    update_shares()
    now_s = NOW_S + 1250.0
    for owner in owners:
        expected = sum(
            row.cores
            / 8
            * interval_weight(
                row.acquired_s,
                now_s if row.released_s is None else row.released_s,
                now_s=now_s,
                half_life_s=HALF_LIFE_S,
            )
            for row in Allocation.objects.filter(job__project=owner)
        )
        assert ProjectShare.objects.get(project=owner).shares[0] == pytest.approx(expected)
    before = {row.project_id: row.dominant for row in ProjectShare.objects.all()}
    ProjectShare.objects.update(half_life_s=1.0)
    update_shares()
    again = {row.project_id: row.dominant for row in ProjectShare.objects.all()}
    assert again == pytest.approx(before), "read again from the change log"


def test_use_of_very_long_ago_counts_nothing() -> None:
    build("a")
    vision = factories.project("vision")
    end(*placed(known(), vision, 1))
    found = uses(after=0, until=10**9, now_s=1e12, half_life_s=1.0)
    assert found.settled[vision.id] == pytest.approx(NOTHING)


def test_without_fair_share_nothing_is_stored_and_jobs_start_by_age(
    settings: Any,
) -> None:
    build("a", cores=1)
    of, vision, web = known(), factories.project("vision"), factories.project("web")
    update_shares()
    settings.FAIR_SHARE_HALF_LIFE_S = 0.0
    assert update_shares() == 0
    assert (ProjectShare.objects.count(), dominant_shares(), share_rows(None)) == (0, {}, None)
    heavy, light = job(of, vision), job(of, web)
    decide_again(make_agent("agent-1"))
    assert started(heavy, light) == [True, False]


def used(owner: Project, value: float) -> None:
    """Store shares as if a project had used them."""
    update_shares()
    ProjectShare.objects.filter(project=owner).update(
        settled=[value] * 4, shares=[value] * 4, dominant=value
    )


def test_the_younger_job_of_the_project_with_the_smaller_share_starts_first() -> None:
    build("a", cores=1)
    of, vision, web = known(), factories.project("vision"), factories.project("web")
    used(vision, 0.5)
    heavy, light = job(of, vision), job(of, web)
    decide_again(make_agent("agent-1"))
    assert started(heavy, light) == [False, True]


def test_a_higher_priority_starts_before_a_smaller_share() -> None:
    build("a", cores=1)
    of, vision, web = known(), factories.project("vision"), factories.project("web")
    used(vision, 0.5)
    heavy, light = job(of, vision, priority=5), job(of, web)
    decide_again(make_agent("agent-1"))
    assert started(heavy, light) == [True, False]


def test_freed_units_go_to_the_waiting_jobs_of_the_smaller_share() -> None:
    """All four units are freed at once: one turn starts all four jobs of web, none of vision."""
    build("a")
    of, vision, web = known(), factories.project("vision"), factories.project("web")
    by = make_agent("agent-1")
    running = placed(of, vision, 4)
    heavy = [job(of, vision) for _ in range(4)]
    light = [job(of, web) for _ in range(4)]
    decide_again(by)
    assert not any(started(*heavy, *light))
    used(vision, 0.5)
    not_due()
    end(*running)
    by.work(for_s=60.0)
    assert started(*light) == [True] * 4
    assert started(*heavy) == [False] * 4


def test_units_that_the_smaller_share_cannot_use_go_to_the_others() -> None:
    build("a")
    of, vision, web = known(), factories.project("vision"), factories.project("web")
    used(vision, 0.5)
    wide, heavy = job(of, web, 8), job(of, vision)
    decide_again(make_agent("agent-1"))
    assert started(wide, heavy) == [False, True]


def test_equal_shares_take_turns() -> None:
    build("a")
    of, vision, web = known(), factories.project("vision"), factories.project("web")
    update_shares()
    first = [job(of, vision) for _ in range(4)]
    second = [job(of, web) for _ in range(4)]
    decide_again(make_agent("agent-1"))
    assert (sum(started(*first)), sum(started(*second))) == (2, 2)


def test_a_quota_limits_the_project_with_the_smallest_share() -> None:
    build("a")
    of, vision, web = known(), factories.project("vision"), factories.project("web")
    Project.objects.filter(name="web").update(max_units=1)
    used(vision, 0.5)
    light = [job(of, web) for _ in range(3)]
    heavy = [job(of, vision) for _ in range(3)]
    decide_again(make_agent("agent-1"))
    assert sum(started(*light)) == 1
    assert sum(started(*heavy)) == 3


def test_a_gang_of_the_largest_share_starts_within_its_bound(settings: Any) -> None:
    """Web submits a job whenever a unit is freed; the gang of vision gets a reservation."""
    settings.RESERVE_AFTER_S = 100.0
    build("a")
    of, vision, web = known(), factories.project("vision"), factories.project("web")
    used(vision, 0.9)
    by = make_agent("agent-1")
    running = placed(of, web, 4)
    gang = job(of, vision, 4)
    decide_again(by)
    assert not Reservation.objects.exists()
    at(NOW_S + 110.0)
    decide_again(by)
    assert Reservation.objects.get().job_id == gang.id
    late = []
    for one in running:
        assert started(gang) == [False]
        end(one)
        late.append(job(of, web))
        decide_again(by)
    assert started(gang) == [True]
    assert not any(started(*late))


def test_claims_and_shapes_come_in_the_order_of_shares() -> None:
    of = known()
    owners = [factories.project(name) for name in ("vision", "web", "speech")]
    jobs = [job(of, owner) for owner in owners]
    shares = dict(zip([owner.id for owner in owners], [0.5, 0.3, 0.1], strict=True))
    assert workloads.claim_waiting(agent="agent-1", limit=1) == [jobs[0].id]
    assert workloads.claim_waiting(agent="agent-1", limit=1, shares=shares) == [jobs[2].id]
    assert workloads.claim_waiting(agent="agent-1", limit=1, shares=shares) == [jobs[1].id]


def test_start_estimates_count_on_the_order_of_shares() -> None:
    build("a", cores=1)
    of, vision, web = known(), factories.project("vision"), factories.project("web")
    placed(of, vision, 1)
    heavy, light = job(of, vision), job(of, web)
    decide_again(make_agent("agent-1"))
    later = timezone.now() + timedelta(hours=1)
    WaitingShape.objects.filter(jobs=light).update(queued_at=later)
    assert [shape.jobs for shape in waiting_queue(NOW_S)] == [[heavy.id], [light.id]]
    used(vision, 0.5)
    assert [shape.jobs for shape in waiting_queue(NOW_S)] == [[light.id], [heavy.id]]


def test_positions_leave_archived_projects_at_the_end() -> None:
    build("a")
    vision, old = factories.project("vision"), factories.project("old")
    used(vision, 0.5)
    Project.objects.filter(pk=old.pk).update(archived_at=timezone.now())
    update_shares()
    rows = {row.project_id: row.position for row in share_rows(None) or []}
    assert rows[vision.id] < rows[old.id]


def test_a_project_shows_its_share_and_position(client: Client, settings: Any) -> None:
    build("a")
    vision, web = factories.project("vision"), factories.project("web")
    used(vision, 0.25)
    reader = factories.user(role=Role.VIEWER)
    Membership.objects.create(user=reader, project=vision, role=Role.VIEWER.value)
    client.force_login(reader)
    row = client.get("/api/v1/projects/vision/").json()["fair_share"]
    position = ProjectShare.objects.get(project=vision).position
    assert row == {
        "share": 0.25,
        "resource": "units",
        "position": position,
        "half_life_seconds": HALF_LIFE_S,
        "cluster_seconds": NOW_S,
    }
    (listed,) = client.get("/api/v1/projects/").json()["results"]
    assert listed["fair_share"] == row
    (shown,) = client.get("/api/v1/queues/").json()["shares"]
    parts = dict.fromkeys(("units", "memory", "network", "storage"), 0.25)
    assert shown == {**row, "project": "vision", "shares": parts}
    for address in ("/queues/", "/projects/vision/"):
        page = client.get(address).content.decode()
        assert "25.0 %" in page
        assert "half-life of usage: 10 min of cluster time" in page
        assert web.name not in page.split('id="queue-shares"')[-1]
    settings.FAIR_SHARE_HALF_LIFE_S = 0.0
    assert client.get("/api/v1/projects/vision/").json()["fair_share"] is None
    assert client.get("/api/v1/queues/").json()["shares"] is None
    assert "25.0 %" not in client.get("/queues/").content.decode()
    assert "25.0 %" not in client.get("/projects/vision/").content.decode()


def test_pages_say_that_shares_are_not_computed_yet(client: Client) -> None:
    client.force_login(factories.user(role=Role.ADMIN))
    factories.project("vision")
    assert "not computed yet" in client.get("/queues/").content.decode()
    assert client.get("/projects/vision/").status_code == 200
    assert client.get("/api/v1/projects/vision/").json()["fair_share"] is None


def test_reading_projects_costs_the_same_for_many(
    client: Client, django_assert_max_num_queries: Any
) -> None:
    client.force_login(factories.user(role=Role.ADMIN))
    for number in range(12):
        factories.project(f"project-{number}")
    update_shares()
    with django_assert_max_num_queries(8):
        assert len(client.get("/api/v1/projects/").json()["results"]) >= 12


def test_a_project_with_a_share_can_be_deleted(client: Client) -> None:
    client.force_login(factories.user(role=Role.ADMIN))
    factories.project("vision")
    update_shares()
    assert client.delete("/api/v1/projects/vision/").status_code == 204
    assert not ProjectShare.objects.filter(project__name="vision").exists()


def test_a_job_is_deleted_once_the_share_of_its_project_counts_it(settings: Any) -> None:
    build("a")
    owner = factories.project("owner")
    (used,) = placed(known(), owner, 1)
    update_shares()
    at(NOW_S + HALF_LIFE_S)
    end(used)
    with pytest.raises(ConflictError, match="does not count the job yet"):
        workloads.delete_job(used.id)
    update_shares()
    counted = dominant_shares()[owner.id]
    workloads.delete_job(used.id)
    update_shares()
    assert dominant_shares()[owner.id] == pytest.approx(counted)
    assert counted > 0.0
    settings.FAIR_SHARE_HALF_LIFE_S = 0.0
    (other,) = placed(known(), owner, 1)
    end(other)
    workloads.delete_job(other.id)
