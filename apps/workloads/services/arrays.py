"""Job arrays: submission, the release of members within the limit, cancellation.

Members beyond the limit are held with the reason ``WaitingForArray``, so agents do not read them.
After the transaction that ends a member, the same process releases the next members in a second
transaction. That one locks the array before its jobs, so that two processes do not release the
same member. If a process dies between the two, a periodic task releases the members.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from apps.accounts.models import Project, User
from apps.common.core.preconditions import require_generation
from apps.common.infrastructure.database import fetch_rows, without_index
from apps.common.infrastructure.notifications import notify
from apps.operations.services import record_events
from apps.workloads.core.lifecycle import WAITING_STATES
from apps.workloads.core.reasons import Reason
from apps.workloads.models import OPEN_STATES, Batch, Job
from apps.workloads.services.rows import lock_jobs, row_event

# With this column, a RETURNING list names the array of each job; null if it is in none.
ARRAY_OF_JOB: Final = "CASE WHEN {job}array_index IS NOT NULL THEN {job}batch_id END"

_OPEN: Final = (
    "j.batch_id = b.id AND j.array_index IS NOT NULL"
    f" AND j.state IN ({', '.join(repr(state) for state in OPEN_STATES)})"
)
_WAITS: Final = f"{_OPEN} AND j.held AND j.reason_code = '{Reason.WAITING_FOR_ARRAY.value}'"
_HAS_WAITING: Final = f"EXISTS (SELECT FROM workloads_job j WHERE {_WAITS})"
_TAKEN: Final = f"(SELECT count(*) FROM workloads_job j WHERE {_OPEN} AND NOT j.held)"  # noqa: S608
_LOCK: Final = f"""
SELECT b.id FROM workloads_batch b WHERE b.id = ANY(%s) AND {_HAS_WAITING}
ORDER BY b.id FOR NO KEY UPDATE
"""  # noqa: S608 - constants
# the lowest indexes first; LIMIT NULL: all
_NEXT: Final = f"""
SELECT next.id FROM workloads_batch b, LATERAL (
    SELECT j.id FROM workloads_job j WHERE {_WAITS}
    ORDER BY j.array_index, j.id LIMIT greatest(0, b.array_limit - {_TAKEN})) next
WHERE b.id = ANY(%s) AND b.array_limit IS NOT NULL
UNION ALL
SELECT j.id FROM workloads_batch b JOIN workloads_job j ON {_WAITS}
WHERE b.id = ANY(%s) AND b.array_limit IS NULL
"""  # noqa: S608 - constants
_RELEASE: Final = f"""
UPDATE workloads_job SET held = false, reason_message = '',
       reason_code = CASE WHEN state = 'profiling' THEN %s ELSE %s END,
       updated_at = now(), generation = generation + 1
WHERE id = ANY(%s) AND {without_index("held AND reason_code = %s AND state = ANY(%s)")}
RETURNING id, name, project_id, state
"""  # noqa: S608 - a constant
# the last ones that wait for units, if more are open than the limit allows
_BEYOND: Final = f"""
SELECT last.id FROM workloads_batch b, LATERAL (
    SELECT j.id FROM workloads_job j
    WHERE {_OPEN} AND NOT j.held AND j.state = ANY(%s)
    ORDER BY j.array_index DESC, j.id LIMIT greatest(0, {_TAKEN} - b.array_limit)) last
WHERE b.id = %s AND b.array_limit IS NOT NULL
"""  # noqa: S608 - constants
_HOLD_BACK: Final = f"""
UPDATE workloads_job SET held = true, reason_code = %s, reason_message = '', reason_also = '[]',
       claimed_by = '', claimed_until = NULL, shape_id = NULL, updated_at = now(),
       generation = generation + 1
WHERE id = ANY(%s) AND {without_index("NOT held AND state = ANY(%s)")}
RETURNING id, name, project_id, state
"""  # noqa: S608 - a constant
_UNRELEASED: Final = f"""
SELECT b.id FROM workloads_batch b
WHERE b.mode = 'array' AND {_HAS_WAITING}
  AND (b.array_limit IS NULL OR {_TAKEN} < b.array_limit)
"""  # noqa: S608 - constants
_WAITING: Final = sorted(WAITING_STATES)


def release_members(array_ids: Iterable[UUID]) -> int:
    """Release members that wait for others of their arrays, as the limits allow; their number.

    Cost: one statement if none waits, otherwise five; they read the members within the limit.
    """
    with transaction.atomic():
        arrays = [row[0] for row in fetch_rows(_LOCK, [sorted(array_ids)])]
        return _release(arrays) if arrays else 0


def _release(arrays: Sequence[UUID]) -> int:
    """Release members of locked arrays. A statement of its own reads what was committed before."""
    jobs = [row[0] for row in fetch_rows(_NEXT, [arrays, arrays])]
    if not jobs:
        return 0
    lock_jobs(jobs)
    reasons = [Reason.WAITING_FOR_PROFILE, Reason.WAITING_FOR_AGENT]
    values = [*reasons, sorted(jobs), Reason.WAITING_FOR_ARRAY, _WAITING]
    rows = fetch_rows(_RELEASE, values)
    record_events([row_event("job.released", row) for row in rows])
    notify("scheduling.agent", queue="agents")
    return len(rows)


def release_after(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Release members after the commit that ends others; returns the event rows of the jobs.

    Parameters
    ----------
    rows : event rows of the jobs with `ARRAY_OF_JOB` as their last column
    """
    listed = list(rows)
    arrays = {row[-1] for row in listed} - {None}
    if arrays:
        # robust: the end of the job is committed, and the periodic task releases what failed
        transaction.on_commit(partial(release_members, arrays), robust=True)
    return [row[:-1] for row in listed]


def release_unreleased() -> int:
    """Release the members whose release was lost; their number. Cost: one read if none was."""
    arrays = [row[0] for row in fetch_rows(_UNRELEASED)]
    return release_members(arrays) if arrays else 0


def set_array_limit(array_id: UUID, limit: int | None, *, expected: int | None = None) -> None:
    """Change how many members of an array may wait for units or run at once.

    A lower limit holds the last members that wait for units; started members run on.

    Raises
    ------
    ChangedMeanwhileError : the generation of the array is no longer ``expected``.
    """
    with transaction.atomic():
        array = Batch.objects.select_for_update(of=("self",), no_key=True).get(pk=array_id)
        require_generation(expected, array.generation)
        Batch.objects.filter(pk=array_id).update(array_limit=limit)
        jobs = [row[0] for row in fetch_rows(_BEYOND, [_WAITING, array_id])]
        if not jobs:
            _release([array_id])
            return
        lock_jobs(jobs)
        rows = fetch_rows(_HOLD_BACK, [Reason.WAITING_FOR_ARRAY, sorted(jobs), _WAITING])
        reason = Reason.WAITING_FOR_ARRAY.value
        record_events([row_event("job.waiting", row, reason=reason) for row in rows])


def lock_array(array_id: UUID) -> list[UUID]:
    """Lock an array, so that nothing releases its members; returns its open members."""
    Batch.objects.select_for_update(of=("self",), no_key=True).get(pk=array_id)
    members = Job.objects.filter(batch=array_id, array_index__isnull=False, state__in=OPEN_STATES)
    return list(members.values_list("id", flat=True))


def new_array(
    *, name: str, text: str, limit: int | None, size: int, project: Project, user: User
) -> Batch:
    """Insert an array without members."""
    return Batch.objects.create(
        project=project, created_by=user, mode="array", total=size, accepted=size, name=name,
        array_indexes=text, array_limit=limit,
    )  # fmt: skip
