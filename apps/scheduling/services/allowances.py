"""Updates of the sizing allowances from jobs that run or ended."""

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from django.db import connection, transaction

from apps.scheduling.core.sizing.allowances import KINDS, NEWEST, Estimated, estimated
from apps.scheduling.models import SizingAllowance, SpeedRatio
from apps.scheduling.selectors.allowances import HISTORY, allowance_rows

_PRUNE_HISTORY: Final = """
DELETE FROM scheduling_sizingallowance WHERE id IN (
    SELECT id FROM scheduling_sizingallowance WHERE kind = %s ORDER BY id DESC OFFSET %s)
"""
CHANGE: Final = 0.002  # of an allowance: a smaller one adds no row


class JobSpeed(NamedTuple):
    """Measured speed of a job over the pessimistic end of its prediction, without an allowance."""

    job_id: UUID
    kind: str
    ratio: float
    cluster_s: float


_UPSERT: Final = """
INSERT INTO scheduling_speedratio (job_id, kind, ratio, cluster_s)
SELECT * FROM unnest(%s::uuid[], %s::text[], %s::float8[], %s::float8[])
ON CONFLICT (job_id) DO UPDATE SET ratio = excluded.ratio, cluster_s = excluded.cluster_s
"""
_PRUNE: Final = """
DELETE FROM scheduling_speedratio WHERE id IN (
    SELECT id FROM scheduling_speedratio WHERE kind = %s
    ORDER BY cluster_s DESC, id DESC OFFSET %s)
"""


def record_speeds(speeds: Sequence[JobSpeed], *, now_s: float) -> list[str]:
    """Store the speeds of jobs, and update the allowances of their kinds of target.

    One process calls it at a time (`execution.services.feedback`). A later observation of a job
    replaces its earlier one. Return the kinds whose allowance changed.
    """
    known = [row for row in speeds if row.kind in KINDS and row.ratio > 0.0]
    if not known:
        return []
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(_UPSERT, [list(column) for column in zip(*known, strict=True)])
        current = allowance_rows()
        return [
            kind
            for kind in sorted({row.kind for row in known})
            if _update(kind, current.get(kind), now_s)
        ]


def _update(kind: str, current: SizingAllowance | None, now_s: float) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_PRUNE, [kind, NEWEST])
    ratios = list(SpeedRatio.objects.filter(kind=kind).values_list("ratio", flat=True))
    found: Estimated = estimated(ratios)
    if current is not None and abs(found.value - current.value) < CHANGE:
        return False
    SizingAllowance.objects.create(
        kind=kind,
        value=found.value,
        quantile=found.quantile,
        jobs=found.jobs,
        cluster_s=now_s,
    )
    with connection.cursor() as cursor:
        cursor.execute(_PRUNE_HISTORY, [kind, HISTORY])
    return True
