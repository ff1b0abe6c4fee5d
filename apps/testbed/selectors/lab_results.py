"""Results of comparisons against any baseline, and the single jobs that gain or lose."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
from django.core.cache import cache
from django.db.models import QuerySet

from apps.common.core.errors import NotFoundError
from apps.testbed.core.lab_halving import halving_json, schedule
from apps.testbed.core.lab_jobs import Direction, JobChange, JobChanges, Singles, changed_jobs
from apps.testbed.core.lab_loads import at_load, loads_of
from apps.testbed.core.lab_results import rebased
from apps.testbed.core.lab_sweeps import values_of
from apps.testbed.models import LabComparison, LabRun
from apps.testbed.selectors.lab import decompressed, rows_of
from apps.workloads.models import Job

KEPT_S: Final = 600.0  # a result never changes
ID_BYTES: Final = 16


def baselines_of(comparison: LabComparison) -> tuple[str, ...]:
    """Return the settings that can be the baseline: all but the bounds, once finished."""
    result = comparison.result
    loads = loads_of(result) if result else ()
    return tuple(name for load in loads for name in at_load(result or {}, load)["settings"])


def load_of(comparison: LabComparison, setting: str) -> float | None:
    """Return the load at which a setting is compared; None if it is not compared."""
    result = comparison.result or {}
    loads = loads_of(result) if result else ()
    return next((load for load in loads if setting in at_load(result, load)["settings"]), None)


def settings_at(comparison: LabComparison, load: float | None) -> tuple[str, ...]:
    """Return the names of the settings of a finished comparison at a load, with the bound."""
    part = at_load(comparison.result or {"settings": (), "bound": None}, load)
    return (*part["settings"], *([part["bound"]] if part["bound"] else []))


def result_with(
    comparison: LabComparison, baseline: str, load: float | None = None
) -> dict[str, Any] | None:
    """Return the result at a load with a baseline; its own one if the name is not known there."""
    if comparison.result is None:
        return None
    part = at_load(comparison.result, load)
    if baseline not in part["settings"] or baseline == part["baseline"]:
        return part
    key = f"lab.result.{comparison.pk}.{hashlib.sha256(baseline.encode()).hexdigest()}"
    found: dict[str, Any] | None = cache.get(key)
    if found is None:
        found = _rebased(comparison, part, baseline)
        cache.set(key, found, KEPT_S)
    return found


def _rebased(comparison: LabComparison, part: dict[str, Any], baseline: str) -> dict[str, Any]:
    parts = LabRun.objects.filter(comparison=comparison).values_list(
        "setting", "seed", "record__row", "record__applications"
    )
    rows, applications = {}, {}
    for setting, seed, row, shares in parts:
        rows[setting, seed], applications[setting, seed] = row, shares
    return rebased(part, baseline, rows=rows, applications=applications)


def halving_of(comparison: LabComparison) -> Mapping[str, Any] | None:
    """Return the rounds of a sweep, also while it runs; None if the comparison is none."""
    if comparison.halving is None:
        return None
    if comparison.result is not None:
        found: Mapping[str, Any] = comparison.result["halving"]
        return found
    names = (each["name"] for each in comparison.grid)
    state = schedule(
        tuple(name for name in names if name != comparison.bound),
        comparison.seeds,
        first=comparison.halving["first_seeds"],
        kept={comparison.baseline},
        values=values_of(rows_of(comparison)),
    )
    return halving_json(state)


class ChangedJob(NamedTuple):
    """One job that gains or loses.

    Attributes
    ----------
    application, submitted_s : as in the trace
    job : of this cluster, if it still exists and the caller may see it
    """

    change: JobChange
    application: str
    submitted_s: float
    job: Job | None


class ChangedJobs(NamedTuple):
    """The jobs that change most under a setting, and numbers over all jobs."""

    rows: tuple[ChangedJob, ...]
    summary: JobChanges


class _StoredChanges(NamedTuple):
    """The jobs that change most in the runs, not yet matched with jobs of this cluster.

    Attributes
    ----------
    lines : application and time of submission of each row
    keys : ids of the jobs by their place; empty for jobs that a generator made
    """

    summary: JobChanges
    lines: tuple[tuple[str, float], ...]
    keys: Mapping[int, UUID]


def jobs_that_change(
    comparison: LabComparison,
    visible: QuerySet[Job],
    *,
    setting: str,
    baseline: str,
    direction: Direction = Direction.ALL,
    limit: int,
) -> ChangedJobs:
    """Return the jobs that gain or lose most under a setting of a finished comparison.

    Raises
    ------
    NotFoundError : the runs were stored without the performance of each job.
    """
    asked = json.dumps([setting, baseline, direction, limit])
    key = f"lab.jobs.{comparison.pk}.{hashlib.sha256(asked.encode()).hexdigest()}"
    found: _StoredChanges | None = cache.get(key)
    if found is None:
        summary = changed_jobs(
            _performance(comparison, baseline),
            _performance(comparison, setting),
            direction=direction,
            limit=limit,
        )
        found = _with_lines(comparison, summary)
        cache.set(key, found, KEPT_S)
    keys = found.keys
    jobs = {job.pk: job for job in visible.filter(pk__in=keys.values())} if keys else {}
    rows = tuple(
        ChangedJob(row, *line, jobs.get(keys[row.place]) if row.place in keys else None)
        for row, line in zip(found.summary.rows, found.lines, strict=True)
    )
    return ChangedJobs(rows, found.summary)


def _with_lines(comparison: LabComparison, summary: JobChanges) -> _StoredChanges:
    scenario = comparison.scenario
    lines = decompressed(bytes(scenario.jobs))
    read = [json.loads(lines[row.place]) for row in summary.rows]
    keys = _job_keys(bytes(scenario.job_ids or b""), [row.place for row in summary.rows])
    return _StoredChanges(
        summary, tuple((line["application"], line["submit_s"]) for line in read), keys
    )


def _performance(comparison: LabComparison, setting: str) -> Singles:
    """(seeds, n) performance of the jobs under a setting, by seed."""
    runs = LabRun.objects.filter(comparison=comparison, setting=setting).order_by("seed")
    blobs = [blob for blob in runs.values_list("performance", flat=True) if blob is not None]
    if len(blobs) < len(comparison.seeds):
        raise NotFoundError(f"The performance of each job under {setting} is not stored.")
    return np.stack([np.frombuffer(blob, dtype=np.float32) for blob in blobs])


def _job_keys(ids: bytes, places: list[int]) -> dict[int, UUID]:
    """Ids of jobs by their place in a history; empty for jobs that a generator made."""
    return {
        place: UUID(bytes=ids[ID_BYTES * place : ID_BYTES * (place + 1)])
        for place in places
        if len(ids) >= ID_BYTES * (place + 1)
    }
