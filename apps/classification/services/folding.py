"""Profiles: the few measurements of an application, folded into the revision in force.

Whoever learns something of an application writes a `PendingFold`; a worker draws the profile and
deletes the row in one transaction, so nothing measured is forgotten and nothing is folded twice.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Max

from apps.classification import selectors
from apps.classification.core.assemble import assemble, without
from apps.classification.core.cells import KnownCell
from apps.classification.core.estimators import DEFAULT
from apps.classification.core.matrix import MatrixName
from apps.classification.core.profile import Profile
from apps.classification.models import PendingFold
from apps.classification.models import Profile as ProfileRow
from apps.profiling.models import ProfilingRun, RunState
from apps.profiling.services import (
    fail_jobs,
    lock_applications,
    record_profiled,
    request_runs,
)
from apps.workloads import services as workloads
from apps.workloads.core.lifecycle import JobState
from apps.workloads.core.reasons import Reason
from apps.workloads.models import Application, Job

logger = logging.getLogger(__name__)

BATCH: Final = 32


class Drawn(NamedTuple):
    """A profile that is not stored, and its JSON as `selectors.cells_of` makes it."""

    profile: Profile
    cells: dict[str, Any]


def request_folds(application_ids: Iterable[UUID]) -> None:
    """Ask for new profiles, once each; in the caller's transaction."""
    PendingFold.objects.bulk_create(
        (PendingFold(application_id=key) for key in sorted(set(application_ids))),
        ignore_conflicts=True,
    )


def request_profiles(application_ids: Iterable[UUID]) -> set[UUID]:
    """See that each application without a profile gets one; returns those that are still awaited.

    In the caller's transaction. Of one that is being measured, or was and waits for its fold, no
    other run is asked; one that has got its profile meanwhile is not awaited.

    Raises
    ------
    ValueError : the cluster has no server to profile on.
    """
    locked = {application.id for application in lock_applications(application_ids)}
    awaited = locked - selectors.current_profile_ids(locked).keys()
    request_runs(awaited - _awaited(awaited))
    return awaited


def fold_pending(*, limit: int = BATCH) -> int:
    """Draw the profiles that are wanted, oldest wish first; returns how many wishes are done.

    Every application is a transaction of its own: one that cannot be folded fails its jobs with
    the reason and holds up no other.
    """
    wanted = PendingFold.objects.order_by("requested_at").values_list("application_id", flat=True)
    keys = list(wanted[:limit])
    # read and fitted before any row is locked, and before the first application needs it: after an
    # installation the kernels are compiled here, which takes seconds
    selectors.warm_up()
    for key in keys:
        _fold_one(key)
    return len(keys)


def _fold_one(application_id: UUID) -> None:
    with transaction.atomic():
        # whoever writes a wish holds the application's row, so none comes in between
        (application,) = lock_applications([application_id])
        if not PendingFold.objects.filter(application=application).delete()[0]:
            return  # another worker was first
        try:
            classify(application)
        except ValueError as error:
            # no library, or a cell that cannot be a measurement: the wish is gone either way, or
            # the oldest of them would keep all others waiting for ever
            logger.warning("%s cannot be classified: %s", application.name, error)
            fail_jobs(application.id, reason=Reason.UNCLASSIFIABLE, message=str(error))
            return
        workloads.queue_profiled(application.id)
        record_profiled(application)


def classify(application: Application) -> ProfileRow:
    """Fold what is known of an application into a new current profile.

    In the caller's transaction, which holds the application's row.

    Raises
    ------
    NoLibraryError : there is no library to fold into.
    """
    profile, cells = draw(application, selectors.known_cells_of(application.id))
    earlier = ProfileRow.objects.filter(application=application)
    last = earlier.aggregate(last=Max("number"))["last"] or 0
    earlier.filter(is_current=True).update(is_current=False)
    return ProfileRow.objects.create(
        application=application,
        number=last + 1,
        revision=profile.revision,
        estimator=DEFAULT,
        cells=cells,
        flags=list(profile.flags),
    )


def draw(application: Application, known: Sequence[KnownCell]) -> Drawn:
    """Fold cells of an application into the revision in force; writes nothing.

    Raises
    ------
    NoLibraryError : there is no library to fold into.
    """
    library = without(selectors.current_library(), application.name)
    platforms = library.matrices[MatrixName.HETEROGENEITY].columns
    profile = assemble(
        application.name,
        application.kind,
        [cell.cell for cell in known],
        library,
        platforms=platforms,
    )
    columns = {name: matrix.columns for name, matrix in library.matrices.items()}
    return Drawn(profile, selectors.cells_of(profile, known, columns))


def classify_again() -> int:
    """Ask for a new profile of every application that has one; returns how many.

    After a new revision: a profile of the one before knows nothing of new platforms, so its jobs
    would never be placed there.
    """
    with transaction.atomic():
        rows = ProfileRow.objects.filter(is_current=True)
        known = list(rows.values_list("application_id", flat=True))
        request_folds(known)
    return len(known)


def repair_waiting() -> int:
    """Move on the jobs that wait for a profile which nobody is about to make.

    Sends of jobs to profiling and ends of runs hold the application's row, so this finds something
    only after somebody changed rows by hand or a backend was removed. Returns the applications
    repaired.
    """
    waiting = set(
        Job.objects.filter(state=JobState.PROFILING).values_list("application_id", flat=True)
    )
    stuck = sorted(waiting - _awaited(waiting))
    for application_id in stuck:
        with transaction.atomic():
            lock_applications([application_id])
            if selectors.current_profile_ids([application_id]):
                workloads.queue_profiled(application_id)
            else:
                request_runs([application_id])
    return len(stuck)


def _awaited(applications: Sequence[UUID] | set[UUID]) -> set[UUID]:
    """Those that are being measured or wait for their fold."""
    measured = ProfilingRun.objects.filter(
        application_id__in=applications, state__in=[RunState.QUEUED, RunState.RUNNING]
    )
    pending = PendingFold.objects.filter(application_id__in=applications)
    return set(measured.values_list("application_id", flat=True)) | set(
        pending.values_list("application_id", flat=True)
    )
