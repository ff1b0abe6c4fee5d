"""Classify the running containers from their telemetry (ClavisMO §2, C1).

A metric that no monitor can read is predicted from the profile. The class of a container without
a profile, such as a command that was never profiled, follows from the metrics that are read, with
the thresholds that the profiles of other containers taught. A container none of whose metrics is
read, or can be compared with a threshold, has no class.

Three statements and the profiles, whatever the number of containers. Two concurrent refreshes are
harmless: both read the same samples. Jobs that are deleted meanwhile are left out.
"""

from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
from django.db import connection, transaction

from apps.common.infrastructure.database import fetch_rows
from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.inventory.selectors import cluster_now
from apps.placement.core.monitoring.classes import (
    LOUD_SHARE,
    REFIT_S,
    ContainerClasses,
    LocalityLimits,
    Metric,
    communication,
    intensities,
)
from apps.placement.core.monitoring.metrics import (
    container_metrics,
    fit_thresholds,
    self_interference_loss,
)
from apps.placement.models import MetricThreshold
from apps.placement.selectors.cluster import cached_profiles
from apps.workloads.services import lock_against_deletion

RETENTION_S: Final = 7 * 86_400.0  # of classes of ended containers: fronts of past times need them
_READ: Final = """
SELECT a.id, a.job_id::text, a.cores, s.cores, s.platform_id, p.id,
       m.cluster_s, m.memory_rate, m.network_wait, m.disk_wait, m.traffic_bps,
       coalesce(own.read_s, before.read_s), coalesce(own.intensity, before.intensity),
       coalesce(own.is_taz, before.is_taz, false),
       coalesce(own.communication, before.communication, 0)
FROM scheduling_allocation a
JOIN workloads_job j ON j.id = a.job_id AND j.state = 'running'
JOIN inventory_server s ON s.id = a.server_id
LEFT JOIN classification_profile p ON p.application_id = j.application_id AND p.is_current
LEFT JOIN placement_containerclass own ON own.allocation_id = a.id
LEFT JOIN placement_containerclass before ON before.allocation_id = a.moved_from
LEFT JOIN LATERAL (
    SELECT * FROM execution_jobsample x WHERE x.job_id = a.job_id
    ORDER BY x.cluster_s DESC LIMIT 1) m
    ON num_nonnulls(m.memory_rate, m.network_wait, m.disk_wait) > 0
WHERE a.released_seq IS NULL AND (a.moved_from IS NULL OR a.moved_s IS NOT NULL)
ORDER BY a.id
"""
_LINKS: Final = """
SELECT coalesce(max(cores), 0),
       coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY network_bps), 0),
       (SELECT coalesce(max(units), 0)
        FROM (SELECT sum(cores) AS units FROM inventory_server GROUP BY rack_id) AS racks)
FROM inventory_server
"""
_WRITE: Final = """
INSERT INTO placement_containerclass
    (allocation_id, job_id, read_s, intensity, is_taz, communication)
SELECT * FROM unnest(%s::bigint[], %s::uuid[], %s::float8[], %s::float8[], %s::bool[],
                     %s::smallint[])
ON CONFLICT (allocation_id) DO UPDATE SET read_s = excluded.read_s,
    intensity = excluded.intensity, is_taz = excluded.is_taz,
    communication = excluded.communication
WHERE placement_containerclass.read_s < excluded.read_s
"""


class _ContainerRow(NamedTuple):
    allocation: int
    job: str
    size: int
    units: int
    platform: int
    profile: Any
    read_s: float | None
    memory: float | None
    network: float | None
    disk: float | None
    traffic: float | None
    before_s: float | None
    intensity: float | None
    is_taz: bool
    communication: int


def refresh_classes(now_s: float | None = None) -> int:
    """Update the classes from new samples; returns the number of containers with one.

    Thresholds are refitted every ten minutes of cluster time.
    """
    now = cluster_now() if now_s is None else now_s
    rows = [_ContainerRow(*row) for row in fetch_rows(_READ)]
    rows = [row for row in rows if row.read_s is not None]
    if not rows:
        return 0
    size, units, platform = (_ints(row[i] for row in rows) for i in (2, 3, 4))
    per_unit = np.array([(row.memory, row.network, row.disk) for row in rows], dtype=np.float64)
    metrics = container_metrics(per_unit, size, units)
    thresholds = _thresholds(rows, metrics, now)
    limits = np.array([thresholds[p] for p in platform.tolist()])
    metrics[np.isnan(limits)] = np.nan  # nothing to compare them with
    reading = intensities(metrics, limits, _lost_unread(rows, metrics))
    read_s = np.array([row.read_s for row in rows], dtype=np.float64)
    before_s = np.array([np.nan if r.before_s is None else r.before_s for r in rows])
    is_new = np.isnan(before_s) | (read_s > before_s)
    before = ContainerClasses(
        np.array([np.nan if r.intensity is None else r.intensity for r in rows]),
        np.array([r.is_taz for r in rows], dtype=np.bool_),
    )
    passed_s = np.where(np.isnan(before_s), 0.0, np.maximum(read_s - before_s, 0.0))
    after = before.after(np.where(is_new, reading, np.nan), passed_s)
    _write(rows, read_s, after, _communication(rows, size), is_new)
    return int(is_new.sum())


def _thresholds(
    rows: list[_ContainerRow], metrics: Floats, now_s: float
) -> dict[int, list[float]]:
    """Return thresholds by platform in the order of `Metric`, refitted if they are due.

    One that no reading taught is NaN.
    """
    known = list(MetricThreshold.objects.all())
    last_s = max((row.learnt_s for row in known), default=-np.inf)
    platforms = {row.platform for row in rows}
    # a clock that was set back belongs to a new instance: its thresholds are unknown
    if not 0.0 <= now_s - last_s < REFIT_S or platforms - {r.platform_id for r in known}:
        known = _refit(rows, metrics, now_s)
    thresholds = {platform: [np.nan] * len(Metric) for platform in platforms}
    for row in known:
        if row.platform_id in thresholds and row.readings > 0:
            thresholds[row.platform_id][row.metric] = row.value
    return thresholds


def _lost(rows: list[_ContainerRow]) -> Floats:
    """(c, 3) loss of each container next to one of its kind, as its profile predicts it.

    NaN without a profile.
    """
    lost = np.full((len(rows), len(Metric)), np.nan)
    profiled = [i for i, row in enumerate(rows) if row.profile is not None]
    if not profiled:
        return lost
    chosen = [rows[i] for i in profiled]
    profiles = cached_profiles({row.profile for row in chosen})
    lost[profiled] = self_interference_loss(
        _ints(row.size for row in chosen),
        _ints(row.units for row in chosen),
        np.array([profiles[row.profile].caused.value for row in chosen]),
        np.array([profiles[row.profile].tolerated.value for row in chosen]),
    )
    return lost


def _lost_unread(rows: list[_ContainerRow], metrics: Floats) -> Floats:
    """(c, 3) as above for containers with a metric that was not read; NaN for the others."""
    lost = np.full(metrics.shape, np.nan)
    unread = np.flatnonzero(np.isnan(metrics).any(axis=1))
    if unread.size:
        lost[unread] = _lost([rows[i] for i in unread.tolist()])
    return lost


def _refit(rows: list[_ContainerRow], metrics: Floats, now_s: float) -> list[MetricThreshold]:
    fitted = fit_thresholds(metrics, _lost(rows), _ints(row.platform for row in rows))
    return MetricThreshold.objects.bulk_create(
        [
            MetricThreshold(
                platform_id=platform,
                metric=int(metric),
                value=threshold.value,
                accuracy=threshold.accuracy,
                readings=threshold.readings,
                learnt_s=now_s,
            )
            for (platform, metric), threshold in fitted.items()
        ],
        update_conflicts=True,
        unique_fields=["platform", "metric"],
        update_fields=["value", "accuracy", "readings", "learnt_s"],
    )


def _communication(rows: list[_ContainerRow], size: Ints) -> Ints:
    """(c,) communication class of the job of each container."""
    names = sorted({row.job for row in rows})
    place = {name: i for i, name in enumerate(names)}
    job = _ints(place[row.job] for row in rows)
    units = np.bincount(job, weights=size).astype(np.int64)
    containers = np.bincount(job)
    before = np.zeros(len(names), dtype=np.int64)
    np.maximum.at(before, job, _ints(row.communication for row in rows))
    traffic = np.full(len(names), np.nan)
    traffic[job] = [np.nan if row.traffic is None else row.traffic / 8.0 for row in rows]
    ((largest, network_bps, rack_units),) = fetch_rows(_LINKS)
    links = LocalityLimits(int(largest), int(rack_units), LOUD_SHARE * float(network_bps) / 8.0)
    classes = communication(before, traffic * units / containers, units, links)
    # a job of one container does not communicate
    return np.where(containers > 1, classes, 0)[job]


def _write(
    rows: list[_ContainerRow],
    read_s: Floats,
    after: ContainerClasses,
    job_class: Ints,
    is_new: Bools,
) -> None:
    new = np.flatnonzero(is_new & ~np.isnan(after.intensity)).tolist()
    with transaction.atomic(), connection.cursor() as cursor:
        jobs = lock_against_deletion(UUID(rows[i].job) for i in new)
        new = [i for i in new if UUID(rows[i].job) in jobs]
        cursor.execute(
            _WRITE,
            [
                [rows[i].allocation for i in new],
                [rows[i].job for i in new],
                read_s[new].tolist(),
                after.intensity[new].tolist(),
                after.is_taz[new].tolist(),
                job_class[new].tolist(),
            ],
        )


def prune_classes(now_s: float | None = None) -> int:
    """Delete classes of ended containers after a week of cluster time; returns their number."""
    now = cluster_now() if now_s is None else now_s
    with connection.cursor() as cursor:
        cursor.execute(
            """DELETE FROM placement_containerclass c USING scheduling_allocation a
               WHERE a.id = c.allocation_id AND a.released_seq IS NOT NULL AND c.read_s < %s""",
            [now - RETENTION_S],
        )
        return cursor.rowcount


def _ints(values: Any) -> Ints:
    return np.array(list(values), dtype=np.int64)
