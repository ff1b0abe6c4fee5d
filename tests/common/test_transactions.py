"""Deadlocks: their victims run again, once, and are counted."""

from threading import Barrier

import pytest
from django.db import OperationalError, connection, transaction
from django.test import Client
from pytest_django import Settings
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory

from apps.common.api.views import ApiView
from apps.common.infrastructure.retried_task import RetriedTask
from apps.common.infrastructure.transactions import retry_once
from apps.common.models import TransactionRetry
from apps.workloads.models import Application
from controlplane.celery import app
from tests import factories
from tests.races import PATIENCE_S, at_once

pytestmark = pytest.mark.django_db(transaction=True)


def retries() -> dict[str, int]:
    return dict(TransactionRetry.objects.values_list("sqlstate", "retries"))


class Crossing:
    """Two transactions that lock two rows in opposite order; each first try meets the other's."""

    def __init__(self) -> None:
        self.rows = [factories.application(name).pk for name in ("a", "b")]
        self.both_hold_one = Barrier(2)
        self.tries = 0

    def lock(self, order: int) -> str:
        """Lock both rows in one transaction."""
        self.tries += 1
        rows = Application.objects.select_for_update()
        first, second = self.rows[::order]
        with transaction.atomic():
            rows.get(pk=first)
            if self.tries <= 2:
                self.both_hold_one.wait(PATIENCE_S)
            return rows.get(pk=second).name


def test_the_victim_of_a_deadlock_runs_again() -> None:
    world, orders = Crossing(), [1, -1]
    names = at_once(2, lambda: retry_once(world.lock)(orders.pop()))
    assert sorted(names) == ["a", "b"]
    # each transaction may be the victim once
    deadlocks = retries()["40P01"]
    assert deadlocks in {1, 2}
    assert world.tries == 2 + deadlocks


def test_a_second_conflict_is_raised() -> None:
    calls = []

    def fail() -> None:
        calls.append(1)
        with connection.cursor() as cursor:
            cursor.execute("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$")

    for _ in range(2):
        with pytest.raises(OperationalError):
            retry_once(fail)()
    assert (len(calls), retries()) == (4, {"40001": 2})


def test_other_errors_are_raised_at_once() -> None:
    def fail() -> None:
        with connection.cursor() as cursor:
            cursor.execute("DO $$ BEGIN RAISE SQLSTATE '55P03'; END $$")

    with pytest.raises(OperationalError):
        retry_once(fail)()
    assert retries() == {}


def test_a_part_of_a_transaction_does_not_run_again() -> None:
    calls = []

    def fail() -> None:
        calls.append(1)
        with connection.cursor() as cursor:
            cursor.execute("DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$")

    with pytest.raises(OperationalError), transaction.atomic():
        retry_once(fail)()
    assert (calls, retries()) == ([1], {})


def test_a_client_does_not_see_a_deadlock() -> None:
    world, orders = Crossing(), [1, -1]

    class Crossed(ApiView):
        authentication_classes = ()
        permission_classes = ()
        query_parameters = frozenset({"order"})

        def post(self, request: Request) -> Response:
            order = request.query_params["order"]
            return Response({"name": world.lock(int(order))})

    def post() -> int:
        request = APIRequestFactory().post(f"/?order={orders.pop()}")
        return Crossed.as_view()(request).status_code

    assert at_once(2, post) == [200, 200]
    assert (world.tries, retries()) == (3, {"40P01": 1})


def test_a_task_runs_again() -> None:
    world, orders = Crossing(), [1, -1]

    @app.task(name="tests.crossed")
    def crossed(order: int) -> str:
        return world.lock(order)

    assert isinstance(crossed, RetriedTask)
    names = at_once(2, lambda: crossed.apply((orders.pop(),), throw=True).get())
    assert sorted(names) == ["a", "b"]
    assert retries() == {"40P01": 1}


def test_retries_are_a_metric(client: Client, settings: Settings) -> None:
    settings.BERTH_METRICS_OPEN = True
    TransactionRetry.objects.create(sqlstate="40P01", retries=3)
    answer = client.get("/metrics").content.decode()
    assert 'berth_transaction_retries{sqlstate="40P01"} 3.0' in answer
    assert 'berth_transaction_retries{sqlstate="40001"} 0.0' in answer
