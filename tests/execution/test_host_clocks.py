"""Leases follow the database's clock: hosts whose clocks differ agree on them."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from time import time

import pytest
from django.test import Client
from django.utils import timezone

from apps.common.infrastructure.database import database_now
from apps.inventory.selectors import cluster_now
from apps.inventory.services import save_clock
from apps.operations.models import Event
from apps.operations.services import begin_operation, claim_operation, release_expired_operations
from apps.placement.services.rebalancing.loop import claim_tick
from apps.workloads.core.spec import parse_job
from apps.workloads.models import Job
from apps.workloads.services import claim_waiting, submit_jobs
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


@pytest.mark.parametrize("ahead_s", [HOUR_S, -HOUR_S])
def test_cluster_time_is_that_of_the_database(ahead_s: float, host: Host) -> None:
    factories.cluster(wall_anchor_s=time() - 10.0, speed=60.0)
    host(ahead_s)
    save_clock()
    assert cluster_now() == pytest.approx(7800.0, abs=60.0 * 15.0)
    assert not Event.objects.exists()


@pytest.mark.parametrize(("first_s", "second_s"), DIFFERENCES)
def test_the_rebalancing_loop_pauses_on_all_hosts(
    first_s: float, second_s: float, host: Host
) -> None:
    factories.cluster(seen_cluster_s=7200.0)
    host(first_s)
    assert claim_tick() is not None
    factories.cluster(seen_cluster_s=7200.0 + HOUR_S)
    host(second_s)
    assert claim_tick() is None


@pytest.mark.parametrize("ahead_s", [HOUR_S, -HOUR_S])
def test_servers_and_leases_are_judged_by_the_clock_of_the_database(
    ahead_s: float, host: Host, client: Client
) -> None:
    factories.cluster()
    factories.reading(factories.server(), at=database_now())
    factories.reading(factories.server(), at=database_now() - timedelta(seconds=90))
    client.force_login(factories.user("vic"))
    host(ahead_s)
    page = client.get("/system/").content.decode()
    assert "1 silent for over a minute" in page


@pytest.mark.parametrize("ahead_s", [HOUR_S, -HOUR_S])
def test_jobs_are_stamped_by_the_clock_of_the_database(ahead_s: float, host: Host) -> None:
    factories.cluster()
    project, user = factories.project(), factories.user("ada")
    spec = parse_job({"application": "sort", "target": {"kind": "best_effort"}})
    host(ahead_s)
    for specs in ([spec], [spec, spec]):
        submit_jobs(specs, project=project, user=user, correlation_id="r")
    stamps = Job.objects.values_list("created_at", flat=True)
    assert len(stamps) == 3
    assert all(abs(database_now() - at) < timedelta(minutes=1) for at in stamps)


@pytest.mark.parametrize(("first_s", "second_s"), DIFFERENCES)
def test_an_operation_stays_with_its_worker(first_s: float, second_s: float, host: Host) -> None:
    operation = begin_operation(kind="test", created_by=None)
    host(first_s)
    assert claim_operation(operation.pk) is not None
    host(second_s)
    assert release_expired_operations() == 0
