"""Plans, their moves, previews and the loop over HTTP."""

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.accounts.core.roles import Role
from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.common.core.problem_codes import ProblemCode
from apps.common.etags import expected_generation, required_generation
from apps.common.inputs import validated
from apps.common.paging import Order
from apps.common.problems import ProblemError
from apps.common.queries import ListQuery, choice, choices, whole
from apps.common.views import ApiView, ListView, answer
from apps.inventory.models import Rack
from apps.operations.api.idempotency import once
from apps.operations.api.serializers import OperationSerializer, represent_operation
from apps.operations.core.keys import KeyedAnswer
from apps.operations.models import Operation
from apps.placement.api.plan_serializers import (
    ApproveRequestSerializer,
    ChoiceRequestSerializer,
    ChosenSerializer,
    LoopChangeSerializer,
    LoopSerializer,
    PlanRequestSerializer,
    PlanSerializer,
    PreviewRequestSerializer,
    PreviewSerializer,
    RollbackRequestSerializer,
    StepSerializer,
    VerificationSerializer,
    loop_changes,
    represent_loop,
    represent_plan,
    represent_preview,
    represent_steps,
    represent_verification,
)
from apps.placement.models import Cause, Move, MoveState, Plan, PlanState
from apps.placement.plan_tasks import preview_by_worker
from apps.placement.selectors import plans as selectors
from apps.placement.services import making
from apps.placement.services import plans as services
from apps.placement.services.loop import set_loop
from apps.placement.services.previews import read_preview, stop_preview
from apps.placement.services.trimming import trim_plan


class ClusterWide:
    """Views of what moves the jobs of every project: for those who look after all of them."""

    read_role = Role.OPERATOR
    write_role = Role.OPERATOR


def accepted(operation: Operation) -> KeyedAnswer:
    """Answer that a worker will do it."""
    location = f"/api/v1/operations/{operation.pk}/"
    return KeyedAnswer(202, location, represent_operation(operation))


# ---- plans ----


class PlanList(ClusterWide, ListView):
    """Plans, newest first."""

    row_serializer = PlanSerializer
    takes_key = True
    orders: ClassVar = {"-created_at": Order(("created_at", "id"), descending=True)}
    filters: ClassVar = {
        "state": choice("state", PlanState.values, "In this state."),
        "state__in": choices("state", PlanState.values, "In any of these states."),
        "cause": choice("cause", Cause.values, "Made for this cause."),
        "number": whole("number", "With this number: 12 for p-0012."),
    }

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Plan]:
        """Return all plans."""
        return selectors.plans()

    def represent(self, row: Plan) -> dict[str, Any]:
        """JSON of a plan, without its jobs and servers."""
        return represent_plan(row, is_whole=False)

    @extend_schema(request=PlanRequestSerializer, responses={202: OperationSerializer})
    def post(self, request: Request) -> Response:
        """Have a plan made by the weights in force; answers with the operation.

        Its result names the plan, or says why there is none.
        """
        validated(PlanRequestSerializer, request.data or {})
        by = principal_of(request).user_id
        return once(request, request.data, lambda: accepted(making.begin_plan(by=by)))


class PlanDetail(ClusterWide, ApiView):
    """One plan, by id or name."""

    @extend_schema(responses=PlanSerializer)
    def get(self, request: Request, key: str) -> Response:
        """Return a plan, what is predicted of it, and what came of it."""
        return answer_plan(request, selectors.plan_by(key))


def answer_plan(request: Request, plan: Plan) -> Response:
    """Answer with a plan."""
    return answer(request, represent_plan(plan), generation=plan.generation)


class PlanSteps(ClusterWide, ListView):
    """The moves of a plan, in order."""

    row_serializer = StepSerializer
    orders: ClassVar = {"ordinal": Order(("ordinal",))}
    filters: ClassVar = {
        "state": choice("state", MoveState.values, "In this state."),
        "state__in": choices("state", MoveState.values, "In any of these states."),
        "bundle": whole("bundle", "Of this bundle."),
    }
    _steps: dict[int, dict[str, Any]]

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Move]:
        """Return the moves of the plan."""
        return selectors.moves_of(selectors.plan_by(kwargs["key"]).pk)

    def prepare(self, rows: list[Move]) -> None:
        """Fetch the names of the page's servers at once."""
        self._steps = {step["ordinal"]: step for step in represent_steps(rows)}

    def represent(self, row: Move) -> dict[str, Any]:
        """JSON of a move."""
        return self._steps[row.ordinal]

    def represent_briefly(self, row: Move) -> dict[str, Any]:
        """Return its place and state."""
        return {"ordinal": row.ordinal, "state": str(row.state)}

    @extend_schema(request=ChoiceRequestSerializer, responses=ChosenSerializer)
    def patch(self, request: Request, key: str) -> Response:
        """Leave moves out, or take them in again, whole bundles each; predicted anew."""
        wanted = validated(ChoiceRequestSerializer, request.data)
        caller = principal_of(request)
        with superseded_as_problem():
            done = trim_plan(
                selectors.plan_by(key).pk,
                skip=wanted["skip"],
                take=wanted["take"],
                by=caller.username,
                expected=expected_generation(request._request),
            )
        plan = selectors.plan_by(done.plan.pk)
        body = {
            "plan": represent_plan(plan),
            "skipped": sorted(done.skipped),
            "notes": list(done.notes),
        }
        return answer(request, body, generation=plan.generation)


class PlanVerification(ClusterWide, ApiView):
    """What came of a plan."""

    @extend_schema(responses=VerificationSerializer)
    def get(self, request: Request, key: str) -> Response:
        """Return what was predicted against what was realised; null until it has ended."""
        plan = selectors.plan_by(key)
        return answer(request, represent_verification(plan), generation=plan.generation)


class PlanApprove(ClusterWide, ApiView):
    """Approving a plan."""

    @extend_schema(request=ApproveRequestSerializer, responses=PlanSerializer)
    def post(self, request: Request, key: str) -> Response:
        """Let a plan be carried out; 409 `plan_superseded` where it no longer fits."""
        expected = required_generation(request._request)
        seen = validated(ApproveRequestSerializer, request.data or {})
        plan_id, by = selectors.plan_by(key).pk, principal_of(request).user_id
        with superseded_as_problem():
            services.approve_plan(plan_id, by=by, expected=expected, skipped=seen.get("skipped"))
        return answer_plan(request, selectors.plan_by(plan_id))


class PlanPause(ClusterWide, ApiView):
    """Pausing a plan."""

    @extend_schema(request=None, responses=PlanSerializer)
    def post(self, request: Request, key: str) -> Response:
        """Let no further move begin; those under way are finished."""
        plan_id = selectors.plan_by(key).pk
        services.pause_plan(plan_id, expected=expected_generation(request._request))
        return answer_plan(request, selectors.plan_by(plan_id))


class PlanResume(ClusterWide, ApiView):
    """Resuming a plan."""

    @extend_schema(request=None, responses=PlanSerializer)
    def post(self, request: Request, key: str) -> Response:
        """Let the moves of a paused plan begin again."""
        plan_id = selectors.plan_by(key).pk
        services.resume_plan(plan_id, expected=expected_generation(request._request))
        return answer_plan(request, selectors.plan_by(plan_id))


class PlanCancel(ClusterWide, ApiView):
    """Cancelling a plan."""

    @extend_schema(request=None, responses=PlanSerializer)
    def post(self, request: Request, key: str) -> Response:
        """Stop a plan: moves under way are finished, no other begins."""
        plan_id, by = selectors.plan_by(key).pk, principal_of(request).username
        services.cancel_plan(plan_id, by=by, expected=expected_generation(request._request))
        return answer_plan(request, selectors.plan_by(plan_id))


class PlanRollback(ClusterWide, ApiView):
    """Taking a plan back."""

    takes_key = True

    @extend_schema(request=RollbackRequestSerializer, responses={202: OperationSerializer})
    def post(self, request: Request, key: str) -> Response:
        """Have the reverse plan made: everything it moved goes back, last first, where it can."""
        wanted = validated(RollbackRequestSerializer, request.data or {})
        plan, by = selectors.plan_by(key), principal_of(request).user_id
        expected = expected_generation(request._request)

        def begin() -> KeyedAnswer:
            made = making.begin_rollback(
                plan.pk, by=by, approve=wanted["approve"], expected=expected
            )
            return accepted(made)

        return once(request, request.data, begin)


class superseded_as_problem:  # noqa: N801 - read as a statement
    """Answer 409 with a code of its own where a plan no longer fits."""

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Translate."""
        if isinstance(error, services.PlanSupersededError):
            raise ProblemError(ProblemCode.PLAN_SUPERSEDED, str(error)) from error


# ---- previews ----


class PreviewList(ClusterWide, ApiView):
    """Previews on the cluster that runs."""

    rate_class = "solver"

    @extend_schema(request=PreviewRequestSerializer, responses={202: PreviewSerializer})
    def post(self, request: Request) -> Response:
        """Look what weights would do; nothing is written, and your last preview stops."""
        wanted = validated(PreviewRequestSerializer, request.data)
        known = set(Rack.objects.values_list("name", flat=True))
        if unknown := sorted(set(wanted["racks"]) - known):
            detail = f"there is no rack {unknown[0]}"
            raise InvalidInputError([FieldProblem("/racks", "unknown", detail)])
        by = principal_of(request).user_id
        made = preview_by_worker(by, wanted["weights"], wanted["racks"], wanted["limit_seconds"])
        body = represent_preview(read_preview(made, by=by))
        return Response(body, status=202, headers={"Location": f"/api/v1/previews/{made}/"})


class PreviewDetail(ClusterWide, ApiView):
    """One preview of the caller's."""

    @extend_schema(responses=PreviewSerializer)
    def get(self, request: Request, preview_id: UUID) -> Response:
        """Return the best answer so far; a search nobody looks at stops by itself."""
        found = read_preview(preview_id, by=principal_of(request).user_id)
        return answer(request, represent_preview(found))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, preview_id: UUID) -> Response:
        """Stop the search; what it found can still be read for some minutes."""
        by = principal_of(request).user_id
        read_preview(preview_id, by=by)
        stop_preview(preview_id, by=by)
        return Response(status=204)


# ---- the loop ----


class PlacementLoop(ClusterWide, ApiView):
    """How the cluster is re-placed."""

    @extend_schema(responses=LoopSerializer)
    def get(self, request: Request) -> Response:
        """Return the settings of the loop and what it found last."""
        row = selectors.loop()
        return answer(request, represent_loop(row), generation=row.generation)

    @extend_schema(request=LoopChangeSerializer, responses=LoopSerializer)
    def patch(self, request: Request) -> Response:
        """Change settings; `automatic` lets plans be carried out without asking."""
        changes = loop_changes(validated(LoopChangeSerializer, request.data))
        row = set_loop(changes, expected=expected_generation(request._request))
        return answer(request, represent_loop(row), generation=row.generation)
