"""Create and update applications."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.accounts.services import Act, record_act
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
    ConflictError : the name is in use.
    """
    with transaction.atomic():
        application, is_new = Application.objects.get_or_create(
            name=name,
            defaults={"kind": kind, "description": description, "labels": dict(labels or {})},
        )
        if not is_new:
            msg = f"the application {name} already exists"
            raise ConflictError(msg)
        after = {"kind": kind, **_described(application)}
        record_act(Act("application.created", str(application.pk), name, after=after))
        record_events([_application_event("application.created", application)])
    return application


def update_application(
    application_id: UUID, changes: Mapping[str, Any], *, expected: int | None = None
) -> Application:
    """Change an application's description or labels.

    Raises
    ------
    ChangedMeanwhileError : its generation is no longer ``expected``.
    """
    with transaction.atomic():
        application = Application.objects.select_for_update().get(pk=application_id)
        require_generation(expected, application.generation)
        before = _described(application)
        for name in ("description", "labels"):
            setattr(application, name, changes.get(name, getattr(application, name)))
        application.generation += 1
        application.save()
        target = str(application.pk), application.name
        record_act(Act("application.updated", *target, before, _described(application)))
        record_events([_application_event("application.updated", application)])
    return application


def _described(application: Application) -> dict[str, Any]:
    return {"description": application.description, "labels": application.labels}


def _application_event(kind: str, application: Application) -> NewEvent:
    return NewEvent(
        topic="applications",
        kind=kind,
        subject=str(application.pk),
        data={"name": application.name},
    )
