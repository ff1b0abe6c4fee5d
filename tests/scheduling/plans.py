"""Rows of a table that a statement reads."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.db import connection


def analyze() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE workloads_job")


def rows_read(
    sql: str, parameters: Any = None, *, table: str = "workloads_job", alias: str | None = None
) -> float:
    """Execute a statement and return the number of rows of a table that its scans read.

    Parameters
    ----------
    alias : count only the scans of the table under this name; None = all
    """
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", parameters)
        ((answer,),) = cursor.fetchall()
    return sum(_rows_of_scans(answer[0]["Plan"], table, alias))


def _rows_of_scans(plan: Mapping[str, Any], table: str, alias: str | None) -> Iterator[float]:
    counts = plan.get("Relation Name") == table and alias in {None, plan.get("Alias")}
    if counts and "Scan" in plan["Node Type"]:
        rows = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        yield rows * plan["Actual Loops"]
    for part in plan.get("Plans", ()):
        yield from _rows_of_scans(part, table, alias)
