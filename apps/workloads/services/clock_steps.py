"""Claims and due times after the wall clock of the database was set back."""

from typing import Final

from django.db import transaction

from apps.common.infrastructure.database import fetch_rows
from apps.workloads.models import OPEN_STATES
from apps.workloads.services.waiting import CLAIM_S

# claimed before the step, or not to be claimed until a job has stopped (`end_growth`)
_JOBS: Final = """
SELECT id FROM workloads_job
WHERE state = ANY(%s) AND claimed_until > clock_timestamp() + make_interval(secs => %s)
ORDER BY id FOR NO KEY UPDATE
"""
_SHIFT_JOBS: Final = """
UPDATE workloads_job SET claimed_until = claimed_until - make_interval(secs => %s)
WHERE id = ANY(%s) RETURNING id
"""
# Those that were evaluated after the step are due a little earlier then, which harms nothing.
_SHAPES: Final = """
SELECT id FROM workloads_waitingshape
WHERE due_at > clock_timestamp() OR claimed_until > clock_timestamp() + make_interval(secs => %s)
ORDER BY key FOR NO KEY UPDATE
"""
_SHIFT_SHAPES: Final = """
UPDATE workloads_waitingshape AS s
SET due_at = least(s.due_at, greatest(s.due_at - step.back, now.at)),
    queued_at = CASE WHEN s.queued_at > now.at THEN s.queued_at - step.back ELSE s.queued_at END,
    claimed_until = CASE WHEN s.claimed_until > now.at + make_interval(secs => %s)
                         THEN s.claimed_until - step.back ELSE s.claimed_until END
FROM (SELECT make_interval(secs => %s) AS back) AS step, (SELECT clock_timestamp() AS at) AS now
WHERE s.id = ANY(%s) RETURNING s.id
"""


def shift_claims(back_s: float) -> None:
    """Move the claims of jobs and the times of shapes that were stored before the clock stepped.

    Else nobody would evaluate them until the clock has caught up.

    Parameters
    ----------
    back_s : wall seconds by which the clock was set back
    """
    with transaction.atomic():
        jobs = [job for (job,) in fetch_rows(_JOBS, [list(OPEN_STATES), CLAIM_S])]
        fetch_rows(_SHIFT_JOBS, [back_s, jobs])
        shapes = [shape for (shape,) in fetch_rows(_SHAPES, [CLAIM_S])]
        fetch_rows(_SHIFT_SHAPES, [CLAIM_S, back_s, shapes])
