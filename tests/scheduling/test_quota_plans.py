"""An agent reads few waiting jobs for quotas, however many wait."""

from uuid import UUID, uuid4

import pytest

from apps.accounts.models import Project
from apps.scheduling.selectors.quotas import (
    _GANGS,
    _STANDINGS,
    MAX_NEEDS,
    standings,
)
from apps.workloads.models import Job, WaitingShape
from tests import factories
from tests.scheduling.plans import analyze, rows_read
from tests.scheduling.shapes import flood
from tests.scheduling.world import known

pytestmark = pytest.mark.django_db

WAITING, GUARANTEED = 2_000, 8


def queue(guaranteed: int | None, *, limit: int | None = None) -> None:
    """Let many jobs of a project wait that no agent has evaluated."""
    factories.cluster()
    project = factories.project("web")
    project.guaranteed_units, project.max_units = guaranteed, limit
    project.save()
    flood(known(), WAITING, project=project, units_requested=1)
    analyze()


def shape(key: UUID, project: Project, reason: str, *, units: int = 1) -> WaitingShape:
    """Return a shape that is not stored yet."""
    return WaitingShape(
        key=key,
        project=project,
        priority=0,
        reason_code=reason,
        evaluated_seq=0,
        queued_at=factories.MOMENT,
        due_at=factories.MOMENT,
        waits_for="units",
        units=units,
        min_units=units,
        on_one_server=False,
        labels={},
        unit_memory_bytes=0,
        unit_network_bps=0,
        unit_storage_bytes=0,
    )


def join_shape(reason: str = "NoFreeUnit") -> None:
    """Let all waiting jobs join one shape."""
    job = Job.objects.all()[0]
    joined = shape(job.shape_key, job.project, reason)
    joined.save()
    Job.objects.update(state="queued", shape=joined, reason_code=reason)
    analyze()


def waiting_read() -> float:
    """Return how many waiting jobs an agent reads.

    Running jobs are left out: a hash join reads one job before it finds that none is running, and
    statistics of allocations that other tests left behind decide whether it is a hash join.
    """
    return rows_read(_STANDINGS, {"decided": "{}"}, alias="j")


def claimed() -> int:
    return sum(each.claimed for each in standings().values())


def test_few_jobs_are_read_of_those_that_no_agent_has_evaluated() -> None:
    queue(GUARANTEED)
    assert waiting_read() <= 2 * GUARANTEED
    assert claimed() == GUARANTEED


def test_few_jobs_are_read_of_a_shape() -> None:
    queue(GUARANTEED)
    join_shape()
    assert waiting_read() <= 2 * GUARANTEED
    assert claimed() == GUARANTEED


def test_few_jobs_are_read_for_the_servers_that_they_can_use() -> None:
    queue(GUARANTEED)
    assert 0 < rows_read(_STANDINGS, {"decided": "{}"}, alias="n") <= MAX_NEEDS + 1


def test_no_job_is_read_of_a_project_without_a_guarantee() -> None:
    queue(None, limit=4)
    assert waiting_read() == 0
    assert rows_read(_STANDINGS, {"decided": "{}"}, alias="n") == 0


def test_no_job_is_read_of_a_shape_that_no_server_matches() -> None:
    queue(GUARANTEED)
    join_shape("NoMatchingServer")
    assert waiting_read() == 0
    assert claimed() == 0


def test_of_all_shapes_only_gangs_that_the_quota_refuses_are_read() -> None:
    project = factories.project("web")
    reasons = ["NotEnoughFreeUnits"] * WAITING + ["QuotaExceeded"]
    WaitingShape.objects.bulk_create(
        shape(uuid4(), project, reason, units=4) for reason in reasons
    )
    assert rows_read(_GANGS, [0.0], table="workloads_waitingshape") == 1
