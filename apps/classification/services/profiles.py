"""Profiles: the known cells of an application, folded into the current revision.

A new measurement inserts a `PendingFold`. A worker infers the profile and deletes that row in one
transaction, so every measurement is used and none is folded in twice.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Max

from apps.classification import selectors
from apps.classification.core.cells import KnownCell
from apps.classification.core.estimators import DEFAULT
from apps.classification.core.inference import infer_profile, without_application
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


class InferredProfile(NamedTuple):
    """A profile that is not stored, and its JSON from `selectors.cells_of`."""

    profile: Profile
    cells: dict[str, Any]


def request_folds(application_ids: Iterable[UUID]) -> None:
    """Request new profiles, one per application, in the caller's transaction."""
    PendingFold.objects.bulk_create(
        (PendingFold(application_id=key) for key in sorted(set(application_ids))),
        ignore_conflicts=True,
    )


def request_profiles(application_ids: Iterable[UUID]) -> set[UUID]:
    """Request profiling of applications without a profile; return those without one.

    In the caller's transaction. Applications that are being profiled, or wait for their fold, are
    not profiled twice.

    Raises
    ------
    ValueError : the cluster has no server to profile on.
    """
    locked = {application.id for application in lock_applications(application_ids)}
    awaited = locked - selectors.current_profile_ids(locked).keys()
    request_runs(awaited - _awaited(awaited))
    return awaited


def fold_pending(*, limit: int = BATCH) -> int:
    """Infer the requested profiles, oldest request first; return the number of requests handled.

    Each application has its own transaction: if inference fails, only the jobs of that application
    fail, with the reason.
    """
    requests = PendingFold.objects.order_by("requested_at").values_list(
        "application_id", flat=True
    )
    keys = list(requests[:limit])
    # before any row is locked: after an installation this compiles kernels for seconds
    selectors.warm_up()
    for key in keys:
        _fold_one(key)
    return len(keys)


def _fold_one(application_id: UUID) -> None:
    with transaction.atomic():
        # requests are inserted under this lock, so none can arrive in between
        (application,) = lock_applications([application_id])
        if not PendingFold.objects.filter(application=application).delete()[0]:
            return  # another worker was first
        try:
            classify(application)
        except ValueError as error:
            # no library, or an impossible value: drop the request anyway, or it would block all
            # later ones
            logger.warning("%s cannot be classified: %s", application.name, error)
            fail_jobs(application.id, reason=Reason.UNCLASSIFIABLE, message=str(error))
            return
        workloads.queue_profiled(application.id)
        record_profiled(application)


def classify(application: Application) -> ProfileRow:
    """Infer and store a new current profile of an application.

    In the caller's transaction, which must lock the application's row.

    Raises
    ------
    NoLibraryError : there is no revision yet.
    """
    profile, cells = infer(application, selectors.known_cells_of(application.id))
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


def infer(application: Application, known: Sequence[KnownCell]) -> InferredProfile:
    """Infer a profile from known cells and the current revision, without storing it.

    Raises
    ------
    NoLibraryError : there is no revision yet.
    """
    library = without_application(selectors.current_library(), application.name)
    platforms = library.matrices[MatrixName.HETEROGENEITY].columns
    profile = infer_profile(
        application.name,
        application.kind,
        known,
        library,
        platforms=platforms,
    )
    columns = {name: matrix.columns for name, matrix in library.matrices.items()}
    return InferredProfile(profile, selectors.cells_of(profile, known, columns))


def request_all_folds() -> int:
    """Request a new profile of every application that has one; return their number.

    Needed after a new revision: older profiles do not cover new platforms, so no job would be
    placed there.
    """
    with transaction.atomic():
        rows = ProfileRow.objects.filter(is_current=True)
        known = list(rows.values_list("application_id", flat=True))
        request_folds(known)
    return len(known)


def requeue_waiting_jobs() -> int:
    """Requeue jobs that wait for a profile without a run or fold; return the applications.

    Jobs enter profiling and runs end under the lock of the application's row, so this happens only
    after manual changes of rows or the removal of a backend.
    """
    waiting = set(
        Job.objects.filter(state=JobState.PROFILING).values_list("application_id", flat=True)
    )
    stuck = sorted(waiting - _awaited(waiting))
    for application_id in stuck:
        with transaction.atomic():
            (application,) = lock_applications([application_id])
            is_known = selectors.current_profile_ids([application_id])
            if is_known or application.runs_commands:
                workloads.queue_profiled(application_id)
            else:
                request_runs([application_id])
    return len(stuck)


def _awaited(applications: Sequence[UUID] | set[UUID]) -> set[UUID]:
    """Return applications that are being profiled or wait for their fold."""
    measured = ProfilingRun.objects.filter(
        application_id__in=applications, state__in=[RunState.QUEUED, RunState.RUNNING]
    )
    pending = PendingFold.objects.filter(application_id__in=applications)
    return set(measured.values_list("application_id", flat=True)) | set(
        pending.values_list("application_id", flat=True)
    )
