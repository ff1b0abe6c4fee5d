"""A claim reads few rows, however many jobs wait and whatever statistics the planner has."""

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from apps.common.infrastructure.database import (
    _OFF_FOR_CLAIMS,
    begin_claim,
    database_now,
    fetch_rows,
)
from apps.workloads.models import Job
from apps.workloads.selectors import _PENDING
from apps.workloads.services.turns import NO_SHARES, shares_as_values
from apps.workloads.services.waiting import _CLAIM, FIRST_FLOW, claim_waiting
from tests import factories
from tests.scheduling.plans import analyze, rows_read
from tests.scheduling.shapes import flood
from tests.scheduling.world import known

pytestmark = pytest.mark.django_db
HISTORY, WAITING, CLAIMED, LIMIT = 5_000, 2_000, 500, 20


def read_by_claim() -> float:
    """Claim jobs and return the number of rows of jobs that the statement reads."""
    now = begin_claim()
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


# rows and pages of the table when its statistics were made; -1: never
STATISTICS = [(-1, 0), (1, 100), (10, 3_000), (5_000, 500)]


@pytest.mark.parametrize(("rows", "pages"), STATISTICS)
def test_a_claim_passes_the_claimed_jobs_of_a_flow_once_for_each_order(
    rows: int, pages: int
) -> None:
    factories.cluster()
    jobs = flood(known(), WAITING, created_by=factories.user("me"))
    claimed = [job.id for job in jobs[:CLAIMED]]
    later = database_now() + timedelta(hours=1)
    Job.objects.filter(id__in=claimed).update(claimed_by="agent-2", claimed_until=later)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE pg_class SET reltuples = %s, relpages = %s"
            " WHERE oid = 'workloads_job'::regclass",
            [rows, pages],
        )
    assert read_by_claim() < 3 * CLAIMED + 15 * LIMIT


def access_paths(plan: Mapping[str, Any]) -> Iterator[str]:
    """Yield how a plan reads all jobs, or jobs by their ids."""
    index = plan.get("Index Name", plan["Node Type"])
    if plan["Node Type"] == "Seq Scan" and plan["Relation Name"] == "workloads_job":
        yield "Seq Scan"
    elif plan.get("Index Cond", "").startswith("(id = "):
        yield index
    for part in plan.get("Plans", ()):
        yield from access_paths(part)


def test_a_claim_that_was_prepared_when_no_job_existed_finds_jobs_by_their_ids() -> None:
    factories.cluster()
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE workloads_job CASCADE")  # whose rolled back rows have pages
        # what autovacuum knows of the rows of other tests
        cursor.execute("DELETE FROM pg_statistic WHERE starelid = 'workloads_job'::regclass")
    for _ in range(8):  # PostgreSQL may plan five times before it keeps a plan
        assert claim_waiting(agent="agent-1", limit=LIMIT) == []
    ((name, kinds, kept),) = fetch_rows(
        "SELECT name, parameter_types::text[], generic_plans FROM pg_prepared_statements"
        " WHERE statement LIKE '%SET claimed_by%' ORDER BY prepare_time DESC LIMIT 1"
    )
    assert kept > 0
    values = ", ".join(f"NULL::{kind}" for kind in kinds)
    ((answer,),) = fetch_rows(f"EXPLAIN (FORMAT JSON) EXECUTE {name}({values})")
    (plan,) = json.loads(answer) if isinstance(answer, str) else answer
    assert set(access_paths(plan["Plan"])) == {"workloads_job_pkey"}


@pytest.mark.django_db(transaction=True)
def test_the_settings_of_a_claim_end_with_its_transaction() -> None:
    changed = "SELECT name FROM pg_settings WHERE setting = 'off' AND source = 'session'"
    before = database_now()
    with transaction.atomic():
        assert before <= begin_claim() <= database_now()
        assert {name for (name,) in fetch_rows(changed)} == set(_OFF_FOR_CLAIMS)
    assert fetch_rows(changed) == []
