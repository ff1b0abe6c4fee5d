"""Plans requested by users: each request is an operation that a worker processes."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from apps.accounts.services import Act, record_act
from apps.common.core.errors import ConflictError, ControlPlaneError
from apps.common.core.preconditions import require_generation
from apps.common.core.problem_codes import ProblemCode
from apps.common.infrastructure.notifications import notify
from apps.operations.core.states import TERMINAL, OperationStatus
from apps.operations.models import Operation
from apps.operations.services import (
    OperationLostError,
    advance_operation,
    begin_operation,
    claim_operation,
    finish_operation,
    finish_owned,
    owned_operation,
    why_given_up,
)
from apps.placement.core.rebalancing.lifecycle import OPEN, PlanState
from apps.placement.models import Plan, PlanCause, PlannedMigrationState
from apps.placement.selectors import plans as selectors
from apps.placement.selectors.preferences import weights_in_force
from apps.placement.services.rebalancing.job_migration import (
    JobMigration,
    propose_job_migration,
)
from apps.placement.services.rebalancing.planner import NoGain, propose_plan
from apps.placement.services.rebalancing.plans import (
    PLAN_TASK,
    QUEUE,
    NewPlan,
    PlanSupersededError,
    write_plan,
)
from apps.placement.services.rebalancing.rollback import propose_rollback

KIND: Final = "placement.plan"
TOTAL: Final = 1  # steps of progress: a plan is written or not
HEARTBEAT_S: Final = 5.0  # between two heartbeats, well within an operation's lease
PlanningResult = NewPlan | NoGain
# (arguments of the operation, its creator, should_stop) -> result
PlanningFunction = Callable[[Mapping[str, Any], UUID | None, Callable[[], bool]], PlanningResult]
_logger = logging.getLogger(__name__)


def request_plan(*, by: UUID) -> Operation:
    """Request a plan for the weights in force.

    Raises
    ------
    ConflictError : no weights are in force, or another request is open.
    """
    if weights_in_force() is None:
        raise ConflictError("No weights are in force: activate a preference set first.")
    return _begin_request(by, {"cause": PlanCause.REQUEST.value})


def request_rollback(
    plan_id: UUID, *, by: UUID, approve: bool, expected: int | None = None
) -> Operation:
    """Request the plan that rolls another one back.

    Parameters
    ----------
    approve : approve it as soon as it is written

    Raises
    ------
    ConflictError : the plan has not ended, migrated nothing, or has an open or completed rollback.
    """
    with transaction.atomic():
        selectors.lock_loop_settings()
        plan = selectors.plan_by_key(plan_id)
        require_generation(expected, plan.generation)
        if plan.ended_s is None and (plan.state in OPEN or plan.began_s is not None):
            raise ConflictError(f"{plan} has not ended: cancel it first.")
        if not plan.migrations.filter(state=PlannedMigrationState.DONE).exists():
            raise ConflictError(f"{plan} migrated nothing: there is nothing to roll back.")
        rollbacks = plan.reversed_by.exclude(
            state__in=[PlanState.CANCELLED, PlanState.SUPERSEDED, PlanState.FAILED]
        )
        if (other := rollbacks.first()) is not None:
            raise ConflictError(f"{other} already rolls {plan} back.")
        arguments = {"cause": PlanCause.REVERSE.value, "plan": str(plan.pk), "approve": approve}
        return _begin_request(by, arguments)


def request_job_migration(asked: JobMigration, *, by: UUID, approve: bool) -> Operation:
    """Request the plan that migrates units of one job.

    Parameters
    ----------
    approve : approve it as soon as it is written

    Raises
    ------
    ConflictError : another request is open.
    """
    arguments = {"cause": PlanCause.MIGRATE.value, "approve": approve, **asked.as_arguments()}
    return _begin_request(by, arguments)


def _begin_request(by: UUID, arguments: Mapping[str, Any]) -> Operation:
    with transaction.atomic():
        selectors.lock_loop_settings()
        if (other := open_requests().first()) is not None:
            raise ConflictError(f"Operation {other.pk} is already creating a plan.")
        operation = begin_operation(kind=KIND, created_by=by, total=TOTAL, arguments=arguments)
        record_act(Act("plan.requested", str(operation.pk), after=dict(arguments)), by=by)
        notify(PLAN_TASK, queue=QUEUE)
    return operation


def open_requests() -> QuerySet[Operation]:
    """Return the operations that request a plan and have not ended, oldest first."""
    rows = Operation.objects.filter(kind=KIND).exclude(status__in=TERMINAL)
    return rows.order_by("created_at")


def process_plan_requests(plan: PlanningFunction | None = None) -> int:
    """Process the pending requests; returns the number that this worker claimed."""
    pending = open_requests().filter(status=OperationStatus.PENDING)
    ids = list(pending.values_list("pk", flat=True))
    return sum(_process(operation_id, plan or _plan_for) for operation_id in ids)


def _plan_for(
    arguments: Mapping[str, Any], by: UUID | None, should_stop: Callable[[], bool]
) -> PlanningResult:
    if arguments["cause"] == PlanCause.REVERSE:
        return propose_rollback(UUID(arguments["plan"]), by=by)
    if arguments["cause"] == PlanCause.MIGRATE:
        return propose_job_migration(arguments, by=by)
    active = weights_in_force()
    if active is None:
        return NoGain("No weights are in force.")
    return propose_plan(
        active,
        cause=PlanCause.REQUEST,
        settings=selectors.loop_settings(),
        by=by,
        should_stop=should_stop,
    )


def _process(operation_id: UUID, plan: PlanningFunction) -> bool:
    """Process a request; returns False if another worker claimed it."""
    operation = claim_operation(operation_id)
    if operation is None:
        return False
    try:
        if why := why_given_up(operation):
            _fail(operation, why)
        else:
            _plan_and_write(operation, plan)
    except OperationLostError:
        _logger.warning("operation %s was taken over by another worker", operation_id)
    except PlanSupersededError as error:
        _fail(operation, str(error), code=ProblemCode.PLAN_SUPERSEDED)
    except ControlPlaneError as error:
        _fail(operation, str(error))
    except Exception:
        _logger.exception("operation %s failed to create a plan", operation_id)
        _fail(operation, "Planning failed with an internal error; see the log.")
    return True


def _plan_and_write(operation: Operation, plan: PlanningFunction) -> None:
    heartbeat = _OperationHeartbeat(operation)
    proposal = None
    if not heartbeat.is_cancelled():
        proposal = plan(operation.arguments, operation.created_by_id, heartbeat.is_cancelled)
    with transaction.atomic():
        if owned_operation(operation).cancel_requested or proposal is None:
            finish_operation(operation.pk, status=OperationStatus.CANCELLED)
            return
        if isinstance(proposal, NoGain):
            result: dict[str, Any] = {"plan": None, "reason": proposal.reason}
        else:
            approve = bool(operation.arguments.get("approve"))
            result = _result(write_plan(proposal, approve=approve))
        finish_operation(operation.pk, status=OperationStatus.SUCCEEDED, result=result)


class _OperationHeartbeat:
    """Renews the lease of an operation during a search, and checks whether it was cancelled."""

    def __init__(self, claimed: Operation) -> None:
        self._claimed = claimed
        self._next_s, self._is_cancelled = 0.0, False

    def is_cancelled(self) -> bool:
        """Whether the operation was cancelled; asks the database every `HEARTBEAT_S`.

        Raises
        ------
        OperationLostError : another worker took the operation over.
        """
        now_s = time.monotonic()
        if not self._is_cancelled and now_s >= self._next_s:
            self._next_s = now_s + HEARTBEAT_S
            self._is_cancelled = not advance_operation(
                self._claimed, progress=0, message="searching for better placements"
            )
        return self._is_cancelled


def _fail(operation: Operation, detail: str, *, code: ProblemCode | None = None) -> None:
    problem = {"title": "No plan was created", "detail": detail}
    problem |= {"code": code.value} if code else {}
    finish_owned(operation, status=OperationStatus.FAILED, problem=problem)


def _result(plan: Plan) -> dict[str, Any]:
    return {"plan": str(plan.pk), "name": str(plan), "moves": plan.migrations.count()}
