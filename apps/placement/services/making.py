"""Plans that somebody asked for: an operation says what is wanted, a worker makes it."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from apps.common.core.errors import ConflictError, ControlPlaneError
from apps.common.core.preconditions import require_generation
from apps.common.core.problem_codes import ProblemCode
from apps.common.poke import poke
from apps.operations.core.states import TERMINAL, OperationStatus
from apps.operations.models import Operation
from apps.operations.services import (
    MOST_ATTEMPTS,
    LostError,
    advance_operation,
    begin_operation,
    claim_operation,
    finish_operation,
    finish_owned,
    owned_operation,
)
from apps.placement.core.plan_states import OPEN
from apps.placement.models import Cause, MoveState, Plan, PlanState
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
STEPS: Final = 1  # looked for and written
TELL_S: Final = 5.0  # between two signs of life, well within an operation's lease
Made = NewPlan | NothingGained
# what an operation asks for, who asked, whether to stop
Make = Callable[[Mapping[str, Any], UUID | None, Callable[[], bool]], Made]
_logger = logging.getLogger(__name__)


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
    with transaction.atomic():
        selectors.lock_loop()
        plan = selectors.plan_by(plan_id)
        require_generation(expected, plan.generation)
        if plan.ended_s is None and (plan.state in OPEN or plan.began_s is not None):
            raise ConflictError(f"{plan} has not ended: cancel it first.")
        if not plan.moves.filter(state=MoveState.DONE).exists():
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


def _make(arguments: Mapping[str, Any], by: UUID | None, should_stop: Callable[[], bool]) -> Made:
    if arguments["cause"] == Cause.REVERSE:
        return propose_reverse(UUID(arguments["plan"]), by=by)
    active = weights_in_force()
    if active is None:
        return NothingGained("No weights are in force.")
    return propose(
        active, cause=Cause.REQUEST, settings=selectors.loop(), by=by, should_stop=should_stop
    )


def _work(operation_id: UUID, make: Make) -> bool:
    """Do what an operation asks for; False where another worker does."""
    operation = claim_operation(operation_id)
    if operation is None:
        return False
    try:
        if operation.arguments["attempt"] > MOST_ATTEMPTS:
            _fail(operation, f"Its worker died {MOST_ATTEMPTS} times.")
        else:
            _make_and_write(operation, make)
    except LostError:
        _logger.warning("operation %s was taken over by another worker", operation_id)
    except PlanSupersededError as error:
        _fail(operation, str(error), code=ProblemCode.PLAN_SUPERSEDED)
    except ControlPlaneError as error:
        _fail(operation, str(error))
    except Exception:
        _logger.exception("operation %s made no plan", operation_id)
        _fail(operation, "Making it broke; the log holds the rest.")
    return True


def _make_and_write(operation: Operation, make: Make) -> None:
    alive = _Alive(operation)
    made = None
    if not alive.is_over():
        made = make(operation.arguments, operation.created_by_id, alive.is_over)
    with transaction.atomic():
        if owned_operation(operation).cancel_requested or made is None:
            finish_operation(operation.pk, status=OperationStatus.CANCELLED)
            return
        if isinstance(made, NothingGained):
            result: dict[str, Any] = {"plan": None, "reason": made.reason}
        else:
            approve = bool(operation.arguments.get("approve"))
            result = _result(write_plan(made, approve=approve))
        finish_operation(operation.pk, status=OperationStatus.SUCCEEDED, result=result)


class _Alive:
    """Says from time to time that a search goes on, and looks whether it should."""

    def __init__(self, claimed: Operation) -> None:
        self._claimed = claimed
        self._next_s, self._is_over = 0.0, False

    def is_over(self) -> bool:
        """Whether the operation was cancelled.

        Raises
        ------
        LostError : it is no longer ours.
        """
        now_s = time.monotonic()
        if not self._is_over and now_s >= self._next_s:
            self._next_s = now_s + TELL_S
            self._is_over = not advance_operation(
                self._claimed, progress=0, message="looking for better places"
            )
        return self._is_over


def _fail(operation: Operation, detail: str, *, code: ProblemCode | None = None) -> None:
    problem = {"title": "No plan was made", "detail": detail}
    problem |= {"code": code.value} if code else {}
    finish_owned(operation, status=OperationStatus.FAILED, problem=problem)


def _result(plan: Plan) -> dict[str, Any]:
    return {"plan": str(plan.pk), "name": str(plan), "moves": plan.moves.count()}
