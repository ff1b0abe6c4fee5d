"""Plan requests: operations that a worker processes."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.common.core.errors import ConflictError
from apps.operations.services import cancel_operation, release_expired_operations
from apps.placement.models import Activation, Plan
from apps.placement.services.rebalancing import plan_requests
from apps.placement.services.rebalancing.plan_requests import (
    process_plan_requests,
    request_plan,
)
from tests.placement import rebalancing_world as world
from tests.placement.conftest import Stage


def test_a_request_creates_a_plan_and_names_it(stage: Stage) -> None:
    world.running_job("stays", (stage.servers[2], 1))
    operation = request_plan(by=stage.by.pk)
    assert process_plan_requests() == 1
    operation.refresh_from_db()
    plan = Plan.objects.get()
    assert operation.status == "succeeded"
    assert operation.result == {"plan": str(plan.pk), "name": "p-0001", "moves": 1}
    assert (plan.cause, plan.created_by, plan.weights) == ("request", stage.by, world.WEIGHTS)


def test_the_operation_gives_the_reason_for_no_gain(stage: Stage) -> None:
    operation = request_plan(by=stage.by.pk)
    process_plan_requests()
    operation.refresh_from_db()
    reason = "No migration of the 3 movable containers gains more than it costs."
    assert (operation.status, operation.result) == ("succeeded", {"plan": None, "reason": reason})
    assert not Plan.objects.exists()


def test_no_plan_without_weights(stage: Stage) -> None:
    Activation.objects.all().delete()
    with pytest.raises(ConflictError, match="No weights are in force"):
        request_plan(by=stage.by.pk)


def test_one_request_is_open_at_a_time(stage: Stage) -> None:
    operation = request_plan(by=stage.by.pk)
    with pytest.raises(ConflictError, match=str(operation.pk)):
        request_plan(by=stage.by.pk)


def test_a_cancelled_request_creates_no_plan(stage: Stage) -> None:
    operation = request_plan(by=stage.by.pk)
    type(operation).objects.filter(pk=operation.pk).update(cancel_requested=True)
    process_plan_requests()
    operation.refresh_from_db()
    assert (operation.status, Plan.objects.count()) == ("cancelled", 0)


def test_an_internal_error_fails_the_request_once_and_is_logged(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> Any:
        raise KeyError("gone")

    operation = request_plan(by=stage.by.pk)
    assert plan_requests.process_plan_requests(broken) == 1
    operation.refresh_from_db()
    assert operation.status == "failed"
    assert operation.problem is not None
    assert operation.problem["detail"] == "Planning failed with an internal error; see the log."
    assert str(operation.pk) in caplog.text
    assert plan_requests.process_plan_requests() == 0
    request_plan(by=stage.by.pk)


def test_other_weights_during_planning_fail_the_request_with_a_code(stage: Stage) -> None:
    def late(*args: Any) -> Any:
        result = plan_requests._plan_for(*args)
        world.activate(stage.by, {"P": 1.0, "D": 0.5, "C": 0.0})
        return result

    world.running_job("stays", (stage.servers[2], 1))
    operation = request_plan(by=stage.by.pk)
    plan_requests.process_plan_requests(late)
    operation.refresh_from_db()
    assert operation.problem is not None
    assert (operation.status, operation.problem["code"]) == ("failed", "plan_superseded")


def test_a_worker_that_lost_its_lease_writes_no_plan(stage: Stage) -> None:
    world.running_job("stays", (stage.servers[2], 1))
    operation = request_plan(by=stage.by.pk)
    rows = type(operation).objects.filter(pk=operation.pk)

    def silent(*args: Any) -> Any:
        result = plan_requests._plan_for(*args)
        rows.update(lease_until=timezone.now() - timedelta(seconds=1))
        release_expired_operations()
        return result

    plan_requests.process_plan_requests(silent)
    operation.refresh_from_db()
    assert (operation.status, Plan.objects.count()) == ("pending", 0)
    plan_requests.process_plan_requests()
    operation.refresh_from_db()
    assert (operation.status, Plan.objects.count()) == ("succeeded", 1)


def test_a_request_whose_workers_die_fails(stage: Stage) -> None:
    operation = request_plan(by=stage.by.pk)
    type(operation).objects.filter(pk=operation.pk).update(
        arguments={"cause": "request", "attempt": 3}
    )
    plan_requests.process_plan_requests()
    operation.refresh_from_db()
    assert operation.problem is not None
    assert operation.problem["detail"] == "The worker died 3 times."


def test_cancelling_a_request_stops_its_search(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_requests, "HEARTBEAT_S", 0.0)
    operation = request_plan(by=stage.by.pk)
    answers: list[bool] = []

    def long(arguments: Any, by: Any, should_stop: Callable[[], bool]) -> Any:
        answers.append(should_stop())
        cancel_operation(operation.pk)
        answers.append(should_stop())
        return plan_requests._plan_for(arguments, by, should_stop)

    plan_requests.process_plan_requests(long)
    operation.refresh_from_db()
    assert (answers, operation.status) == ([False, True], "cancelled")
