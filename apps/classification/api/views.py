"""What is believed about applications, what it predicts, and what it rests on."""

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
from apps.classification.core.estimates import MOST_UNITS, SIZES, SizeEstimate, size_estimates
from apps.classification.core.matrix import MatrixName
from apps.classification.models import PredictionError, Profile
from apps.common.core.errors import NotFoundError
from apps.common.core.problem_codes import ProblemCode
from apps.common.paging import Order
from apps.common.problems import ProblemError
from apps.common.queries import ListQuery, choice, exact, number, read, read_int, uid, whole
from apps.common.views import ApiView, ListView, answer
from apps.profiling.models import Measurement
from apps.workloads.api.application_views import named_application
from apps.workloads.models import Application


def current_profile(key: str) -> Profile:
    """Return the current profile of the application of that id or name.

    Raises
    ------
    NotFoundError : there is no such application, or it has not been profiled yet.
    """
    application = named_application(key)
    found = selectors.current_profile(application.pk)
    if found is None:
        raise NotFoundError(f"{application.name} has not been classified yet.")
    return found


class ClassificationView(ApiView):
    """The current profile of an application."""

    @extend_schema(responses=ClassificationSerializer)
    def get(self, request: Request, key: str) -> Response:
        """Return what is believed of an application, and whether measured or inferred."""
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

    @extend_schema(
        responses=EstimatesSerializer,
        parameters=[
            OpenApiParameter(
                "units", int, many=True, description="Sizes; 1, 2, 4 ... 32 when left out."
            ),
            OpenApiParameter(
                "servers",
                int,
                many=True,
                description="Servers to spread over; as few as hold the units when left out.",
            ),
            OpenApiParameter(
                "platform", str, many=True, description="Platforms; all when left out."
            ),
            OpenApiParameter(
                "metric",
                str,
                enum=METRICS,
                description="The kind's own work, or bytes of input; work when left out.",
            ),
        ],
    )
    def get(self, request: Request, key: str) -> Response:
        """Return the work per second expected of sizes on platforms, with 90 % intervals."""
        units, servers = _numbers(request, "units"), _numbers(request, "servers")
        in_bytes = _metric(request) == "bytes"
        row = current_profile(key)
        sizes = units or _sizes_from(max(servers, default=1))
        found = _estimates(request, row, sizes, servers, in_bytes=in_bytes)
        return answer(request, represent_estimates(row, found, in_bytes=in_bytes))


def _numbers(request: Request, name: str) -> list[int]:
    given = request.query_params.getlist(name)
    return [read(name, value, lambda v: read_int(v, low=1, high=MOST_UNITS)) for value in given]


def _sizes_from(least: int) -> Sequence[int]:
    return [size for size in SIZES if size >= least] or [least]


def _metric(request: Request) -> str:
    given = request.query_params.getlist("metric")
    if len(given) > 1:
        raise ProblemError(ProblemCode.INVALID_PARAMETER, "metric was given more than once.")
    metric = given[0] if given else METRICS[0]
    if metric not in METRICS:
        raise ProblemError(
            ProblemCode.INVALID_PARAMETER,
            f"metric must be one of {', '.join(METRICS)}, not {metric}.",
        )
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
        raise ProblemError(
            ProblemCode.INVALID_PARAMETER,
            f"platform must be one of {known} (revision {profile.revision}), not {unknown[0]}.",
        )
    if servers and max(servers) > min(units):
        raise ProblemError(
            ProblemCode.INVALID_PARAMETER,
            f"servers must not exceed units, but {max(servers)} > {min(units)}.",
        )
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
        raise ProblemError(ProblemCode.INVALID_PARAMETER, f"Ask for {error}.") from error


class ApplicationList(ListView):
    """Base of lists about one application."""

    def about(self, **kwargs: Any) -> Application:
        """Return the application of the address, kept for the representation of its rows."""
        self.application = named_application(kwargs["key"])
        return self.application


class MeasurementList(ApplicationList):
    """Every single measurement of an application, newest first."""

    row_serializer = MeasurementSerializer
    orders: ClassVar = {
        "-id": Order(("id",), descending=True),
        "id": Order(("id",)),
    }
    filters: ClassVar = {
        "matrix": choice("matrix", [name.value for name in MatrixName], "Of this matrix."),
        "column": exact("column", "Of this column."),
        "source": choice("source", ORIGINS, "From profiling runs or from running jobs."),
        "run": uid("run_id", "Of this profiling run."),
        "at_seconds__gte": number("cluster_s__gte", "Not before, in cluster time."),
    }

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Measurement]:
        """Return the application's measurements."""
        return selectors.measurements_of(self.about(**kwargs).pk)

    def represent(self, row: Measurement) -> dict[str, Any]:
        """JSON of a measurement."""
        return represent_measurement(row, self.application.kind)


class PredictionErrorList(ApplicationList):
    """What the application's jobs were predicted to do and what they did, newest first."""

    row_serializer = PredictionErrorSerializer
    orders: ClassVar = {
        "-at_seconds": Order(("cluster_s", "id"), descending=True),
        "at_seconds": Order(("cluster_s", "id")),
    }
    filters: ClassVar = {
        "job": uid("job_id", "Of this job."),
        "profile": whole("profile__number", "Predicted by the profile of this number."),
        "at_seconds__gte": number("cluster_s__gte", "Not before, in cluster time."),
        "at_seconds__lt": number("cluster_s__lt", "Before, in cluster time."),
    }

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[PredictionError]:
        """Return the application's observations."""
        self.caller = principal_of(request)
        return selectors.prediction_errors_of(self.about(**kwargs).pk)

    def represent(self, row: PredictionError) -> dict[str, Any]:
        """JSON of a prediction error; its job is named to who may see it."""
        return represent_error(row, self.caller)
