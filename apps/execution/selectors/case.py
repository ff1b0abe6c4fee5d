"""The rows around a dip of one job, as a `Case`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from django.db.models import Q, QuerySet

from apps.classification.core.estimates import HALF_WIDTH_90
from apps.classification.core.profile import Profile
from apps.classification.selectors import current_profile_ids, profiles
from apps.common.infrastructure.database import fetch_rows
from apps.execution.core.diagnosis.case import Case, Holding, Reports, Stall, Wait
from apps.execution.core.diagnosis.dips import Dip, dips
from apps.execution.core.diagnosis.speed import SpeedScale
from apps.execution.models import JobSample, Migration
from apps.inventory.core.snapshot import Floats
from apps.inventory.models import Server
from apps.scheduling.core.sizing.allowances import INTERFERENCE_ALLOWANCE
from apps.scheduling.models import Allocation
from apps.workloads.core.targets import CompletionTime, read_target
from apps.workloads.models import Job

MAX_SAMPLES: Final = 2_000  # the latest ones
MAX_REPORTS: Final = 100_000  # in which dips are found, the latest ones
MAX_OF_PART: Final = (600, 1_200, 200)  # of a long window: before, in and after its dip
LATEST: Final = 10  # reports at the end of each part that are all read
MAX_HOLDINGS: Final = 200  # of a server, the latest ones
LEAD_S: Final = (600.0, 1800.0)  # shown and compared before a dip: at least and at most
TAIL_S: Final = 300.0
READING_DEVIATION: Final = 0.02  # of the logarithm of a reported performance
RUN_DEVIATION: Final = 0.05  # of a whole run around its prediction (feedback)


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Reports of a job as columns, oldest first; all (T,), counters (T, 3)."""

    at_s: Floats
    performance: Floats
    attainment: Floats
    progress: Floats
    readings: Floats
    offered_qps: Floats
    counters: Floats

    def within(self, begin_s: float, end_s: float) -> "Samples":
        """Return the reports of a span, ends included."""
        at = (self.at_s >= begin_s) & (self.at_s <= end_s)
        return Samples(
            self.at_s[at],
            self.performance[at],
            self.attainment[at],
            self.progress[at],
            self.readings[at],
            self.offered_qps[at],
            self.counters[at],
        )


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a diagnosis shows of servers, by id."""

    names: Mapping[int, str]
    units: Mapping[int, int]
    platforms: Mapping[int, str]


_COLUMNS: Final = (
    *("cluster_s", "performance", "attainment", "progress", "readings", "offered_qps"),
    *("memory_rate", "network_wait", "disk_wait"),
)


def samples(job: Job) -> Samples:
    """Return the latest reports of a job."""
    rows = JobSample.objects.filter(job=job).order_by("-cluster_s", "-id")
    return _samples(list(rows.values_list(*_COLUMNS)[:MAX_SAMPLES])[::-1])


def dips_of(job: Job, latest: Samples) -> tuple[Dip, ...]:
    """Return the dips of a job, oldest first.

    Parameters
    ----------
    latest : its latest reports; if they are not all, the times and attainments of more are read
    """
    if latest.at_s.size < MAX_SAMPLES:
        return dips(latest.at_s, latest.attainment, latest.readings)
    rows = JobSample.objects.filter(job=job, attainment__isnull=False)
    columns = rows.order_by("-cluster_s", "-id").values_list("cluster_s", "attainment", "readings")
    table = np.array(list(columns[:MAX_REPORTS])[::-1], dtype=np.float64).reshape(-1, 3)
    return dips(*table.T)


def window_of(job: Job, dip: Dip, latest: Samples) -> Samples:
    """Return the reports around a dip: as long before it as it lasts, within limits.

    Parameters
    ----------
    latest : the latest reports of the job; if they do not reach back to the window, its reports
        are read, evenly spaced if there are more than `MAX_OF_PART`
    """
    lead_s = min(LEAD_S[1], max(LEAD_S[0], dip.end_s - dip.begin_s))
    begin_s, end_s = dip.begin_s - lead_s, dip.end_s + TAIL_S
    if latest.at_s.size < MAX_SAMPLES or latest.at_s[0] < begin_s:
        return latest.within(begin_s, end_s)
    values = {
        "job": job.pk,
        "begin": begin_s,
        "dip_begin": dip.begin_s,
        "dip_end": dip.end_s,
        "end": end_s,
        "latest": LATEST,
        "limits": list(MAX_OF_PART),
    }
    return _samples(fetch_rows(_WINDOW, values))


# Reports of a window: of each part the first one, the latest ones and evenly spaced ones.
_WINDOW: Final = f"""
WITH sample AS (
    SELECT *, CASE WHEN cluster_s < %(dip_begin)s THEN 1
                   WHEN cluster_s <= %(dip_end)s THEN 2 ELSE 3 END AS part
    FROM execution_jobsample
    WHERE job_id = %(job)s AND cluster_s BETWEEN %(begin)s AND %(end)s),
numbered AS (
    SELECT *, (%(limits)s::bigint[])[part] AS kept,
           row_number() OVER (PARTITION BY part ORDER BY cluster_s, id) - 1 AS n,
           count(*) OVER (PARTITION BY part) AS total
    FROM sample)
SELECT {", ".join(_COLUMNS)} FROM numbered
WHERE n = 0 OR n >= total - %(latest)s OR n * kept / total <> (n - 1) * kept / total
ORDER BY cluster_s, id
"""  # noqa: S608 - constants


def _samples(rows: Sequence[Sequence[Any]]) -> Samples:
    table = np.array(
        [[np.nan if value is None else value for value in row] for row in rows], dtype=np.float64
    ).reshape(-1, len(_COLUMNS))
    at_s, performance, attainment, progress, readings, offered = table[:, :6].T
    return Samples(at_s, performance, attainment, progress, readings, offered, table[:, 6:])


def case_of(job: Job, shown: Samples, scale: SpeedScale, profile: Profile | None) -> Case:
    """Read the allocations around the reports of a job; five statements."""
    begin_s, end_s = float(shown.at_s[0]), float(shown.at_s[-1])
    own = _own(job, begin_s, end_s)
    others = _others(job, sorted({holding.server for holding in own}), begin_s, end_s)
    facts = server_facts({holding.server for holding in own})
    return Case(
        reports=_reports(job, shown, scale),
        own=own,
        others=others,
        server_units=facts.units,
        server_speed={key: _speed(profile, name) for key, name in facts.platforms.items()},
        tolerated=None if profile is None else profile.tolerated,
        stalls=_stalls(job, begin_s, end_s),
        predicted=_predicted(job, scale),
        wanted_units=None if job.units is None else job.units + job.units_missing,
        noise=READING_DEVIATION,
        wait=_wait(job),
    )


def _wait(job: Job) -> Wait | None:
    target = read_target(job.target)
    if not isinstance(target, CompletionTime) or job.started_s is None or job.attempts > 1:
        return None
    return Wait(max(0.0, job.started_s - job.submitted_s), target.seconds)


def profile_of(job: Job) -> Profile | None:
    """Return the current profile of a job's application."""
    found = current_profile_ids([job.application_id]).get(job.application_id)
    return None if found is None else profiles([found])[found]


def server_facts(ids: set[int]) -> ServerFacts:
    """Return names, units and platforms of servers; removed ones are left out."""
    rows = list(
        Server.objects.filter(id__in=ids).values_list("id", "name", "cores", "platform__name")
    )
    return ServerFacts(
        {key: name for key, name, _, _ in rows},
        {key: cores for key, _, cores, _ in rows},
        {key: platform for key, _, _, platform in rows},
    )


def visible_names(visible: QuerySet[Job], keys: Sequence[str]) -> dict[str, str]:
    """Return the names of the jobs that the reader may see, by id."""
    rows = visible.filter(id__in=keys).values_list("id", "name")
    return {str(key): name for key, name in rows}


def _reports(job: Job, shown: Samples, scale: SpeedScale) -> Reports:
    elapsed_s = shown.at_s - job.submitted_s
    return Reports(
        at_s=shown.at_s,
        log_speed=scale.log_speeds(
            shown.performance, shown.progress, elapsed_s, shown.offered_qps
        ),
        attainment=shown.attainment,
        readings=shown.readings,
        counters=shown.counters,
    )


def _predicted(job: Job, scale: SpeedScale) -> tuple[float, float] | None:
    """Return the predicted log speed without neighbours, and its deviation."""
    values = [_number(job.predicted, name) for name in ("value", "low", "high")]
    started_s = job.submitted_s if job.started_s is None else job.started_s
    elapsed_s = np.full(3, started_s - job.submitted_s)
    logs = scale.log_speeds(np.array(values), np.zeros(3), elapsed_s)
    if not np.isfinite(logs).all():
        return None
    spread = abs(float(logs[2] - logs[1])) / (2.0 * HALF_WIDTH_90)
    allowance = _number(job.predicted, "allowance")
    alone = float(logs[0]) - math.log(
        INTERFERENCE_ALLOWANCE if math.isnan(allowance) else max(INTERFERENCE_ALLOWANCE, allowance)
    )
    return alone, math.hypot(spread, RUN_DEVIATION)


def _own(job: Job, begin_s: float, end_s: float) -> list[Holding]:
    """Return what the job worked on: without reservations, until a migration took over."""
    rows = list(job.allocations.filter(Q(moved_from=None) | Q(moved_s__isnull=False)))
    left = {row.moved_from: row.moved_s for row in rows if row.moved_from is not None}
    found = [
        _holding(
            "",
            row,
            from_s=row.acquired_s if row.moved_s is None else row.moved_s,
            to_s=left.get(row.id, row.released_s),
        )
        for row in rows
    ]
    return [h for h in found if h.from_s <= end_s and h.to_s > begin_s]


# Allocations on servers that overlap a span, with the time at which the job began to work there:
# live ones, and the latest of the others. The sub-selects are index scans for each row; a join
# would read all jobs.
_OTHERS: Final = """
SELECT job_id, server_id, cores, caused,
       coalesce(moved_s, greatest(acquired_s, job_started_s)) AS from_s,
       coalesce(left_s, released_s) AS to_s
FROM (
    SELECT a.*,
           (SELECT started_s FROM workloads_job WHERE id = a.job_id) AS job_started_s,
           (SELECT n.moved_s FROM scheduling_allocation n
            WHERE n.moved_from = a.id AND n.moved_s IS NOT NULL LIMIT 1) AS left_s
    FROM unnest(%(servers)s::bigint[]) AS s(id)
    CROSS JOIN LATERAL (
        (SELECT * FROM scheduling_allocation WHERE server_id = s.id AND released_seq IS NULL)
        UNION ALL
        (SELECT * FROM (SELECT * FROM scheduling_allocation WHERE server_id = s.id
                        ORDER BY acquired_seq DESC LIMIT %(limit)s) latest
         WHERE released_seq IS NOT NULL AND released_s > %(begin)s)) a
    WHERE a.job_id <> %(job)s AND a.acquired_s <= %(end)s
      AND (a.moved_from IS NULL OR a.moved_s IS NOT NULL)) held
WHERE job_started_s IS NOT NULL
ORDER BY from_s, id
"""


def _others(job: Job, servers: Sequence[int], begin_s: float, end_s: float) -> list[Holding]:
    values = {
        "servers": list(servers),
        "limit": MAX_HOLDINGS,
        "begin": begin_s,
        "end": end_s,
        "job": job.id,
    }
    rows = fetch_rows(_OTHERS, values)
    found = [
        Holding(
            str(key), server, cores, from_s, math.inf if to_s is None else to_s, np.array(caused)
        )
        for key, server, cores, caused, from_s, to_s in rows
    ]
    return [h for h in found if h.from_s <= end_s and h.to_s > begin_s]


def _holding(key: str, row: Allocation, *, from_s: float, to_s: float | None) -> Holding:
    until_s = math.inf if to_s is None else to_s
    return Holding(key, row.server_id, row.cores, from_s, until_s, np.array(row.caused))


def _stalls(job: Job, begin_s: float, end_s: float) -> list[Stall]:
    rows = Migration.objects.filter(job=job, started_s__isnull=False, started_s__lte=end_s)
    found = [
        Stall(row.started_s, math.inf if row.ended_s is None else row.ended_s, row.units)
        for row in rows
        if row.started_s is not None
    ]
    return [stall for stall in found if stall.end_s > begin_s]


def _speed(profile: Profile | None, platform: str) -> float:
    if profile is None or platform not in profile.platforms:
        return 1.0
    return profile.speed(platform).value


def _number(values: Mapping[str, Any], name: str) -> float:
    value = values.get(name)
    return float(value) if isinstance(value, int | float) else math.nan
