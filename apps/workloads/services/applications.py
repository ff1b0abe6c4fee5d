"""Create and update applications."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from apps.accounts.services import Act, record_act
from apps.common.core.errors import ConflictError
from apps.common.core.preconditions import require_generation
from apps.operations.services import NewEvent, record_events
from apps.workloads.core.addresses import require_addressable
from apps.workloads.core.commands import MAX_APPLICATION, orphaned_application, owner_prefix
from apps.workloads.models import Application


def create_application(
    *, name: str, kind: str, description: str = "", labels: Mapping[str, str] | None = None
) -> Application:
    """Add an application before its first job.

    Raises
    ------
    ConflictError : the name is in use.
    InvalidInputError : its address would be that of something else.
    """
    require_addressable(name, at="/name")
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


def follow_rename(name: str, to: str) -> Callable[[], None]:
    """Lock the applications that only one project profiles, before the project is renamed.

    Returns
    -------
    the function that renames them in the same transaction, once the project is locked. It raises
    `ConflictError` if a new name is too long or in use, or a job has added an application.
    """
    prefix, new_prefix = owner_prefix(name), owner_prefix(to)
    return _renamer(name, lambda row: new_prefix + row.name.removeprefix(prefix))


def follow_deletion(name: str) -> Callable[[], None]:
    """Lock the applications that only one project profiles, before the project is deleted.

    Their measurements and profiles are kept, but a later project of the same name does not get
    them.

    Returns
    -------
    as `follow_rename`
    """
    return _renamer(name, lambda row: orphaned_application(name, row.name, key=row.pk))


def _renamer(name: str, new_name: Callable[[Application], str]) -> Callable[[], None]:
    # Not FOR UPDATE: a job that the lock of the project waits for may refer to the application.
    rows = _owned(name).select_for_update(no_key=True).order_by("pk")
    known = {row.pk for row in rows}

    def follow() -> None:
        owned = list(_owned(name))
        if not {row.pk for row in owned} <= known:
            raise ConflictError(f"A job has added an application to {name} meanwhile: try again.")
        _rename(sorted(owned, key=lambda row: row.name), new_name)

    return follow


def _owned(project: str) -> QuerySet[Application]:
    return Application.objects.filter(name__startswith=owner_prefix(project))


def _rename(applications: Sequence[Application], new_name: Callable[[Application], str]) -> None:
    """Rename applications.

    Parameters
    ----------
    applications : locked, by name, because a new name waits for jobs that add the same names
    """
    names = [row.name for row in applications]
    for row in applications:
        row.name = new_name(row)
        row.generation += 1
        if len(row.name) > MAX_APPLICATION:
            msg = f"The application {row.name} would have more than {MAX_APPLICATION} characters."
            raise ConflictError(msg)
        try:
            row.save(update_fields=["name", "generation", "updated_at"])
        except IntegrityError as error:
            raise ConflictError(f"An application named {row.name} already exists.") from error
    for row, name in zip(applications, names, strict=True):
        target = str(row.pk), name
        record_act(Act("application.updated", *target, {"name": name}, {"name": row.name}))
    record_events([_application_event("application.updated", row) for row in applications])


def _described(application: Application) -> dict[str, Any]:
    return {"description": application.description, "labels": application.labels}


def _application_event(kind: str, application: Application) -> NewEvent:
    return NewEvent(
        topic="applications",
        kind=kind,
        subject=str(application.pk),
        data={"name": application.name},
    )
