"""Rows of a table that a statement reads."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.db import connection


def analyze() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE workloads_job")


def rows_read(sql: str, parameters: Any = None, *, table: str = "workloads_job") -> float:
    """Execute a statement and return the number of rows of a table that its scans read."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", parameters)
        ((answer,),) = cursor.fetchall()
    return sum(_rows_of_scans(answer[0]["Plan"], table))


def _rows_of_scans(plan: Mapping[str, Any], table: str) -> Iterator[float]:
    if plan.get("Relation Name") == table and "Scan" in plan["Node Type"]:
        rows = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        yield rows * plan["Actual Loops"]
    for part in plan.get("Plans", ()):
        yield from _rows_of_scans(part, table)
