"""Imported reports of `berth profile`, and the keys that sign them."""

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import F, QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.accounts.core.roles import Role
from apps.classification.services.reports import add_key, import_report, remove_key
from apps.common.api.inputs import validated
from apps.common.api.paging import Order
from apps.common.api.queries import ListQuery, exact
from apps.common.api.representations import time
from apps.common.api.views import ApiView, ListView
from apps.common.core.keyed_requests import KeyedResponse
from apps.operations.api.idempotency import once
from apps.profiling.models import ImportedReport, ReportKey

NEWEST_FIRST = {"-created_at": Order(("created_at", "id"), descending=True)}


class ReportKeyRequestSerializer(serializers.Serializer[Any]):
    """A key to trust."""

    name = serializers.CharField(max_length=63)
    key = serializers.CharField(
        max_length=4096, help_text="Text of the key file, at least 32 bytes; never shown again."
    )


class ReportKeySerializer(serializers.Serializer[Any]):
    """A trusted key, without its secret."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    created_by = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()


class ReportRequestSerializer(serializers.Serializer[Any]):
    """A report to import."""

    report = serializers.DictField(help_text="As `berth profile --report --key` wrote it.")
    application = serializers.CharField(
        max_length=127, allow_null=True, default=None, help_text="Null: named as its program."
    )


class ImportedReportSerializer(serializers.Serializer[Any]):
    """An imported report."""

    id = serializers.UUIDField()
    application = serializers.CharField()
    digest = serializers.CharField(help_text="Id of the report; it is imported once.")
    key = serializers.CharField(help_text="Name of the key that signed it.")
    command = serializers.ListField(child=serializers.CharField())
    cells = serializers.IntegerField(help_text="Measurements that it gave.")
    created_by = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()


def represent_key(key: ReportKey) -> dict[str, Any]:
    """JSON of a key."""
    return {
        "id": str(key.pk),
        "name": key.name,
        "created_by": key.created_by.username if key.created_by else None,
        "created_at": time(key.created_at),
    }


def represent_report(report: ImportedReport, command: list[str]) -> dict[str, Any]:
    """JSON of an imported report; lists read its command without the large rest."""
    return {
        "id": str(report.pk),
        "application": report.application.name,
        "digest": report.digest,
        "key": report.key_name,
        "command": command,
        "cells": report.cells,
        "created_by": report.created_by.username if report.created_by else None,
        "created_at": time(report.created_at),
    }


class ReportKeyList(ListView):
    """Trusted keys of reports; for administrators."""

    read_role = Role.ADMIN
    write_role = Role.ADMIN
    takes_key = True
    row_serializer = ReportKeySerializer
    orders: ClassVar = NEWEST_FIRST

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[ReportKey]:
        """Return all keys."""
        return ReportKey.objects.select_related("created_by").defer("secret")

    def represent(self, row: ReportKey) -> dict[str, Any]:
        """Return a key as JSON."""
        return represent_key(row)

    @extend_schema(request=ReportKeyRequestSerializer, responses={201: ReportKeySerializer})
    def post(self, request: Request) -> Response:
        """Trust a key: reports that it signed can be imported."""
        asked = validated(ReportKeyRequestSerializer, request.data or {})

        def create() -> KeyedResponse:
            secret = asked["key"].strip().encode()
            by = principal_of(request).user_id
            key = add_key(name=asked["name"], secret=secret, by=by)
            return KeyedResponse(201, f"/api/v1/report-keys/{key.pk}/", represent_key(key))

        return once(request, request.data, create)


class ReportKeyDetail(ApiView):
    """One trusted key."""

    write_role = Role.ADMIN

    @extend_schema(responses={204: None})
    def delete(self, request: Request, key_id: UUID) -> Response:
        """Trust a key no longer; imported reports stay."""
        remove_key(key_id, by=principal_of(request).user_id)
        return Response(status=204)


class ReportList(ListView):
    """Imported reports of real profiles."""

    write_role = Role.OPERATOR
    takes_key = True
    row_serializer = ImportedReportSerializer
    orders: ClassVar = NEWEST_FIRST
    filters: ClassVar = {
        "application": exact("application__name", "Of the application with this name.")
    }

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[ImportedReport]:
        """Return all imported reports."""
        rows = ImportedReport.objects.select_related("application", "created_by")
        return rows.defer("report").annotate(command=F("report__command"))

    def represent(self, row: Any) -> dict[str, Any]:
        """Return a report as JSON."""
        return represent_report(row, row.command)

    @extend_schema(request=ReportRequestSerializer, responses={201: ImportedReportSerializer})
    def post(self, request: Request) -> Response:
        """Import a signed report: its scores become measurements of the application.

        A report is imported once: another request returns the stored one.
        """
        asked = validated(ReportRequestSerializer, request.data or {})

        def create() -> KeyedResponse:
            imported = import_report(
                asked["report"],
                application=asked["application"],
                by=principal_of(request).user_id,
            )
            location = f"/api/v1/profile-reports/?application={imported.application.name}"
            shown = represent_report(imported, imported.report["command"])
            return KeyedResponse(201, location, shown)

        return once(request, request.data, create)
