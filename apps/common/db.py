"""Numbers that readers may trust, and quick bulk writes."""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any

from django.db import connection


class Log(IntEnum):
    """Logs whose entries are numbered in commit order; the value is the advisory lock's key."""

    CHANGES = 7101


def lock_sequence(log: Log, count: int) -> range:
    """Allot the next ``count`` numbers of a log, in commit order.

    A number taken from a plain serial becomes visible out of order, so a reader of ``> last``
    would lose entries. The lock is held until the transaction ends: call this after every row the
    transaction locks, as its last step but inserting the entries.
    """
    sequence = f"common_{log.name.lower()}_seq"
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [int(log)])
        cursor.execute(
            "SELECT min(n), max(n) FROM"
            " (SELECT nextval(%s::regclass) AS n FROM generate_series(1, %s)) s",
            [sequence, count],
        )
        first, last = cursor.fetchone()
    return range(first, last + 1)


def copy_rows(table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Append rows with COPY: some ten times the speed of INSERT, for hundreds of rows and more."""
    names = ", ".join(f'"{column}"' for column in columns)
    with (
        connection.cursor() as cursor,
        cursor.copy(f'COPY "{table}" ({names}) FROM STDIN') as copy,
    ):
        for row in rows:
            copy.write_row(row)
