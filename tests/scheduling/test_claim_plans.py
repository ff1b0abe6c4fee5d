"""A claim reads few rows, however many jobs wait and whatever statistics the planner has."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from apps.common.infrastructure.database import database_now
from apps.workloads.models import Job
from apps.workloads.services.turns import NO_SHARES, shares_as_values
from apps.workloads.services.waiting import _CLAIM, FIRST_FLOW
from tests import factories
from tests.scheduling.shapes import flood
from tests.scheduling.world import known

pytestmark = pytest.mark.django_db
HISTORY, WAITING, LIMIT = 5_000, 2_000, 20


def analyze() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE workloads_job")


def rows_read(plan: Mapping[str, Any]) -> Iterator[float]:
    """Yield the rows that each scan of jobs in a plan reads."""
    if plan.get("Relation Name") == "workloads_job" and "Scan" in plan["Node Type"]:
        rows = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        yield rows * plan["Actual Loops"]
    for part in plan.get("Plans", ()):
        yield from rows_read(part)


def read_by_claim() -> float:
    """Claim jobs and return the number of rows of jobs that the statement reads."""
    now = database_now()
    values: dict[str, Any] = {
        "agent": "agent-1",
        "now": now,
        "until": now + timedelta(seconds=10.0),
    }
    values |= {"limit": LIMIT, "start": FIRST_FLOW, **shares_as_values(NO_SHARES)}
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {_CLAIM}", values)
        ((answer,),) = cursor.fetchall()
    assert Job.objects.filter(claimed_by="agent-1").count() == LIMIT
    return sum(rows_read(answer[0]["Plan"]))


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
