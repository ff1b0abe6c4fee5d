"""Numbers of the change log and the event log: writers never wait for each other.

Numbers come from a sequence, so a transaction may commit a higher number before another commits a
lower one, and a reader of ``> last`` would lose the lower one. Before a writer draws numbers, it
publishes a lower bound of them: a shared advisory lock, held until its transaction ends, whose key
is the log and the last number drawn so far. Readers stop at the lowest bound of other sessions
(`complete_up_to`).

Numbers order the entries of one unit or job correctly if they are drawn after the rows are
locked: the next writer waits for the row and then draws a higher number. Transaction ids, which
are allotted before a writer waits for rows, would not.

A sequence must not cache numbers per session (CACHE 1, the default), and a dump holds its value.
"""

from enum import IntEnum
from typing import Final

from apps.common.infrastructure.database import fetch_prepared


class Log(IntEnum):
    """A numbered log; the value is the high part of its lock keys."""

    CHANGES = 7101
    EVENTS = 7102


SEQUENCES: Final = {Log.CHANGES: "common_changes_seq", Log.EVENTS: "operations_event_seq_seq"}
_KEY_BITS: Final = 48  # of a lock's key hold the bound: numbers up to 2.8e14

_DRAW: Final = """
WITH announced AS MATERIALIZED (SELECT {announcement})
SELECT nextval(%s::text::regclass) FROM announced, generate_series(1, %s::int)
"""
# pg_locks holds the high half of a key in `classid` and the low half in `objid`. A prepared
# transaction has no pid.
_LOWEST_BOUND: Final = """
SELECT min(((classid::bigint & 65535) << 32) | objid::bigint) FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 1 AND classid::bigint >> 16 = %s
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND pid IS DISTINCT FROM pg_backend_pid()
"""


def announcement(log: Log) -> str:
    """Return the SQL expression that publishes a lower bound of the numbers drawn after it.

    ``pg_sequence_last_value`` locks the sequence's page. A plain SELECT from the sequence may read
    the higher value that ``nextval`` stores there while it writes to the WAL.
    """
    return (
        f"pg_advisory_xact_lock_shared(({int(log)}::bigint << {_KEY_BITS})"
        f" | coalesce(pg_sequence_last_value('{SEQUENCES[log]}'::regclass), 0))"
    )


def draw_numbers(log: Log, count: int) -> list[int]:
    """Draw numbers of a log for entries of this transaction, ascending, with gaps.

    Call this after every row lock of the transaction: readers see no later entry of any
    transaction until this one ends.
    """
    rows = fetch_prepared(_DRAW.format(announcement=announcement(log)), [SEQUENCES[log], count])
    return [number for (number,) in rows]


def last_drawn(log: Log) -> int:
    """Return the last number drawn, whether its entry exists or not; 0 if none was drawn."""
    sql = "SELECT coalesce(pg_sequence_last_value(%s::regclass), 0)"
    ((number,),) = fetch_prepared(sql, [SEQUENCES[log]])
    return int(number)


def complete_up_to(log: Log, newest: int) -> int:
    """Return a number up to which no further entry can appear.

    The caller reads ``newest`` before and the entries after this call, in separate statements of
    a READ COMMITTED transaction or of none. Every number up to ``newest`` was announced before
    ``newest`` was visible, and the announcement ends after its entry is visible. Entries of the
    caller's own transaction count as complete. The result may be lower than that of an earlier
    call, whose numbers are complete nevertheless.

    Parameters
    ----------
    newest : highest number visible; 0 if the log is empty
    """
    ((bound,),) = fetch_prepared(_LOWEST_BOUND, [int(log)])
    return newest if bound is None else min(newest, int(bound))
