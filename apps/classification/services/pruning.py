"""Histories of applications cut to what is still of use, a batch at a time."""

from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from django.db import connection

from apps.classification.services.feedback import REMEMBERED

BATCH: Final = 1000  # rows a statement, so that no lock is held for long
# Wall seconds after its end for which a job's observations stay: whoever looks for the next one
# reads the last (`execution.feedback`).
SETTLED_S: Final = 3600.0

_ERRORS: Final = """
DELETE FROM classification_predictionerror WHERE id IN (
    SELECT e.id
    FROM (SELECT id, job_id, row_number() OVER (
              PARTITION BY application_id ORDER BY cluster_s DESC, id DESC) AS place
          FROM classification_predictionerror) e
    JOIN workloads_job j ON j.id = e.job_id
    WHERE e.place > %s AND j.finished_at < now() - make_interval(secs => %s)
    LIMIT %s)
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
    """Delete all but the newest observations of each application; returns how many went.

    Those that feedback draws conclusions from stay, and those of jobs that run or ended lately.

    Parameters
    ----------
    keep : of one application
    """
    most, gone = max(keep, REMEMBERED), 0
    while True:
        count = _run(_ERRORS, [most, SETTLED_S, BATCH])
        gone += count
        if count < BATCH:
            return gone


def prune_profiles(*, keep: int, named: Callable[[Sequence[UUID]], set[UUID]]) -> int:
    """Delete all but the newest profiles of each application; returns how many went.

    Those that predicted what is still held against them stay, and those that somebody names.

    Parameters
    ----------
    keep : of one application; that in force always stays
    named : those of some profiles that others name for good, such as decisions
    """
    with connection.cursor() as cursor:
        cursor.execute(_OLD_PROFILES, [keep])
        old = [row[0] for row in cursor.fetchall()]
    gone = 0
    for begin in range(0, len(old), BATCH):
        batch = old[begin : begin + BATCH]
        staying = named(batch)
        gone += _run(_PROFILES, [[key for key in batch if key not in staying]])
    return gone


def _run(sql: str, parameters: list[Any]) -> int:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.rowcount
