"""Leases follow the database's clock: hosts whose clocks differ agree on them."""

from collections.abc import Callable
from datetime import UTC, datetime
from time import time

import pytest
from django.utils import timezone

from apps.operations.services import begin_operation, claim_operation, release_expired_operations
from apps.workloads.services import claim_waiting
from tests import factories

pytestmark = pytest.mark.django_db
HOUR_S = 3600.0
# seconds that the clock of the first and of the second host is ahead
DIFFERENCES = [(0.0, HOUR_S), (-HOUR_S, 0.0)]
Host = Callable[[float], None]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    """Continue on a host whose clock is ahead by some seconds."""

    def switch(ahead_s: float) -> None:
        now = lambda: datetime.fromtimestamp(time() + ahead_s, UTC)  # noqa: E731
        monkeypatch.setattr(timezone, "now", now)

    return switch


@pytest.mark.parametrize(("first_s", "second_s"), DIFFERENCES)
def test_a_job_is_not_taken_over_by_a_host_with_another_clock(
    first_s: float, second_s: float, host: Host
) -> None:
    factories.job(state="queued")
    host(first_s)
    assert len(claim_waiting(agent="one", limit=5)) == 1
    host(second_s)
    assert claim_waiting(agent="two", limit=5) == []


@pytest.mark.parametrize(("first_s", "second_s"), DIFFERENCES)
def test_an_operation_stays_with_its_worker(first_s: float, second_s: float, host: Host) -> None:
    operation = begin_operation(kind="test", created_by=None)
    host(first_s)
    assert claim_operation(operation.pk) is not None
    host(second_s)
    assert release_expired_operations() == 0
