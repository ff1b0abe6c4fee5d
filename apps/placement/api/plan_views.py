"""Views of plans, their migrations, previews and the loop."""

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.accounts.core.roles import Role
from apps.common.api.etags import expected_generation, required_generation
from apps.common.api.inputs import validated
from apps.common.api.paging import Order
from apps.common.api.problems import ProblemError
from apps.common.api.queries import ListQuery, choice, choices, whole
from apps.common.api.views import ApiView, ListView, answer
from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.common.core.keyed_requests import KeyedResponse
from apps.common.core.problem_codes import ProblemCode
from apps.inventory.models import Rack
from apps.operations.api.idempotency import once
from apps.operations.api.serializers import OperationSerializer, represent_operation
from apps.operations.models import Operation
from apps.placement.api.plan_request_serializers import (
    ApproveRequestSerializer,
    LoopChangeSerializer,
    PlanRequestSerializer,
    PreviewRequestSerializer,
    RollbackRequestSerializer,
    TrimRequestSerializer,
    loop_changes,
)
from apps.placement.api.plan_serializers import (
    LoopSerializer,
    PlannedMigrationSerializer,
    PlanSerializer,
    PreviewSerializer,
    TrimmedPlanSerializer,
    VerificationSerializer,
    represent_loop,
    represent_migrations,
    represent_plan,
    represent_preview,
    represent_verification,
)
from apps.placement.core.rebalancing.lifecycle import PlanState
from apps.placement.models import (
    Plan,
    PlanCause,
    PlannedMigration,
    PlannedMigrationState,
)
from apps.placement.selectors import plans as selectors
from apps.placement.services.rebalancing import plan_requests
from apps.placement.services.rebalancing import plans as services
from apps.placement.services.rebalancing.approval import approve_plan
from apps.placement.services.rebalancing.job_migration import requested_migration
from apps.placement.services.rebalancing.loop import update_loop_settings
from apps.placement.services.rebalancing.previews import read_preview, stop_preview
from apps.placement.services.rebalancing.trimming import trim_plan
from apps.placement.tasks.plans import start_preview


class ClusterWide:
    """Operator-only views: plans migrate the jobs of every project."""

    read_role = Role.OPERATOR
    write_role = Role.OPERATOR


def accepted(operation: Operation) -> KeyedResponse:
    """Answer 202 with the operation."""
    location = f"/api/v1/operations/{operation.pk}/"
    return KeyedResponse(202, location, represent_operation(operation))


# ---- plans ----


class PlanList(ClusterWide, ListView):
    """Plans, newest first."""

    row_serializer = PlanSerializer
    takes_key = True
    orders: ClassVar = {"-created_at": Order(("created_at", "id"), descending=True)}
    filters: ClassVar = {
        "state": choice("state", [state.value for state in PlanState], "In this state."),
        "state__in": choices(
            "state", [state.value for state in PlanState], "In any of these states."
        ),
        "cause": choice("cause", PlanCause.values, "Created for this cause."),
        "number": whole("number", "With this number: 12 for p-0012."),
    }

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Plan]:
        """Return all plans."""
        return selectors.plans()

    def represent(self, row: Plan) -> dict[str, Any]:
        """Return a plan as JSON, without its jobs."""
        return represent_plan(row, is_whole=False)

    @extend_schema(request=PlanRequestSerializer, responses={202: OperationSerializer})
    def post(self, request: Request) -> Response:
        """Request a plan for the weights in force, or for one migration; returns the operation.

        The result of the operation names the plan, or the reason why there is none.
        """
        body = validated(PlanRequestSerializer, request.data or {})
        by = principal_of(request).user_id
        named = body.get("migration")

        def begin() -> KeyedResponse:
            if named is None:
                return accepted(plan_requests.request_plan(by=by))
            asked = requested_migration(named["job"], named["from_server"], named["to_server"])
            return accepted(
                plan_requests.request_job_migration(asked, by=by, approve=body["approve"])
            )

        return once(request, request.data, begin)


class PlanDetail(ClusterWide, ApiView):
    """One plan, by id or name."""

    @extend_schema(responses=PlanSerializer)
    def get(self, request: Request, key: str) -> Response:
        """Return a plan with its predicted and realised effect."""
        return answer_plan(request, selectors.plan_by_key(key))


def answer_plan(request: Request, plan: Plan) -> Response:
    """Answer with a plan."""
    return answer(request, represent_plan(plan), generation=plan.generation)


class PlanSteps(ClusterWide, ListView):
    """The migrations of a plan, in order."""

    takes_match = frozenset({"PATCH"})
    row_serializer = PlannedMigrationSerializer
    brief_fields = ("ordinal", "state")
    orders: ClassVar = {"ordinal": Order(("ordinal",))}
    filters: ClassVar = {
        "state": choice("state", PlannedMigrationState.values, "In this state."),
        "state__in": choices("state", PlannedMigrationState.values, "In any of these states."),
        "bundle": whole("bundle", "Of this bundle."),
    }
    _represented: dict[int, dict[str, Any]]

    def rows(
        self, request: Request, query: ListQuery, **kwargs: Any
    ) -> QuerySet[PlannedMigration]:
        """Return the migrations of the plan."""
        return selectors.migrations_of(selectors.plan_by_key(kwargs["key"]).pk)

    def prepare(self, rows: list[PlannedMigration]) -> None:
        """Fetch the names of the page's servers at once."""
        self._represented = {body["ordinal"]: body for body in represent_migrations(rows)}

    def represent(self, row: PlannedMigration) -> dict[str, Any]:
        """Return a migration as JSON."""
        return self._represented[row.ordinal]

    def represent_briefly(self, row: PlannedMigration) -> dict[str, Any]:
        """Return the ordinal and the state."""
        return {"ordinal": row.ordinal, "state": str(row.state)}

    @extend_schema(request=TrimRequestSerializer, responses=TrimmedPlanSerializer)
    def patch(self, request: Request, key: str) -> Response:
        """Leave bundles out, or include them again; answers with the new prediction."""
        body = validated(TrimRequestSerializer, request.data)
        caller = principal_of(request)
        with superseded_plan_as_problem():
            result = trim_plan(
                selectors.plan_by_key(key).pk,
                skip=body["skip"],
                take=body["take"],
                by=caller.username,
                expected=expected_generation(request._request),
            )
        plan = selectors.plan_by_key(result.plan.pk)
        trimmed = {
            "plan": represent_plan(plan),
            "skipped": sorted(result.skipped),
            "notes": list(result.notes),
        }
        return answer(request, trimmed, generation=plan.generation)


class PlanVerification(ClusterWide, ApiView):
    """Verification of a plan."""

    @extend_schema(responses=VerificationSerializer)
    def get(self, request: Request, key: str) -> Response:
        """Return the predicted and realised effect; realised is null until the plan has ended."""
        plan = selectors.plan_by_key(key)
        return answer(request, represent_verification(plan), generation=plan.generation)


class PlanApprove(ClusterWide, ApiView):
    """Approval of a plan."""

    takes_match = frozenset({"POST"})
    needs_match = True

    @extend_schema(request=ApproveRequestSerializer, responses=PlanSerializer)
    def post(self, request: Request, key: str) -> Response:
        """Approve a plan for execution, re-based on the cluster as it is.

        `changes` and `difference` say what differs from the proposal. 409 `plan_superseded` if
        too little of its predicted gain is left or other weights are in force.
        """
        expected = required_generation(request._request)
        body = validated(ApproveRequestSerializer, request.data or {})
        plan_id, by = selectors.plan_by_key(key).pk, principal_of(request).user_id
        with superseded_plan_as_problem():
            approve_plan(plan_id, by=by, expected=expected, skipped=body.get("skipped"))
        return answer_plan(request, selectors.plan_by_key(plan_id))


class PlanPause(ClusterWide, ApiView):
    """Pause of a plan."""

    takes_body = False
    takes_match = frozenset({"POST"})

    @extend_schema(request=None, responses=PlanSerializer)
    def post(self, request: Request, key: str) -> Response:
        """Start no further migrations; those under way finish."""
        plan_id = selectors.plan_by_key(key).pk
        services.pause_plan(plan_id, expected=expected_generation(request._request))
        return answer_plan(request, selectors.plan_by_key(plan_id))


class PlanResume(ClusterWide, ApiView):
    """Resumption of a plan."""

    takes_body = False
    takes_match = frozenset({"POST"})

    @extend_schema(request=None, responses=PlanSerializer)
    def post(self, request: Request, key: str) -> Response:
        """Continue a paused plan."""
        plan_id = selectors.plan_by_key(key).pk
        services.resume_plan(plan_id, expected=expected_generation(request._request))
        return answer_plan(request, selectors.plan_by_key(plan_id))


class PlanCancel(ClusterWide, ApiView):
    """Cancellation of a plan."""

    takes_body = False
    takes_match = frozenset({"POST"})

    @extend_schema(request=None, responses=PlanSerializer)
    def post(self, request: Request, key: str) -> Response:
        """Cancel a plan; migrations under way finish, no other starts."""
        plan_id, by = selectors.plan_by_key(key).pk, principal_of(request).username
        services.cancel_plan(plan_id, by=by, expected=expected_generation(request._request))
        return answer_plan(request, selectors.plan_by_key(plan_id))


class PlanRollback(ClusterWide, ApiView):
    """Rollback of a plan."""

    takes_match = frozenset({"POST"})
    takes_key = True

    @extend_schema(request=RollbackRequestSerializer, responses={202: OperationSerializer})
    def post(self, request: Request, key: str) -> Response:
        """Request a rollback: migrated containers go back if possible, last first."""
        body = validated(RollbackRequestSerializer, request.data or {})
        plan, by = selectors.plan_by_key(key), principal_of(request).user_id
        expected = expected_generation(request._request)

        def begin() -> KeyedResponse:
            operation = plan_requests.request_rollback(
                plan.pk, by=by, approve=body["approve"], expected=expected
            )
            return accepted(operation)

        return once(request, request.data, begin)


class superseded_plan_as_problem:  # noqa: N801 - reads as a statement
    """Answer 409 `plan_superseded` if a plan no longer fits."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Translate the error."""
        if isinstance(error, services.PlanSupersededError):
            raise ProblemError(ProblemCode.PLAN_SUPERSEDED, str(error)) from error


# ---- previews ----


class PreviewList(ClusterWide, ApiView):
    """Previews of weights on the running cluster."""

    rate_class = "solver"

    @extend_schema(request=PreviewRequestSerializer, responses={202: PreviewSerializer})
    def post(self, request: Request) -> Response:
        """Preview the effect of weights; writes nothing and stops your previous preview."""
        given = validated(PreviewRequestSerializer, request.data)
        known = set(Rack.objects.values_list("name", flat=True))
        if unknown := sorted(set(given["racks"]) - known):
            detail = f"there is no rack {unknown[0]}"
            raise InvalidInputError([FieldProblem("/racks", "unknown", detail)])
        by = principal_of(request).user_id
        preview_id = start_preview(by, given["weights"], given["racks"], given["limit_seconds"])
        body = represent_preview(read_preview(preview_id, by=by))
        return Response(body, status=202, headers={"Location": f"/api/v1/previews/{preview_id}/"})


class PreviewDetail(ClusterWide, ApiView):
    """A preview of the caller."""

    @extend_schema(responses=PreviewSerializer)
    def get(self, request: Request, preview_id: UUID) -> Response:
        """Return the best answer so far; a search that is not polled stops."""
        preview = read_preview(preview_id, by=principal_of(request).user_id)
        return answer(request, represent_preview(preview))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, preview_id: UUID) -> Response:
        """Stop the search; its answer can be read for some minutes."""
        by = principal_of(request).user_id
        read_preview(preview_id, by=by)
        stop_preview(preview_id, by=by)
        return Response(status=204)


# ---- the loop ----


class PlacementLoop(ClusterWide, ApiView):
    """Settings of the rebalancing loop."""

    takes_match = frozenset({"PATCH"})

    @extend_schema(responses=LoopSerializer)
    def get(self, request: Request) -> Response:
        """Return the settings and the last finding of the loop."""
        row = selectors.loop_settings()
        return answer(request, represent_loop(row), generation=row.generation)

    @extend_schema(request=LoopChangeSerializer, responses=LoopSerializer)
    def patch(self, request: Request) -> Response:
        """Change settings; in the mode `automatic` plans run without approval."""
        changes = loop_changes(validated(LoopChangeSerializer, request.data))
        row = update_loop_settings(changes, expected=expected_generation(request._request))
        return answer(request, represent_loop(row), generation=row.generation)
