"""What corrections by hand would change for an application's jobs; writes nothing."""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np
from django.db.models import Case, QuerySet, Value, When

from apps.accounts.core.principal import Principal
from apps.classification import selectors as classification
from apps.classification.core.differences import CellChange, cell_changes
from apps.classification.models import Profile as ProfileRow
from apps.classification.services import Drawn, NewOverride, check_overrides
from apps.inventory.core.snapshot import Snapshot
from apps.inventory.selectors import cluster_clock
from apps.scheduling.core.ask import START_DELAY_S, Ask
from apps.scheduling.core.preview import Holding, JobPreview, preview
from apps.scheduling.models import Allocation
from apps.scheduling.selectors import AT_WORK, claimed_jobs
from apps.scheduling.services.check import frozen_cluster
from apps.workloads.core.lifecycle import ACTIVE_STATES, WAITING_STATES
from apps.workloads.models import Application, Job
from apps.workloads.selectors import visible_jobs

MOST_JOBS: Final = 1000
BUDGET_S: Final = 5.0  # of wall time: a preview that takes longer is none

Draw = Callable[[Application, Sequence[NewOverride]], Drawn]


class PreviewedJob(NamedTuple):
    """A job looked at; ``servers`` are the names and platforms of its stands."""

    job: Job
    units_held: int | None
    found: JobPreview
    servers: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Preview:
    """What would change.

    Attributes
    ----------
    profile : the current one; None = never profiled, corrections come in with the first one
    revision : that the next profile is drawn from
    cells : of the profile, those that change
    jobs : those that change, waiting ones first and then as the agent takes them
    examined, total : jobs looked at in the time there is, and jobs there are
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
    draw: Draw,
    limit: int = MOST_JOBS,
) -> Preview:
    """Have the profile drawn that corrections would give, and size the jobs in sight by both.

    Costs two sizings for each job, and a read of what changed in the cluster since the last one.

    Parameters
    ----------
    draw : draws that profile; `classification.tasks.draft_by_worker` where numba is not wanted
    limit : most jobs to look at

    Raises
    ------
    InvalidInputError : names each cell that cannot be.
    ConflictError, TransientError : as ``draw``.
    """
    check_overrides(cells, kind=application.kind)
    current = classification.current_profile(application.pk)
    drawn = draw(application, cells)
    every = _jobs(caller, application)
    jobs = list(every[:limit]) if current else []
    found = _previewed(jobs, current, drawn) if current and jobs else []
    return Preview(
        application=application,
        profile=current,
        revision=drawn.profile.revision,
        cells=cell_changes(current.cells if current else {}, drawn.cells),
        jobs=[one for one in found if one.found.is_changed],
        examined=len(found),
        total=len(jobs) if current and len(jobs) < limit else every.count(),
    )


def _jobs(caller: Principal, application: Application) -> QuerySet[Job]:
    """Jobs that have not ended; the waiting first, each as the agent takes them."""
    states = [state.value for state in WAITING_STATES | ACTIVE_STATES]
    waits = When(state__in=[state.value for state in WAITING_STATES], then=Value(0))
    return (
        visible_jobs(caller)
        .filter(application=application, state__in=states)
        .order_by(Case(waits, default=Value(1)), "-priority", "created_at", "id")
    )


def _previewed(jobs: Sequence[Job], current: ProfileRow, drawn: Drawn) -> list[PreviewedJob]:
    """Preview jobs in their order, as many as time allows."""
    snapshot = frozen_cluster()
    holdings = _holdings([job.pk for job in jobs if job.state in ACTIVE_STATES], snapshot)
    asks = _asks(jobs)
    asked = [job for job in jobs if job.pk in asks]  # one may have gone since
    previews = preview(
        ((asks[job.pk], holdings[job.pk]) for job in asked),
        classification.from_row(current),
        drawn.profile,
        snapshot,
    )
    until, found = time.monotonic() + BUDGET_S, []
    for job, one in zip(asked, previews, strict=True):
        held = sum(holding.units for holding in holdings[job.pk])
        found.append(PreviewedJob(job, held or None, one, _servers(one, snapshot)))
        if time.monotonic() > until:
            break
    return found


def _asks(jobs: Sequence[Job]) -> Mapping[UUID, Ask]:
    """Read what each job asks: now, or when it was placed where it runs already."""
    clock = cluster_clock()
    delay_s = START_DELAY_S * clock.speed
    begun = {job.pk: job.placed_s for job in jobs if job.state in ACTIVE_STATES}
    asks = {}
    for seen in claimed_jobs(
        [job.pk for job in jobs], cluster_s=clock.at(time.time()), start_delay_s=delay_s
    ):
        placed_s = begun.get(seen.id)
        ask = seen.ask
        if placed_s is not None:
            ask = replace(ask, elapsed_s=max(0.0, placed_s + delay_s - seen.submitted_s))
        asks[seen.id] = ask
    return asks


def _holdings(job_ids: Sequence[UUID], snapshot: Snapshot) -> Mapping[UUID, list[Holding]]:
    index = {pk: i for i, pk in enumerate(snapshot.topology.server_id.tolist())}
    found: dict[UUID, list[Holding]] = defaultdict(list)
    live = Allocation.objects.filter(AT_WORK, job_id__in=job_ids, released_seq=None)
    for row in live.order_by("id"):
        if row.server_id in index:
            caused = np.array(row.caused, dtype=np.float64)
            found[row.job_id].append(Holding(index[row.server_id], row.cores, caused))
    return found


def _servers(found: JobPreview, snapshot: Snapshot) -> list[tuple[str, str]]:
    topology = snapshot.topology
    return [
        (
            topology.server_name[stand.server],
            topology.platform_name[topology.server_platform[stand.server]],
        )
        for stand in found.stands
    ]
