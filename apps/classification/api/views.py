"""Profiles of applications, size estimates, measurements and prediction errors."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.classification import selectors
from apps.classification.api.serializers import (
    METRICS,
    ORIGINS,
    ClassificationSerializer,
    EstimatesSerializer,
    MeasurementSerializer,
    PredictionErrorSerializer,
    represent_error,
    represent_estimates,
    represent_measurement,
    represent_profile,
)
from apps.classification.core.matrix import MatrixName
from apps.classification.core.size_estimates import MAX_UNITS, SIZES, SizeEstimate, size_estimates
from apps.classification.models import PredictionError, Profile
from apps.common.api.paging import Order
from apps.common.api.problems import ProblemError
from apps.common.api.queries import (
    ListQuery,
    choice,
    exact,
    invalid_parameter,
    number,
    read,
    read_int,
    read_word,
    uid,
    whole,
)
from apps.common.api.views import ApiView, ListView, answer
from apps.common.core.errors import NotFoundError
from apps.common.core.problem_codes import ProblemCode
from apps.profiling.models import Measurement
from apps.workloads.api.application_views import named_application
from apps.workloads.models import Application


def current_profile(key: str) -> Profile:
    """Return the current profile of an application, given by id or name.

    Raises
    ------
    NotFoundError : the application does not exist or has no profile yet.
    """
    application = named_application(key)
    profile = selectors.current_profile(application.pk)
    if profile is None:
        raise NotFoundError(f"{application.name} has no profile yet.")
    return profile


class ClassificationView(ApiView):
    """The current profile of an application."""

    @extend_schema(responses=ClassificationSerializer)
    def get(self, request: Request, key: str) -> Response:
        """Return the current profile with the source of every cell."""
        profile = current_profile(key)
        body = represent_profile(
            profile,
            selectors.current_number(),
            is_pending=profile.is_pending,  # type: ignore[attr-defined]  # annotated
        )
        return answer(request, body)


class EstimatesView(ApiView):
    """Predictions from the current profile of an application."""

    query_parameters = frozenset({"units", "servers", "platform", "metric"})
    repeatable_parameters = frozenset({"units", "servers", "platform"})

    @extend_schema(
        responses=EstimatesSerializer,
        parameters=[
            OpenApiParameter(
                "units", int, many=True, description="Numbers of units. Default: 1, 2, 4 ... 64."
            ),
            OpenApiParameter(
                "servers",
                int,
                many=True,
                description="Numbers of servers. Default: as few as can hold the units.",
            ),
            OpenApiParameter(
                "platform", str, many=True, description="Platform names. Default: all platforms."
            ),
            OpenApiParameter(
                "metric",
                str,
                enum=METRICS,
                description="Work in the kind's own unit (default), or bytes of input.",
            ),
        ],
    )
    def get(self, request: Request, key: str) -> Response:
        """Return predicted work per second for sizes and platforms, with 90 % intervals."""
        units, servers = _numbers(request, "units"), _numbers(request, "servers")
        in_bytes = _metric(request) == "bytes"
        row = current_profile(key)
        sizes = units or _sizes_from(max(servers, default=1))
        estimates = _estimates(request, row, sizes, servers, in_bytes=in_bytes)
        return answer(request, represent_estimates(row, estimates, in_bytes=in_bytes))


def _numbers(request: Request, name: str) -> list[int]:
    given = request.query_params.getlist(name)
    return [read(name, value, lambda v: read_int(v, low=1, high=MAX_UNITS)) for value in given]


def _sizes_from(minimum: int) -> Sequence[int]:
    return [size for size in SIZES if size >= minimum] or [minimum]


def _metric(request: Request) -> str:
    given = request.query_params.get("metric", METRICS[0])
    metric: str = read("metric", given, lambda value: read_word(value, METRICS))
    return metric


def _estimates(
    request: Request,
    row: Profile,
    units: Sequence[int],
    servers: Sequence[int],
    *,
    in_bytes: bool,
) -> list[SizeEstimate]:
    profile = selectors.from_row(row)
    platforms = request.query_params.getlist("platform") or profile.platforms
    unknown = [name for name in platforms if name not in profile.platforms]
    if unknown:
        known = ", ".join(profile.platforms)
        sentence = f"must be one of {known} (revision {profile.revision}), not {unknown[0]!r:.60}"
        raise invalid_parameter("platform", sentence)
    if servers and max(servers) > min(units):
        sentence = f"must not exceed units, got {max(servers)} servers and {min(units)} units"
        raise invalid_parameter("servers", sentence)
    try:
        return size_estimates(
            profile,
            selectors.server_units(),
            units=units,
            servers=servers,
            platforms=platforms,
            in_bytes=in_bytes,
        )
    except ValueError as error:
        raise ProblemError(ProblemCode.INVALID_PARAMETER, str(error)) from error


class ApplicationSubList(ListView):
    """Base of lists about one application."""

    def about(self, **kwargs: Any) -> Application:
        """Load the application of the URL; its kind is needed to represent rows."""
        self.application = named_application(kwargs["key"])
        return self.application


class MeasurementList(ApplicationSubList):
    """Measurements of an application, newest first."""

    row_serializer = MeasurementSerializer
    orders: ClassVar = {
        "-id": Order(("id",), descending=True),
        "id": Order(("id",)),
    }
    filters: ClassVar = {
        "matrix": choice("matrix", [name.value for name in MatrixName], "Matrix name."),
        "column": exact("column", "Column name."),
        "source": choice("source", ORIGINS, "Profiling runs or running jobs."),
        "run": uid("run_id", "Profiling run."),
        "at_seconds__gte": number("cluster_s__gte", "At or after this cluster time."),
    }

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Measurement]:
        """Return the application's measurements."""
        return selectors.measurements_of(self.about(**kwargs).pk)

    def represent(self, row: Measurement) -> dict[str, Any]:
        """JSON of a measurement."""
        return represent_measurement(row, self.application.kind)


class PredictionErrorList(ApplicationSubList):
    """Prediction errors of the application's jobs, newest first."""

    row_serializer = PredictionErrorSerializer
    orders: ClassVar = {
        "-at_seconds": Order(("cluster_s", "id"), descending=True),
        "at_seconds": Order(("cluster_s", "id")),
    }
    filters: ClassVar = {
        "job": uid("job_id", "Job."),
        "profile": whole("profile__number", "Number of the profile used for the prediction."),
        "at_seconds__gte": number("cluster_s__gte", "At or after this cluster time."),
        "at_seconds__lt": number("cluster_s__lt", "Before this cluster time."),
    }

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[PredictionError]:
        """Return the application's prediction errors."""
        self.caller = principal_of(request)
        return selectors.prediction_errors_of(self.about(**kwargs).pk)

    def represent(self, row: PredictionError) -> dict[str, Any]:
        """JSON of a prediction error; the job is omitted if the caller may not see it."""
        return represent_error(row, self.caller)
