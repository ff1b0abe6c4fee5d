"""Preview of how overrides would change an application's jobs; writes nothing."""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np
from django.db.models import Case, QuerySet, Value, When

from apps.accounts.core.principal import Principal
from apps.classification import selectors as classification
from apps.classification.core.differences import CellChange, cell_changes
from apps.classification.models import Profile as ProfileRow
from apps.classification.services import InferredProfile, NewOverride, check_overrides
from apps.inventory.core.snapshot import Snapshot
from apps.inventory.selectors import cluster_time
from apps.scheduling.core.preview import HeldUnits, JobPreview, preview
from apps.scheduling.core.requests import START_DELAY_S
from apps.scheduling.models import Allocation
from apps.scheduling.selectors import IN_USE, claimed_jobs
from apps.scheduling.selectors.allowances import current_allowances
from apps.scheduling.services.dry_run import frozen_cluster
from apps.workloads.core.lifecycle import ACTIVE_STATES, WAITING_STATES
from apps.workloads.core.spec import JobSpec
from apps.workloads.models import Application, Job
from apps.workloads.selectors import visible_jobs

MAX_JOBS: Final = 1000
BUDGET_S: Final = 5.0  # wall time of a preview

InferProfile = Callable[[Application, Sequence[NewOverride]], InferredProfile]


class PreviewedJob(NamedTuple):
    """A previewed job; ``servers`` are the names and platforms of its servers."""

    job: Job
    units_held: int | None
    preview: JobPreview
    servers: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Preview:
    """Changes that overrides would make.

    Attributes
    ----------
    profile : the current one; None = never profiled, overrides apply to the first one
    revision : matrix revision from which the next profile is inferred
    cells : changed cells of the profile
    jobs : changed jobs, waiting ones first, in the order in which agents claim them
    examined, total : number of jobs evaluated within the time budget, and of all jobs
    """

    application: Application
    profile: ProfileRow | None
    revision: int
    cells: Sequence[CellChange]
    jobs: Sequence[PreviewedJob]
    examined: int
    total: int


def preview_overrides(
    caller: Principal,
    application: Application,
    cells: Sequence[NewOverride],
    *,
    infer: InferProfile,
    limit: int = MAX_JOBS,
) -> Preview:
    """Infer the profile with overrides, and size the visible jobs with both profiles.

    Costs two sizings per job, and a read of the cluster's changes since the last preview.

    Parameters
    ----------
    infer : infers that profile; `classification.tasks.preview_by_worker` in the web processes
    limit : maximum number of jobs to evaluate

    Raises
    ------
    InvalidInputError : lists the invalid cells.
    ConflictError, TransientError : as ``infer``.
    """
    check_overrides(cells, kind=application.kind)
    current = classification.current_profile(application.pk)
    inferred = infer(application, cells)
    every = _jobs(caller, application)
    jobs = list(every[:limit]) if current else []
    previewed = _previewed(jobs, current, inferred) if current and jobs else []
    return Preview(
        application=application,
        profile=current,
        revision=inferred.profile.revision,
        cells=cell_changes(current.cells if current else {}, inferred.cells),
        jobs=[job for job in previewed if job.preview.is_changed],
        examined=len(previewed),
        total=len(jobs) if current and len(jobs) < limit else every.count(),
    )


def _jobs(caller: Principal, application: Application) -> QuerySet[Job]:
    """Return jobs that have not ended, waiting ones first, in the order agents claim them."""
    states = [state.value for state in WAITING_STATES | ACTIVE_STATES]
    waits = When(state__in=[state.value for state in WAITING_STATES], then=Value(0))
    return (
        visible_jobs(caller)
        .filter(application=application, state__in=states)
        .order_by(Case(waits, default=Value(1)), "-priority", "created_at", "id")
    )


def _previewed(
    jobs: Sequence[Job], current: ProfileRow, inferred: InferredProfile
) -> list[PreviewedJob]:
    """Preview jobs in order, within the time budget."""
    snapshot = frozen_cluster()
    held = _held_units([job.pk for job in jobs if job.state in ACTIVE_STATES], snapshot)
    specs = _specs(jobs)
    present = [job for job in jobs if job.pk in specs]  # some may have been deleted
    previews = preview(
        ((*specs[job.pk], held[job.pk]) for job in present),
        classification.from_row(current),
        inferred.profile,
        snapshot,
        current_allowances(),
    )
    until, previewed = time.monotonic() + BUDGET_S, []
    for job, job_preview in zip(present, previews, strict=True):
        units = sum(held_units.units for held_units in held[job.pk])
        servers = _servers(job_preview, snapshot)
        previewed.append(PreviewedJob(job, units or None, job_preview, servers))
        if time.monotonic() > until:
            break
    return previewed


def _specs(jobs: Sequence[Job]) -> Mapping[UUID, tuple[JobSpec, float]]:
    """Read the spec of each job, and its elapsed seconds: until now or until it was placed."""
    now = cluster_time()
    delay_s = START_DELAY_S * now.speed
    placed_s = {job.pk: job.placed_s for job in jobs if job.state in ACTIVE_STATES}
    specs = {}
    for job in claimed_jobs(
        [job.pk for job in jobs], cluster_s=now.cluster_s, start_delay_s=delay_s
    ):
        elapsed_s = job.elapsed_s
        if (at_s := placed_s.get(job.id)) is not None:
            elapsed_s = max(0.0, at_s + delay_s - job.submitted_s)
        specs[job.id] = job.spec, elapsed_s
    return specs


def _held_units(job_ids: Sequence[UUID], snapshot: Snapshot) -> Mapping[UUID, list[HeldUnits]]:
    index = {pk: i for i, pk in enumerate(snapshot.topology.server_id.tolist())}
    held: dict[UUID, list[HeldUnits]] = defaultdict(list)
    live = Allocation.objects.filter(IN_USE, job_id__in=job_ids, released_seq=None)
    for row in live.order_by("id"):
        if row.server_id in index:
            caused = np.array(row.caused, dtype=np.float64)
            held[row.job_id].append(HeldUnits(index[row.server_id], row.cores, caused))
    return held


def _servers(preview: JobPreview, snapshot: Snapshot) -> list[tuple[str, str]]:
    topology = snapshot.topology
    return [
        (
            topology.server_name[headroom.server],
            topology.platform_name[topology.server_platform[headroom.server]],
        )
        for headroom in preview.headrooms
    ]
