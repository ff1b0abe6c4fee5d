"""Delete old prediction errors and profiles in batches."""

from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from django.db import connection

from apps.classification.services.feedback import MAX_OBSERVATIONS
from apps.common.infrastructure.database import fetch_rows

BATCH: Final = 1000  # rows per statement, to keep locks short
# Wall seconds for which observations of an ended job are kept: `execution.feedback` needs the last
# one to compute the next.
RETENTION_S: Final = 3600.0

_ERRORS: Final = """
DELETE FROM classification_predictionerror WHERE id IN (
    SELECT e.id
    FROM (SELECT application_id FROM classification_predictionerror
          GROUP BY application_id HAVING count(*) > %(keep)s) a,
         LATERAL (SELECT id, job_id FROM classification_predictionerror
                  WHERE application_id = a.application_id
                  ORDER BY cluster_s DESC, id DESC OFFSET %(keep)s) e
         JOIN workloads_job j ON j.id = e.job_id
    WHERE j.finished_at < now() - make_interval(secs => %(retention)s)
    LIMIT %(batch)s)
"""
_OLD_PROFILES: Final = """
SELECT p.id
FROM (SELECT id, is_current, row_number() OVER (
          PARTITION BY application_id ORDER BY number DESC) AS place
      FROM classification_profile) p
WHERE p.place > %s AND NOT p.is_current
  AND NOT EXISTS (SELECT FROM classification_predictionerror e WHERE e.profile_id = p.id)
ORDER BY p.id
"""
_PROFILES: Final = """
DELETE FROM classification_profile WHERE id = ANY(%s::uuid[])
"""


def prune_prediction_errors(*, keep: int) -> int:
    """Delete one batch of all but the newest observations of each application; return its size.

    Observations that feedback uses are kept, and those of running and recently ended jobs.

    Parameters
    ----------
    keep : observations per application
    """
    kept = max(keep, MAX_OBSERVATIONS)
    return _run(_ERRORS, {"keep": kept, "retention": RETENTION_S, "batch": BATCH})


def prune_profiles(*, keep: int, referenced: Callable[[Sequence[UUID]], set[UUID]]) -> int:
    """Delete one batch of all but the newest profiles of each application; return its size.

    Profiles referenced by prediction errors or by ``referenced`` are kept.

    Parameters
    ----------
    keep : profiles per application; the current one is always kept
    referenced : returns the given profiles that other tables reference, such as decisions
    """
    old = [key for (key,) in fetch_rows(_OLD_PROFILES, [keep])]
    for begin in range(0, len(old), BATCH):
        batch = old[begin : begin + BATCH]
        kept = referenced(batch)
        if deleted := _run(_PROFILES, [[key for key in batch if key not in kept]]):
            return deleted
    return 0


def _run(sql: str, parameters: list[Any] | dict[str, Any]) -> int:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.rowcount
