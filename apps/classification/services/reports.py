"""Import of reports of `berth profile`: signed measurements of programs from other machines."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from apps.accounts.services import Act, record_act
from apps.classification import selectors
from apps.classification.services.profiles import request_folds
from apps.common.core.errors import ConflictError, FieldProblem, InvalidInputError, NotFoundError
from apps.inventory.selectors import cluster_now
from apps.profiling.core.imported import report_cells, report_problems
from apps.profiling.core.measurements import MeasuredCell
from apps.profiling.core.report import MIN_KEY_BYTES, UntrustedReportError, canonical, verify
from apps.profiling.models import ImportedReport, Measurement, ProfilingRun, ReportKey
from apps.profiling.services import lock_applications, record_profiled
from apps.workloads.core.addresses import require_addressable
from apps.workloads.core.commands import application_of
from apps.workloads.models import Application

SOURCE: Final = "report"  # of the measurements
MAX_REPORT_BYTES: Final = 1 << 19


def add_key(*, name: str, secret: bytes, by: UUID | None) -> ReportKey:
    """Trust a key.

    Raises
    ------
    InvalidInputError : it is too short.
    ConflictError : the name is in use.
    """
    if len(secret) < MIN_KEY_BYTES:
        detail = f"must have at least {MIN_KEY_BYTES} bytes, not {len(secret)}"
        raise InvalidInputError([FieldProblem("/key", "too_short", detail)])
    with transaction.atomic():
        key, is_new = ReportKey.objects.get_or_create(
            name=name, defaults={"secret": secret, "created_by_id": by}
        )
        if not is_new:
            raise ConflictError(f"A report key named {name} already exists.")
        record_act(Act("report_key.added", str(key.pk), name), by=by)
    return key


def remove_key(key_id: UUID, *, by: UUID | None) -> None:
    """Trust a key no longer; imported reports stay.

    Raises
    ------
    NotFoundError : there is none with this id.
    """
    with transaction.atomic():
        key = ReportKey.objects.filter(pk=key_id).first()
        if key is None:
            raise NotFoundError(f"There is no report key {key_id}.")
        key.delete()
        record_act(Act("report_key.removed", str(key_id), key.name), by=by)


def import_report(
    sealed: Mapping[str, Any], *, application: str | None, by: UUID | None
) -> ImportedReport:
    """Store the measurements of a signed report; a report that is known is returned as it is.

    Parameters
    ----------
    application : name; None = that of the program

    Raises
    ------
    InvalidInputError : names the field of the report that is wrong or not trusted.
    ConflictError : the application is emulated, or the report was imported for another one.
    """
    key = _trusted_key(sealed)
    problems = report_problems(sealed)
    if problems:
        raise InvalidInputError(problems)
    name = application or application_of(tuple(sealed["command"]))
    cells = report_cells(sealed)
    with transaction.atomic():
        row = _lock(name)
        values = {
            "application": row,
            "key_name": key.name,
            "report": dict(sealed),
            "cells": len(cells),
            "created_by_id": by,
        }
        # two requests with one report meet at its digest, whatever applications they name
        imported, is_new = ImportedReport.objects.get_or_create(
            digest=sealed["digest"], defaults=values
        )
        if not is_new:
            return _known(imported, row)
        _store(row, cells)
        if selectors.current_profile_ids([row.pk]):
            request_folds([row.pk])
        record_act(Act("report.imported", str(imported.pk), name, after={"key": key.name}), by=by)
        record_profiled(row)
    return imported


def record_profile(sealed: Mapping[str, Any], *, run: ProfilingRun, key_name: str) -> int:
    """Store the measurements of a profiling run of a command; returns their number.

    Runs in the caller's transaction, which holds the lock of the application.

    Raises
    ------
    InvalidInputError : names the field of the report that is wrong.
    """
    _require_digest(sealed)
    problems = report_problems(sealed)
    if problems:
        raise InvalidInputError(problems)
    cells = report_cells(sealed)
    ImportedReport.objects.get_or_create(
        digest=sealed["digest"],
        defaults={
            "application": run.application,
            "key_name": key_name,
            "report": dict(sealed),
            "cells": len(cells),
        },
    )
    _store(run.application, cells, run=run)
    return len(cells)


def _trusted_key(sealed: Mapping[str, Any]) -> ReportKey:
    """Return the key that signed a report.

    Raises
    ------
    InvalidInputError : it is too large, or digest or signature are wrong.
    """
    _require_digest(sealed)
    if not isinstance(sealed.get("signature"), dict):
        detail = "is required: sign the report with berth profile --key"
        raise InvalidInputError([FieldProblem("/report/signature", "required", detail)])
    for key in ReportKey.objects.order_by("name"):
        try:
            verify(sealed, bytes(key.secret))
        except UntrustedReportError:
            continue
        return key
    detail = "is of no trusted key; an administrator adds keys at /api/v1/report-keys/"
    raise InvalidInputError([FieldProblem("/report/signature", "untrusted", detail)])


def _require_digest(sealed: Mapping[str, Any]) -> None:
    try:
        size = len(canonical(sealed))
        verify(sealed, None)
    except (UntrustedReportError, ValueError) as error:
        raise InvalidInputError(
            [FieldProblem("/report/digest", "mismatch", str(error))]
        ) from error
    if size > MAX_REPORT_BYTES:
        detail = f"must take at most {MAX_REPORT_BYTES:,} bytes, not {size:,}"
        raise InvalidInputError([FieldProblem("/report", "too_long", detail)])


def _known(imported: ImportedReport, application: Application) -> ImportedReport:
    if imported.application_id != application.pk:
        raise ConflictError(
            f"The report was imported for the application {imported.application.name}."
        )
    return imported


def _lock(name: str) -> Application:
    row, is_new = Application.objects.get_or_create(
        name=name, defaults={"kind": "batch", "runs_commands": True}
    )
    if is_new:
        require_addressable(name, at="/application")
    (locked,) = lock_applications([row.pk])
    if not locked.runs_commands:
        raise ConflictError(
            f"The application {name} is emulated: a report of a program says nothing about it."
        )
    return locked


def _store(
    application: Application, cells: list[MeasuredCell], *, run: ProfilingRun | None = None
) -> None:
    now_s = cluster_now()
    Measurement.objects.bulk_create(
        Measurement(
            application=application,
            run=run,
            matrix=cell.matrix,
            column=cell.column,
            value=cell.value,
            standard_error=cell.standard_error,
            samples=cell.samples,
            cluster_s=now_s,
            source=SOURCE,
        )
        for cell in cells
    )
