"""Average old samples: of a minute each, then of an hour each."""

from dataclasses import dataclass
from typing import Final

from django.db import connection, transaction

from apps.common.infrastructure.database import fetch_rows
from apps.operations.models import Retention

MINUTE_S: Final = 60.0
HOUR_S: Final = 3600.0
ROWS: Final = 50_000  # samples read by one batch, and the rest of its last interval


@dataclass(frozen=True, slots=True)
class Interval:
    """Samples of one interval of this width become one row, from this cluster time backwards."""

    name: str
    width_s: float
    before_s: float


def average_samples(interval: Interval) -> int:
    """Average one window of samples; return the number of rows replaced, 0 = nothing is left.

    Windows are taken in the order of their time, each in one transaction with the position of the
    next. A sample that is reported later than that stays as it is.
    """
    while True:
        with transaction.atomic():
            row = Retention.objects.select_for_update().get(name=interval.name)
            window = _next_window(interval, row.position)
            if window is None:
                return 0
            begin_s, end_s = window
            with connection.cursor() as cursor:
                values = {"begin": begin_s, "end": end_s, "width": interval.width_s}
                cursor.execute(_AVERAGE, values)
                replaced = cursor.rowcount
            row.position = end_s
            row.save(update_fields=["position"])
        if replaced:
            return replaced


def _next_window(interval: Interval, position_s: float) -> tuple[float, float] | None:
    """Return the bounds of the next window with samples, whole intervals; None: none is due."""
    ((first_s,),) = fetch_rows(_FIRST, [position_s])
    if first_s is None:
        return None
    begin_s = interval.width_s * (first_s // interval.width_s)
    due_s = interval.width_s * (interval.before_s // interval.width_s)
    if due_s <= begin_s:
        return None
    last = fetch_rows(_LAST, [first_s, ROWS])
    if not last:
        return begin_s, due_s
    whole_s = interval.width_s * (last[0][0] // interval.width_s)
    return begin_s, min(max(whole_s, begin_s + interval.width_s), due_s)


_FIRST: Final = "SELECT min(cluster_s) FROM execution_jobsample WHERE cluster_s >= %s"
_LAST: Final = """
SELECT cluster_s FROM execution_jobsample WHERE cluster_s >= %s
ORDER BY cluster_s OFFSET %s LIMIT 1
"""
# Measurements that not every sample has. Means are weighted by the number of reports.
_MEASURED: Final = (
    *("performance", "attainment", "offered_qps", "served_qps", "memory_rate", "network_wait"),
    *("disk_wait", "traffic_bps", "run_wait", "blocked", "cpu_pressure", "memory_pressure"),
    "io_pressure",
)


def _mean(column: str) -> str:
    return f"sum({column} * readings) / sum(readings) FILTER (WHERE {column} IS NOT NULL)"


_MEANS: Final = ",\n           ".join(f"{_mean(name)} AS {name}" for name in _MEASURED)
_COLUMNS: Final = ", ".join(
    (
        *("job_id", "cluster_s", "progress", "attainment_min", "attainment_max", "cpu_share"),
        *("memory_bytes", "readings", *_MEASURED),
    )
)
_AVERAGE: Final = f"""
WITH old AS (
    SELECT *, floor(cluster_s / %(width)s) AS slot FROM execution_jobsample
    WHERE cluster_s >= %(begin)s AND cluster_s < %(end)s),
means AS (
    SELECT job_id, slot, max(cluster_s) AS cluster_s, max(progress) AS progress,
           min(coalesce(attainment_min, attainment)) AS attainment_min,
           max(coalesce(attainment_max, attainment)) AS attainment_max,
           sum(cpu_share * readings) / sum(readings) AS cpu_share,
           ({_mean("memory_bytes")})::bigint AS memory_bytes,
           {_MEANS},
           sum(readings) AS readings
    FROM old GROUP BY job_id, slot HAVING count(*) > 1),
gone AS (
    DELETE FROM execution_jobsample s USING old, means
    WHERE s.id = old.id AND old.job_id = means.job_id AND old.slot = means.slot
    RETURNING s.id),
made AS (
    INSERT INTO execution_jobsample ({_COLUMNS}) SELECT {_COLUMNS} FROM means)
SELECT FROM gone
"""  # noqa: S608 - constants
