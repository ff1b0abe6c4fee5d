"""Fold the changes of job counts that triggers have recorded."""

from typing import Final

from apps.common.infrastructure.advisory_locks import AdvisoryLock
from apps.common.infrastructure.database import fetch_rows

BATCH: Final = 50_000

# One statement, so that a reader sees a change either here or in the counts, never in both. A
# range instead of a join: the table is mostly empty when it is analysed, and PostgreSQL then joins
# by a nested loop, whose time is quadratic.
_FOLD: Final = """
WITH oldest AS (SELECT id FROM workloads_jobcountchange
                WHERE (SELECT pg_try_advisory_xact_lock(%s)) ORDER BY id LIMIT %s),
     taken AS (DELETE FROM workloads_jobcountchange WHERE id <= (SELECT max(id) FROM oldest)
               RETURNING project_id, application_id, target_kind, state, change),
     folded AS (
         INSERT INTO workloads_jobcount AS n (project_id, application_id, target_kind, state, jobs)
         SELECT project_id, application_id, target_kind, state, sum(change)
         FROM taken GROUP BY 1, 2, 3, 4
         ON CONFLICT (application_id, project_id, target_kind, state)
         DO UPDATE SET jobs = n.jobs + excluded.jobs)
SELECT count(*) FROM taken
"""


def fold_job_counts() -> int:
    """Add the oldest recorded changes to the counts; return the number of changes folded.

    Returns 0 while another process folds. A change that is folded late only costs readers time.
    """
    ((folded,),) = fetch_rows(_FOLD, [int(AdvisoryLock.JOB_COUNTS), BATCH])
    return int(folded)
