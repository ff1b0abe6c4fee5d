"""The operation that measures the quality of sampling."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.core.roles import Role
from apps.common.core.errors import ConflictError
from apps.operations.models import Operation
from apps.operations.services import cancel_operation, release_expired_operations
from apps.testbed.core.sampling_quality import SamplingExperiment
from apps.testbed.core.sampling_quality import measure as really_measure
from apps.testbed.models import SamplingCheck
from apps.testbed.services import sampling_runs
from apps.testbed.services.sampling_requests import begin_sampling_check
from apps.testbed.services.sampling_runs import run_sampling_check
from tests import factories

pytestmark = pytest.mark.django_db
SMALL = SamplingExperiment(servers=20, decisions=20, load=0.5)


@pytest.fixture(autouse=True)
def always_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report every arrival instead of once a second."""
    monkeypatch.setattr(sampling_runs, "REPORT_S", 0.0)


def during(monkeypatch: pytest.MonkeyPatch, size: int, act: Callable[[], object]) -> None:
    """Act at the first arrival of the measurement of one size."""

    def measure(experiment: SamplingExperiment, policy: Any, report: Any) -> Any:
        if experiment.size == size:
            act()
        return really_measure(experiment, policy, report)

    monkeypatch.setattr(sampling_runs, "measure", measure)


def test_a_measurement_stores_every_size_and_ends() -> None:
    operation = begin_sampling_check(by=None)
    assert run_sampling_check(SMALL)
    operation.refresh_from_db()
    assert (operation.status, operation.progress) == ("succeeded", operation.total)
    assert sorted(SamplingCheck.objects.values_list("size", flat=True)) == [8, 16, 32]


def test_only_one_measurement_runs_at_a_time() -> None:
    operation = begin_sampling_check(by=None)
    with pytest.raises(ConflictError, match=str(operation.pk)):
        begin_sampling_check(by=None)


def test_a_cancelled_measurement_keeps_the_sizes_that_it_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operation = begin_sampling_check(by=None)
    during(monkeypatch, 16, lambda: cancel_operation(operation.pk))
    assert not run_sampling_check(SMALL)
    operation.refresh_from_db()
    assert operation.status == "cancelled"
    assert list(SamplingCheck.objects.values_list("size", flat=True)) == [8]


class KilledError(BaseException):
    """The worker dies."""


def test_another_worker_continues_after_a_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    def die() -> None:
        raise KilledError

    operation = begin_sampling_check(by=None)
    during(monkeypatch, 32, die)
    with pytest.raises(KilledError):
        run_sampling_check(SMALL)
    assert not run_sampling_check(SMALL)  # the lease of the first worker holds
    Operation.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    release_expired_operations()
    monkeypatch.setattr(sampling_runs, "measure", really_measure)
    assert run_sampling_check(SMALL)
    operation.refresh_from_db()
    assert operation.status == "succeeded"
    assert sorted(SamplingCheck.objects.values_list("size", flat=True)) == [8, 16, 32]


def test_a_measurement_that_kills_its_workers_fails() -> None:
    operation = begin_sampling_check(by=None)
    Operation.objects.update(arguments={"attempt": 3})
    assert not run_sampling_check(SMALL)
    operation.refresh_from_db()
    assert operation.status == "failed"
    assert operation.problem == {
        "title": "The measurement failed",
        "detail": "3 workers ended during it.",
    }


def test_the_page_offers_the_measurement_then_shows_its_progress(client: Client) -> None:
    factories.cluster()
    client.force_login(factories.user("olga", role=Role.OPERATOR))
    assert 'data-sampling="run"' in client.get("/sampling/").content.decode()
    response = client.post("/api/v1/sampling-checks/", {}, content_type="application/json")
    assert response.status_code == 202
    page = client.get("/sampling/").content.decode()
    assert f'data-operation="{response.json()["id"]}"' in page
    assert "0 of 9,000 decisions" in page
    assert 'data-sampling="run"' not in page


def test_a_viewer_reads_which_role_the_measurement_needs(client: Client) -> None:
    factories.cluster()
    client.force_login(factories.user("vic", role=Role.VIEWER))
    page = client.get("/sampling/").content.decode()
    assert "It needs the role operator." in page
    assert "data-sampling" not in page
