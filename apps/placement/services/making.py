"""Plans that somebody asked for: an operation says what is wanted, a worker makes it."""

from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from apps.common.core.errors import ConflictError
from apps.common.core.preconditions import require_generation
from apps.common.poke import poke
from apps.operations.core.states import TERMINAL, OperationStatus
from apps.operations.models import Operation
from apps.operations.services import (
    advance_operation,
    begin_operation,
    claim_operation,
    finish_operation,
)
from apps.placement.models import Cause, Plan, PlanState
from apps.placement.selectors import plans as selectors
from apps.placement.selectors.preferences import weights_in_force
from apps.placement.services.plans import (
    QUEUE,
    TASK,
    NewPlan,
    PlanSupersededError,
    write_plan,
)
from apps.placement.services.proposing import NothingGained, propose
from apps.placement.services.reversing import propose_reverse

KIND: Final = "placement.plan"
STEPS: Final = 2  # looked for, written
Made = NewPlan | NothingGained
Make = Callable[[Mapping[str, Any], UUID | None], Made]


def begin_plan(*, by: UUID) -> Operation:
    """Ask for a plan by the weights in force.

    Raises
    ------
    ConflictError : no weights are in force, or a plan is being made already.
    """
    if weights_in_force() is None:
        raise ConflictError("No weights are in force: activate a preference set first.")
    return _begin(by, {"cause": Cause.REQUEST.value})


def begin_rollback(
    plan_id: UUID, *, by: UUID, approve: bool, expected: int | None = None
) -> Operation:
    """Ask for the plan that takes another one back.

    Parameters
    ----------
    approve : carry it out without asking again

    Raises
    ------
    ConflictError : the plan has not ended, moved nothing, or is being taken back already.
    """
    plan = selectors.plan_by(plan_id)
    require_generation(expected, plan.generation)
    if plan.ended_s is None:
        raise ConflictError(f"{plan} has not ended: cancel it first.")
    if not plan.moves.filter(state="done").exists():
        raise ConflictError(f"{plan} moved nothing: there is nothing to take back.")
    undone = plan.reversed_by.exclude(
        state__in=[PlanState.CANCELLED, PlanState.SUPERSEDED, PlanState.FAILED]
    )
    if (other := undone.first()) is not None:
        raise ConflictError(f"{other} takes {plan} back already.")
    arguments = {"cause": Cause.REVERSE.value, "plan": str(plan.pk), "approve": approve}
    return _begin(by, arguments)


def _begin(by: UUID, arguments: Mapping[str, Any]) -> Operation:
    with transaction.atomic():
        selectors.lock_loop()
        if (other := waiting_operations().first()) is not None:
            raise ConflictError(f"Operation {other.pk} is making a plan already.")
        operation = begin_operation(kind=KIND, created_by=by, total=STEPS, arguments=arguments)
        poke(TASK, queue=QUEUE)
    return operation


def waiting_operations() -> QuerySet[Operation]:
    """Return operations that make a plan and have not ended, oldest first."""
    rows = Operation.objects.filter(kind=KIND).exclude(status__in=TERMINAL)
    return rows.order_by("created_at")


def make_plans(make: Make | None = None) -> int:
    """Make the plans that are waited for; returns how many operations were worked on."""
    ids = list(waiting_operations().filter(status=OperationStatus.PENDING).values_list("pk"))
    return sum(_work(pk, make or _make) for (pk,) in ids)


def _make(arguments: Mapping[str, Any], by: UUID | None) -> Made:
    if arguments["cause"] == Cause.REVERSE:
        return propose_reverse(UUID(arguments["plan"]), by=by)
    active = weights_in_force()
    if active is None:
        return NothingGained("No weights are in force.")
    return propose(
        active.weights,
        cause=Cause.REQUEST,
        settings=selectors.loop(),
        racks=selectors.racks_in_force(active),
        by=by,
        preference_set_id=active.preference_set_id,
    )


def _work(operation_id: UUID, make: Make) -> bool:
    """Do what an operation asks for; False where another worker does."""
    operation = claim_operation(operation_id)
    if operation is None:
        return False
    advance_operation(operation_id, progress=0, message="looking for better places")
    made = make(operation.arguments, operation.created_by_id)
    if not advance_operation(operation_id, progress=1, message="writing the plan down"):
        _end(operation_id, OperationStatus.CANCELLED)
        return True
    if isinstance(made, NothingGained):
        _end(operation_id, OperationStatus.SUCCEEDED, result={"plan": None, "reason": made.reason})
        return True
    try:
        plan = write_plan(made, approve=bool(operation.arguments.get("approve")))
    except PlanSupersededError as error:
        problem = {"title": "No plan was made", "detail": str(error), "code": "plan-superseded"}
        _end(operation_id, OperationStatus.FAILED, problem=problem)
        return True
    _end(operation_id, OperationStatus.SUCCEEDED, result=_result(plan))
    return True


def _result(plan: Plan) -> dict[str, Any]:
    return {"plan": str(plan.pk), "name": str(plan), "moves": plan.moves.count()}


def _end(operation_id: UUID, status: OperationStatus, **facts: Any) -> None:
    """End an operation, unless it was ended while we worked."""
    row = Operation.objects.get(pk=operation_id)
    if row.status not in TERMINAL:
        finish_operation(operation_id, status=status, **facts)
