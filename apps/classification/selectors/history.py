"""History of an application: measurements, prediction errors, overrides."""

from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet

from apps.classification.models import Override, PendingFold, PredictionError
from apps.classification.models import Profile as ProfileRow
from apps.profiling.models import Measurement


def current_profile(application_id: UUID) -> ProfileRow | None:
    """Return the current profile with its application and drift; None before the first profile.

    The annotation ``is_pending`` is true while an update is due.
    """
    rows = ProfileRow.objects.filter(application_id=application_id, is_current=True)
    pending = PendingFold.objects.filter(application_id=OuterRef("application_id"))
    return (
        rows.select_related("application", "application__drift")
        .annotate(is_pending=Exists(pending))
        .first()
    )


def measurements_of(application_id: UUID) -> QuerySet[Measurement]:
    """Return all measurements of an application."""
    return Measurement.objects.filter(application_id=application_id)


def prediction_errors_of(application_id: UUID) -> QuerySet[PredictionError]:
    """Return the prediction errors of an application with their jobs and profiles."""
    rows = PredictionError.objects.filter(application_id=application_id)
    return rows.select_related("job", "profile").only(
        "number",
        "cluster_s",
        "predicted",
        "measured",
        "deviation",
        "beyond",
        "job__name",
        "job__project_id",
        "job__target_kind",
        "profile__number",
    )


def overrides_of(application_id: UUID, *, withdrawn: bool = False) -> QuerySet[Override]:
    """Return overrides in force with their authors; with ``withdrawn``, withdrawn ones too."""
    rows = Override.objects.filter(application_id=application_id).select_related("created_by")
    return rows if withdrawn else rows.filter(withdrawn_at=None)
