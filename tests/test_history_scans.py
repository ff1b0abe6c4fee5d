"""No page, figure or list reads a table of history from end to end.

Every read that the URL configuration has is requested on a database of reference data, and
PostgreSQL explains each statement that it executes. A new route is covered by itself; one with an
unknown parameter fails until `benchmarks._reads` has a sample for it.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from django.apps import apps
from django.core.cache import cache
from django.core.management import call_command
from django.db import connection
from django.test import Client
from pytest_django import Settings

from apps.accounts.core.roles import Role
from apps.accounts.models import Membership, Project
from apps.workloads.models import Job
from benchmarks._reads import reads
from tests import factories

pytestmark = pytest.mark.django_db
JOBS = 20_000
# tables with a row for each job, report, request or change
GROWING = frozenset(
    {
        "workloads_job",
        "workloads_batch",
        "workloads_searchterms",
        "scheduling_decision",
        "scheduling_allocation",
        "execution_launch",
        "execution_migration",
        "execution_jobsample",
        "classification_predictionerror",
        "operations_event",
        "operations_operation",
        "operations_idempotencykey",
        "inventory_change",
    }
)
# indexes of the few rows that are waiting, running, held, ...
PARTIAL = frozenset(
    index.name
    for model in apps.get_models()
    for index in model._meta.indexes
    if index.condition is not None
)
# nodes that read all their input before they return a row
BLOCKING = frozenset({"Aggregate", "Hash", "Materialize", "Sort", "WindowAgg"})


def scans(plan: Mapping[str, Any], *, is_limited: bool = False) -> Iterator[str]:
    """Yield the scans of a plan that read a growing table from end to end."""
    kind = plan["Node Type"]
    is_whole = kind == "Seq Scan" or (
        kind in {"Index Scan", "Index Only Scan"}
        and "Index Cond" not in plan
        and not is_limited
        and plan["Index Name"] not in PARTIAL
    )
    if is_whole and plan["Relation Name"] in GROWING:
        yield f"{kind} of {plan['Relation Name']}"
    is_limited = kind == "Limit" or (is_limited and kind not in BLOCKING)
    for part in plan.get("Plans", ()):
        yield from scans(part, is_limited=is_limited)


def explained(sql: str, parameters: Any) -> list[str]:
    """Return the end-to-end scans of a statement."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", parameters)
        (answer,) = cursor.fetchone()
    plans = json.loads(answer) if isinstance(answer, str) else answer
    return list(scans(plans[0]["Plan"]))


@contextmanager
def explaining(found: dict[str, list[str]]) -> Iterator[None]:
    """Explain each query of the block and collect those with end-to-end scans by their text."""

    def explain(execute: Any, sql: str, parameters: Any, many: Any, context: Any) -> Any:
        if sql.lstrip().startswith(("SELECT", "WITH")) and sql not in found:
            found[sql] = []  # the wrapper sees the EXPLAIN too
            found[sql] = explained(sql, parameters)
        return execute(sql, parameters, many, context)

    with connection.execute_wrapper(explain):
        yield


def test_a_scan_of_history_is_recognised() -> None:
    factories.job()
    assert explained("SELECT name FROM workloads_job", None) == ["Seq Scan of workloads_job"]
    with connection.cursor() as cursor:
        # few rows are also read from a smaller index and sorted, if others left this one large
        for way in ("seqscan", "bitmapscan", "sort"):
            cursor.execute(f"SET LOCAL enable_{way} = off")
    newest = "SELECT id FROM workloads_job ORDER BY created_at DESC, id DESC"
    assert explained(newest, None)
    assert not explained(f"{newest} LIMIT 50", None)


def test_no_read_scans_history(settings: Settings) -> None:
    settings.BERTH_RATES = {}
    call_command("seed_demo", servers=60, verbosity=0)
    call_command("load_reference", jobs=JOBS, verbosity=0)
    member = factories.user("member", role=Role.VIEWER)
    Membership.objects.create(user=member, project=Project.objects.get(name="reference-1"))
    whole: dict[str, set[str]] = {}
    requested = 0
    for user in (factories.user("operator"), member):
        client = Client()
        client.force_login(user)
        for read in reads():
            if "count=exact" in read.address:
                continue  # counts for 0.2 s, then estimates
            cache.clear()
            found: dict[str, list[str]] = {}
            with explaining(found):
                response = client.get(read.address)
            assert response.status_code < 500, read
            requested += 1
            for sql, tables in found.items():
                if tables:
                    whole.setdefault(f"{tables}: {sql}", set()).add(read.name)
    assert requested > 2 * 300
    assert Job.objects.count() == JOBS
    assert not whole, "\n\n".join(f"{sorted(names)[:4]}\n{sql}" for sql, names in whole.items())
