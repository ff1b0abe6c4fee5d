"""The replay against the real API and the real database."""

import os
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from pytest_django.live_server_helper import LiveServer

from apps.accounts.core.roles import Role
from apps.accounts.services import create_token, create_user
from apps.inventory.core.cluster_file import ClusterSpec, PlatformSpec, ServerSpec
from apps.inventory.services import import_cluster, start_clock
from apps.testbed.management.replay.api_client import ApiClient
from apps.testbed.management.replay.state_file import load_state
from apps.testbed.management.replay.submission import cluster_units
from apps.workloads.models import Job
from tests.testbed.samples import GOOGLE_ROWS, written

PLATFORM = PlatformSpec("x", 8, 64 * 10**9, 10**9, 10**12, 40, 100)
CLUSTER = ClusterSpec(
    "quay", (PLATFORM,), tuple(ServerSpec(f"s{number}", "x", "r0") for number in range(20))
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.broker]


@pytest.fixture
def instance(live_server: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import_cluster(CLUSTER)
    start_clock(speed=2000.0)
    user = create_user(username="replay", password=None, role=Role.SUBMITTER)
    monkeypatch.setenv("BERTH_HOME", str(tmp_path))
    monkeypatch.setenv("BERTH_URL", live_server.url)
    monkeypatch.setenv("BERTH_TOKEN", create_token(user=user, name="replay").secret)
    return tmp_path


def test_a_generated_day_arrives_whole_and_once(instance: Path) -> None:
    start_clock(speed=100_000.0)
    call_command("run_replay", jobs=300, stdout=StringIO())
    state = load_state(instance / "replay.json")
    assert state is not None
    assert state.rejected == 0
    assert Job.objects.count() == state.accepted > 300
    assert Job.objects.filter(labels__trace="facebook-day").count() == 300
    output = StringIO()
    call_command("verify_replay", stdout=output)
    assert "All checks passed." in output.getvalue()


def test_a_google_trace_arrives(instance: Path) -> None:
    trace = written(instance / "hour.csv", GOOGLE_ROWS)
    call_command("run_replay", trace=trace, services=0.0, stdout=StringIO())
    # both come in one batch, so neither is first
    kinds = Job.objects.values_list("target_kind", flat=True)
    assert sorted(kinds) == ["best_effort", "completion_time"]


def test_the_units_of_the_cluster_are_asked_from_the_api(
    instance: Path, live_server: LiveServer
) -> None:
    with ApiClient(live_server.url, os.environ["BERTH_TOKEN"]) as api:
        assert cluster_units(api) == 160
