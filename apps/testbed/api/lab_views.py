"""Scenarios, comparisons, runs and bundles of the Lab; for operators, as jobs of all projects."""

from dataclasses import asdict
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.accounts.core.roles import Role
from apps.common.api.inputs import validated
from apps.common.api.paging import Order
from apps.common.api.queries import ListQuery
from apps.common.api.views import ApiView, ListView, answer
from apps.common.core.keyed_requests import KeyedResponse
from apps.operations.api.idempotency import once
from apps.testbed.api.lab_job_views import BASELINE, asked_baseline
from apps.testbed.api.lab_serializers import (
    ComparisonRequestSerializer,
    ComparisonRowSerializer,
    ComparisonSerializer,
    EstimateRequestSerializer,
    EstimateSerializer,
    RunSerializer,
    ScenarioRequestSerializer,
    ScenarioSerializer,
    represent_comparison,
    represent_run,
    represent_scenario,
)
from apps.testbed.models import LabComparison, LabRun, LabScenario
from apps.testbed.selectors import lab as selectors
from apps.testbed.selectors import lab_plans
from apps.testbed.selectors.lab_results import load_of, result_with
from apps.testbed.services import lab_requests, lab_scenarios

NEWEST_FIRST = {"-created_at": Order(("created_at", "id"), descending=True)}


CHOICES = ("settings", "seeds", "baseline", "bound", "halving")


class ForOperators:
    """Scenarios copy jobs of every project."""

    read_role = Role.OPERATOR
    write_role = Role.OPERATOR


class ScenarioList(ForOperators, ListView):
    """Scenarios, newest first."""

    row_serializer = ScenarioSerializer
    takes_key = True
    orders: ClassVar = NEWEST_FIRST

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[LabScenario]:
        """Return all scenarios."""
        return selectors.scenarios()

    def represent(self, row: LabScenario) -> dict[str, Any]:
        """Return a scenario as JSON."""
        return represent_scenario(row)

    @extend_schema(request=ScenarioRequestSerializer, responses={201: ScenarioSerializer})
    def post(self, request: Request) -> Response:
        """Store a copy of a cluster and of jobs."""
        asked = validated(ScenarioRequestSerializer, request.data or {})

        def create() -> KeyedResponse:
            scenario = lab_scenarios.create_scenario(
                name=asked["name"],
                cluster=asked["cluster"],
                workload=asked["workload"],
                world=asked["world"],
                failures=asked["failures"],
                by=principal_of(request).user_id,
            )
            location = f"/api/v1/scenarios/{scenario.pk}/"
            return KeyedResponse(201, location, represent_scenario(scenario))

        return once(request, request.data, create)


class ScenarioDetail(ForOperators, ApiView):
    """One scenario."""

    @extend_schema(responses=ScenarioSerializer)
    def get(self, request: Request, scenario_id: UUID) -> Response:
        """Return a scenario."""
        return answer(request, represent_scenario(selectors.scenario_by_id(scenario_id)))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, scenario_id: UUID) -> Response:
        """Delete a scenario that no comparison uses."""
        lab_requests.delete_scenario(selectors.scenario_by_id(scenario_id))
        return Response(status=204)


class ComparisonList(ForOperators, ListView):
    """Comparisons, newest first."""

    row_serializer = ComparisonRowSerializer
    takes_key = True
    orders: ClassVar = NEWEST_FIRST

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[LabComparison]:
        """Return all comparisons."""
        return selectors.comparisons()

    def represent(self, row: LabComparison) -> dict[str, Any]:
        """Return a comparison as JSON, without its result."""
        return represent_comparison(row, is_whole=False)

    @extend_schema(request=ComparisonRequestSerializer, responses={202: ComparisonSerializer})
    def post(self, request: Request) -> Response:
        """Compare settings on a scenario; the operation of the answer reports the progress."""
        asked = validated(ComparisonRequestSerializer, request.data or {})
        choices = {key: asked[key] for key in CHOICES}

        def begin() -> KeyedResponse:
            begun = lab_requests.begin_comparison(
                name=asked["name"],
                scenario=selectors.scenario_by_id(asked["scenario"]),
                choices=choices,
                by=principal_of(request).user_id,
            )
            comparison = selectors.comparison_by_id(begun.pk)
            location = f"/api/v1/comparisons/{begun.pk}/"
            return KeyedResponse(202, location, represent_comparison(comparison))

        return once(request, request.data, begin)


class ComparisonEstimate(ForOperators, ApiView):
    """Time and memory of a comparison."""

    @extend_schema(request=EstimateRequestSerializer, responses=EstimateSerializer)
    def post(self, request: Request) -> Response:
        """Estimate a comparison from the runs that this installation has measured."""
        asked = validated(EstimateRequestSerializer, request.data or {})
        found = lab_requests.estimate(
            jobs=asked["jobs"],
            servers=asked["servers"],
            settings_count=asked["settings"],
            seeds=asked["seeds"],
        )
        return Response(asdict(found))


class ComparisonDetail(ForOperators, ApiView):
    """One comparison."""

    query_parameters = frozenset({"baseline"})

    @extend_schema(responses=ComparisonSerializer, parameters=[BASELINE])
    def get(self, request: Request, comparison_id: UUID) -> Response:
        """Return a comparison with its result, also for another baseline than requested."""
        found = selectors.comparison_by_id(comparison_id)
        baseline = asked_baseline(request, found)
        if baseline != found.baseline:
            found.result = result_with(found, baseline, load_of(found, baseline))
        return answer(request, represent_comparison(found))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, comparison_id: UUID) -> Response:
        """Delete a comparison that has ended, with its runs."""
        lab_requests.delete_comparison(comparison_id)
        return Response(status=204)


class ComparisonResume(ForOperators, ApiView):
    """Continuation of a cancelled or failed comparison."""

    takes_body = False

    @extend_schema(request=None, responses={202: ComparisonSerializer})
    def post(self, request: Request, comparison_id: UUID) -> Response:
        """Run what is not stored yet; the answer has a new operation."""
        by = principal_of(request).user_id
        resumed = lab_requests.resume_comparison(comparison_id, by=by)
        return Response(represent_comparison(resumed), status=202)


class ComparisonRuns(ForOperators, ListView):
    """The completed runs of a comparison."""

    row_serializer = RunSerializer
    orders: ClassVar = {"id": Order(("id",))}

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[LabRun]:
        """Return the runs."""
        return selectors.runs_of(selectors.comparison_by_id(kwargs["comparison_id"]).pk)

    def represent(self, row: LabRun) -> dict[str, Any]:
        """Return a run as JSON."""
        return represent_run(row)


class ComparisonBundle(ForOperators, ApiView):
    """Everything that another machine needs to repeat a comparison."""

    @extend_schema(responses={200: dict})
    def get(self, request: Request, comparison_id: UUID) -> Response:
        """Return the bundle; `berth lab run FILE` repeats it."""
        found = selectors.comparison_by_id(comparison_id)
        name = f"berth-lab-{str(found.pk)[-12:]}.json"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return answer(request, lab_plans.bundle(found), headers=headers)
