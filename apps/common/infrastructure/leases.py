"""Leases after the wall clock of the database was set back."""

from typing import Final

from apps.common.infrastructure.database import fetch_rows

LONGEST_S: Final = 60.0  # wall seconds; longer than any lease


def shift_leases(table: str, column: str, back_s: float) -> None:
    """Move the times of a column that lie further ahead than a lease may.

    They were stored before the clock was set back. Else nobody would take over what a dead
    process has leased, until the clock has caught up. Scans the table.

    Parameters
    ----------
    table, column : constants of the caller
    back_s : wall seconds by which the clock was set back
    """
    fetch_rows(
        f"""UPDATE {table} SET {column} = {column} - make_interval(secs => %s)
            WHERE id = ANY(ARRAY(
                SELECT id FROM {table}
                WHERE {column} > clock_timestamp() + make_interval(secs => %s)
                ORDER BY id FOR NO KEY UPDATE))
            RETURNING id""",  # noqa: S608 - constants
        [back_s, LONGEST_S],
    )
