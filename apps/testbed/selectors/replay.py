"""Counts and consistency findings of a replay, read from the database."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection, transaction

from apps.testbed.selectors.checks import CHECKS, ConsistencyCheck
from apps.workloads.core.lifecycle import TERMINAL_STATES

SHOWN: Final = 5  # violations named for each check


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one consistency check.

    Attributes
    ----------
    violations : number of violations
    examples : the first ones, as sentences
    """

    check: str
    violations: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReplayCounts:
    """Jobs of one replay in the database.

    Attributes
    ----------
    by_state : rows by state, trace jobs and services together
    trace_by_state : rows of the trace by state
    events : jobs with a "submitted" event, to compare with the rows
    ended_events : jobs with a final event
    """

    by_state: Mapping[str, int]
    trace_by_state: Mapping[str, int]
    events: int
    ended_events: int

    @property
    def rows(self) -> int:
        """Jobs in the table."""
        return sum(self.by_state.values())

    @property
    def trace_rows(self) -> int:
        """Jobs of the trace in the table."""
        return sum(self.trace_by_state.values())

    @property
    def ended(self) -> int:
        """Jobs that reached a terminal state."""
        return sum(self.by_state.get(state.value, 0) for state in TERMINAL_STATES)

    @property
    def trace_ended(self) -> int:
        """Jobs of the trace that reached a terminal state."""
        return sum(self.trace_by_state.get(state.value, 0) for state in TERMINAL_STATES)


@contextmanager
def one_snapshot() -> Iterator[None]:
    """Run all reads inside on one snapshot of the database."""
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if is_outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield


def check_findings(
    *, grace_s: float, checks: Sequence[ConsistencyCheck] = CHECKS
) -> list[Finding]:
    """Run every check; ``grace_s`` is how long an expired lease may wait for the sweep."""
    with connection.cursor() as cursor:
        return [_finding(cursor, check, grace_s) for check in checks]


def _finding(cursor: Any, check: ConsistencyCheck, grace_s: float) -> Finding:
    # The driver would read a lone % of the SQL as a parameter, so it always gets parameters.
    cursor.execute(check.sql, {"grace_s": grace_s})
    rows = cursor.fetchall()
    return Finding(check.name, len(rows), tuple(str(row[0]) for row in rows[:SHOWN]))


def replay_counts(replay: str) -> ReplayCounts:
    """Count the jobs of a replay by its identity."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT state, annotations ? 'trace_index', count(*) FROM workloads_job"
            " WHERE annotations->>'replay' = %s GROUP BY 1, 2",
            [replay],
        )
        rows = cursor.fetchall()
        cursor.execute(
            "SELECT count(DISTINCT e.subject) FILTER (WHERE e.kind = 'job.submitted'),"
            " count(DISTINCT e.subject) FILTER (WHERE e.kind <> 'job.submitted')"
            " FROM operations_event e JOIN workloads_job j ON j.id::text = e.subject"
            " WHERE j.annotations->>'replay' = %s AND e.kind IN"
            " ('job.submitted', 'job.succeeded', 'job.failed', 'job.cancelled')",
            [replay],
        )
        events, ended_events = cursor.fetchone()
    return ReplayCounts(
        by_state=_by_state(rows),
        trace_by_state=_by_state([row for row in rows if row[1]]),
        events=events,
        ended_events=ended_events,
    )


def _by_state(rows: Sequence[tuple[str, bool, int]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for state, _, number in rows:
        counts[state] = counts.get(state, 0) + number
    return counts


def allocation_counts() -> tuple[int, int]:
    """Return the numbers of all and of released allocations."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*), count(released_seq) FROM scheduling_allocation")
        made, released = cursor.fetchone()
    return int(made), int(released)
