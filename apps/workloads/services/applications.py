"""Applications that are made or changed by hand."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.common.core.errors import ConflictError
from apps.common.core.preconditions import require_generation
from apps.operations.services import NewEvent, record_events
from apps.workloads.models import Application


def create_application(
    *, name: str, kind: str, description: str = "", labels: Mapping[str, str] | None = None
) -> Application:
    """Add an application before its first job.

    Raises
    ------
    ConflictError : the name is taken.
    """
    with transaction.atomic():
        made, is_new = Application.objects.get_or_create(
            name=name,
            defaults={"kind": kind, "description": description, "labels": dict(labels or {})},
        )
        if not is_new:
            msg = f"there is an application {name} already"
            raise ConflictError(msg)
        record_events([_application_event("application.created", made)])
    return made


def update_application(
    application_id: UUID, changes: Mapping[str, Any], *, expected: int | None = None
) -> Application:
    """Change an application's description or labels.

    Raises
    ------
    ChangedMeanwhileError : it is not at the generation ``expected`` any more.
    """
    with transaction.atomic():
        application = Application.objects.select_for_update().get(pk=application_id)
        require_generation(expected, application.generation)
        for name in ("description", "labels"):
            setattr(application, name, changes.get(name, getattr(application, name)))
        application.generation += 1
        application.save()
        record_events([_application_event("application.updated", application)])
    return application


def _application_event(kind: str, application: Application) -> NewEvent:
    return NewEvent(
        topic="applications",
        kind=kind,
        subject=str(application.pk),
        data={"name": application.name},
    )
