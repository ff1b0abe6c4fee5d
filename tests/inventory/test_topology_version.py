"""The version of the servers, which backends and pages poll."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.inventory.models import Change, ChangeKind
from apps.inventory.selectors import topology_version
from tests import factories

pytestmark = pytest.mark.django_db
CLAIMS = 5_000


def scans(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the scans of the change log in a plan."""
    if plan.get("Relation Name") == "inventory_change":
        yield plan
    for part in plan.get("Plans", ()):
        yield from scans(part)


def append(kind: ChangeKind, *, first: int, count: int = 1) -> None:
    Change.objects.bulk_create(
        Change(seq=seq, kind=kind, at=factories.MOMENT, cluster_s=0.0, server_id=1)
        for seq in range(first, first + count)
    )


def test_the_version_reads_no_claims_that_follow_it() -> None:
    append(ChangeKind.TOPOLOGY, first=7)
    append(ChangeKind.CLAIM, first=8, count=CLAIMS)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE inventory_change")
    with CaptureQueriesContext(connection) as captured:
        assert topology_version() == 7
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {captured.captured_queries[-1]['sql']}")
        ((answer,),) = cursor.fetchall()
    answer = json.loads(answer) if isinstance(answer, str) else answer
    (scan,) = scans(answer[0]["Plan"])
    assert scan["Actual Rows"] + scan.get("Rows Removed by Filter", 0) == 1
