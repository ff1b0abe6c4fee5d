"""Measured pairs: list, request and detail; for operators, as a pair holds a whole server."""

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.accounts.core.principal import Principal
from apps.accounts.models import Project
from apps.common.api.inputs import validated
from apps.common.api.paging import Order
from apps.common.api.queries import ListQuery
from apps.common.api.views import ApiView, ListView, answer
from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.common.core.keyed_requests import KeyedResponse
from apps.operations.api.idempotency import once
from apps.testbed.api.lab_views import ForOperators
from apps.testbed.api.pair_serializers import (
    PairRequestSerializer,
    PairSerializer,
    PairSideSerializer,
    represent_pair,
)
from apps.testbed.models import MeasuredPair
from apps.testbed.selectors import pairs as selectors
from apps.testbed.services.pair_requests import PairRequest, begin_pair
from apps.workloads.api.submission import caller_as_user, choose_project
from apps.workloads.core.spec import JobSpec, parse_job

BEST_EFFORT = {"kind": "best_effort"}


class PairList(ForOperators, ListView):
    """Measured pairs, newest first."""

    row_serializer = PairSerializer
    takes_key = True
    orders: ClassVar = {"-created_at": Order(("created_at", "id"), descending=True)}

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[MeasuredPair]:
        """Return all pairs."""
        return selectors.pairs()

    def represent(self, row: MeasuredPair) -> dict[str, Any]:
        """Return a pair as JSON."""
        return represent_pair(row)

    @extend_schema(request=PairRequestSerializer, responses={202: PairSerializer})
    def post(self, request: Request) -> Response:
        """Predict how two applications slow each other down, and measure it.

        Commands are measured by a job that holds a whole server: both run alone and together, in
        rounds. The operation of the answer reports the progress and can be cancelled.
        """
        asked = validated(PairRequestSerializer, request.data or {})
        wanted = PairRequest(
            sides=(_side(request, "first"), _side(request, "second")),
            platform=asked["platform"],
            rounds=asked["rounds"],
            window_s=asked["window_seconds"],
            patience_s=asked["patience_seconds"],
            max_foreign=asked["max_foreign_percent"] / 100.0,
        )
        principal = principal_of(request)
        project = _project(principal, wanted, asked["project"])

        def begin() -> KeyedResponse:
            pair = begin_pair(wanted, user=caller_as_user(principal), project=project)
            location = f"/api/v1/measured-pairs/{pair.pk}/"
            return KeyedResponse(202, location, represent_pair(pair))

        return once(request, request.data, begin)


def _project(principal: Principal, wanted: PairRequest, name: str | None) -> Project | None:
    """Return the project of the job that measures; None if there is none."""
    return None if wanted.is_emulated else choose_project(principal, name, at="/project")


def _side(request: Request, name: str) -> JobSpec:
    """Parse one application as the job that it would be.

    Raises
    ------
    InvalidInputError : lists its problems.
    """
    side: dict[str, Any] = request.data[name]  # type: ignore[call-overload] # a dict: validated
    known = PairSideSerializer().fields
    problems = [
        FieldProblem(
            f"/{name}/{field}", "unknown_field", f"unknown field; accepted: {', '.join(known)}"
        )
        for field in sorted(side.keys() - known.keys())
    ]
    if problems:
        raise InvalidInputError(problems)
    return parse_job({**side, "target": BEST_EFFORT}, at=f"/{name}")


class PairDetail(ForOperators, ApiView):
    """One measured pair."""

    @extend_schema(responses=PairSerializer)
    def get(self, request: Request, pair_id: UUID) -> Response:
        """Return a pair: predicted and measured slowdowns, and its operation."""
        return answer(request, represent_pair(selectors.pair_by_id(pair_id)))
