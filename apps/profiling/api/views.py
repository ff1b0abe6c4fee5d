"""Profiling runs: list, detail and request."""

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.common.api.inputs import validated
from apps.common.api.paging import Order
from apps.common.api.queries import ListQuery, choice, choices, exact
from apps.common.api.views import ApiView, ListView, answer
from apps.common.core.errors import NotFoundError
from apps.common.core.keyed_requests import KeyedResponse
from apps.operations.api.idempotency import once
from apps.profiling import selectors
from apps.profiling.api.serializers import (
    ProfilingRequestSerializer,
    ProfilingRunSerializer,
    represent_run,
)
from apps.profiling.models import ProfilingRun, RunState
from apps.profiling.services import request_run
from apps.workloads.api.application_views import named_application


class ProfilingRunList(ListView):
    """All profiling runs, newest first."""

    row_serializer = ProfilingRunSerializer
    orders: ClassVar = {"-created_at": Order(("created_at", "id"), descending=True)}
    filters: ClassVar = {
        "state": choice("state", RunState.values, "In this state."),
        "state__in": choices("state", RunState.values, "In any of these states."),
        "application": exact("application__name", "Of the application with this name."),
    }

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[ProfilingRun]:
        """Return all runs."""
        return selectors.runs()

    def represent(self, row: ProfilingRun) -> dict[str, Any]:
        """JSON of a run."""
        return represent_run(row, principal_of(self.request))


class ApplicationRunList(ProfilingRunList):
    """The profiling runs of one application, newest first; POST requests another one."""

    filters: ClassVar = {
        name: query for name, query in ProfilingRunList.filters.items() if name != "application"
    }
    takes_key = True

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[ProfilingRun]:
        """Return the application's runs."""
        return selectors.runs().filter(application=named_application(kwargs["key"]))

    @extend_schema(request=ProfilingRequestSerializer, responses={202: ProfilingRunSerializer})
    def post(self, request: Request, key: str) -> Response:
        """Profile an application; new measurements are added to existing ones.

        The Location is the operation that shows the progress and can be cancelled. The current
        profile is used until then.
        """
        application, principal = named_application(key), principal_of(request)
        body = request.data or {}
        reason = validated(ProfilingRequestSerializer, body).get("reason", "")

        def create() -> KeyedResponse:
            run = request_run(application.pk, requested_by=principal.user_id, reason=reason)
            location = f"/api/v1/operations/{run.operation_id}/"
            return KeyedResponse(202, location, represent_run(run, principal))

        return once(request, body, create)


class ProfilingRunDetail(ApiView):
    """One profiling run."""

    @extend_schema(responses=ProfilingRunSerializer)
    def get(self, request: Request, run_id: UUID) -> Response:
        """Return a run: its plan, cost, progress and result."""
        run = selectors.runs().filter(pk=run_id).first()
        if run is None:
            raise NotFoundError(f"There is no profiling run {run_id}.")
        return answer(request, represent_run(run, principal_of(request)))
