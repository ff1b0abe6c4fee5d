"""A claim reads few rows, however many jobs wait and whatever statistics the planner has."""

from datetime import timedelta
from typing import Any

import pytest

from apps.common.infrastructure.database import database_now
from apps.workloads.models import Job
from apps.workloads.selectors import _PENDING
from apps.workloads.services.turns import NO_SHARES, shares_as_values
from apps.workloads.services.waiting import _CLAIM, FIRST_FLOW
from tests import factories
from tests.scheduling.plans import analyze, rows_read
from tests.scheduling.shapes import flood
from tests.scheduling.world import known

pytestmark = pytest.mark.django_db
HISTORY, WAITING, LIMIT = 5_000, 2_000, 20


def read_by_claim() -> float:
    """Claim jobs and return the number of rows of jobs that the statement reads."""
    now = database_now()
    values: dict[str, Any] = {
        "agent": "agent-1",
        "now": now,
        "until": now + timedelta(seconds=10.0),
    }
    values |= {"limit": LIMIT, "start": FIRST_FLOW, **shares_as_values(NO_SHARES)}
    rows = rows_read(_CLAIM, values)
    assert Job.objects.filter(claimed_by="agent-1").count() == LIMIT
    return rows


def test_a_claim_reads_few_rows_if_no_job_waited_when_the_table_was_analysed() -> None:
    factories.cluster()
    application, user = known(), factories.user("me")
    flood(application, HISTORY, created_by=user)
    Job.objects.update(state="succeeded", finished_s=3600.0, finished_at=factories.MOMENT)
    analyze()
    flood(application, WAITING, created_by=user)
    assert read_by_claim() < 15 * LIMIT


def test_a_claim_reads_few_rows_if_all_jobs_waited_when_the_table_was_analysed() -> None:
    factories.cluster()
    flood(known(), WAITING, created_by=factories.user("me"))
    analyze()
    assert read_by_claim() < 15 * LIMIT


def test_a_look_for_work_reads_no_job_if_none_waits() -> None:
    factories.cluster()
    flood(known(), HISTORY, created_by=factories.user("me"))
    Job.objects.update(state="succeeded", finished_s=3600.0, finished_at=factories.MOMENT)
    analyze()
    assert rows_read(_PENDING) == 0
