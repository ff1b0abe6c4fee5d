"""Profiling runs of applications."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from rest_framework.request import Request

from apps.common.paging import Order
from apps.common.queries import ListQuery, choice
from apps.common.views import ListView
from apps.profiling.api.serializers import ProfilingRunSerializer, represent_run
from apps.profiling.models import ProfilingRun, RunState
from apps.workloads.api.application_views import named_application


class ProfilingRunList(ListView):
    """The profiling runs of one application, newest first."""

    row_serializer = ProfilingRunSerializer
    orders: ClassVar = {"-created_at": Order(("created_at", "id"), descending=True)}
    filters: ClassVar = {"state": choice("state", RunState.values, "In this state.")}

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[ProfilingRun]:
        """Return the application's runs."""
        application = named_application(kwargs["key"])
        return ProfilingRun.objects.filter(application=application).select_related("application")

    def represent(self, row: ProfilingRun) -> dict[str, Any]:
        """JSON of a run."""
        return represent_run(row)
