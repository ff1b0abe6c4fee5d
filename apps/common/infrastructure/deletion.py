"""Deletion of old rows in batches."""

from typing import Any, Final

from django.db import connection

BATCH: Final = 5_000  # rows of one batch, to keep transactions short


def delete_before(table: str, column: str, before: Any) -> int:
    """Delete one batch of a table, the smallest values of an indexed column first.

    Parameters
    ----------
    table, column : constants of the caller
    before : None = delete nothing
    """
    if before is None:
        return 0
    statement = (
        f"DELETE FROM {table} WHERE ctid = ANY(ARRAY("  # noqa: S608 - constants of this project
        f"SELECT ctid FROM {table} WHERE {column} < %s"
        f" ORDER BY {column} LIMIT %s FOR UPDATE SKIP LOCKED))"
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, [before, BATCH])
        return cursor.rowcount
