"""Each quantity has one definition: pages, figures, REST and metrics show the same number."""

import base64
import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from apps.accounts.core.roles import Role
from apps.dashboard.core import formats
from apps.execution.services.frames import store_frame
from apps.inventory.models import Cluster, ClusterFrame
from tests import factories

pytestmark = pytest.mark.django_db
# cores, allocated, CPU share, seconds since the heartbeat, state
SERVERS = (
    (24, 12, 0.90, 1, "active"),
    (24, 24, 0.50, 1, "draining"),
    (4, 1, 0.10, 1, "active"),
    (4, 4, 0.80, 300, "active"),  # silent: its CPU is not known, its units still are
    (4, 0, 0.70, 1, "down"),
)
UNITS, ALLOCATED = 60, 41
CPU_USED = (24 * 0.9 + 24 * 0.5 + 4 * 0.1) / 52
WATTS = 3 * 120.0


@pytest.fixture
def busy(client: Client, db: None, settings: Settings) -> Client:
    """A cluster with large, small, silent and closed servers, and with a frame."""
    settings.BERTH_METRICS_OPEN = True
    factories.cluster()
    Cluster.objects.filter(id=1).update(
        wall_anchor_s=timezone.now().timestamp(), cluster_anchor_s=7_200
    )
    platforms = {24: factories.platform("J", cores=24), 4: factories.platform("A", cores=4)}
    for cores, allocated, share, age_s, state in SERVERS:
        server = factories.server(of=platforms[cores], used_cores=allocated, state=state)
        at = timezone.now() - timedelta(seconds=age_s)
        factories.reading(server, at=at, cpu_share=share, watts=120.0)
    client.force_login(factories.user("ada", role=Role.ADMIN))
    return client


def page(client: Client, name: str) -> str:
    return re.sub(r"<[^>]+>", "", client.get(reverse(name)).content.decode())


def answer(client: Client, address: str) -> Any:
    response = client.get(address)
    assert response.status_code == 200, response.content
    return json.loads(response.content)


def test_allocated_is_one_number(busy: Client) -> None:
    assert store_frame()
    share = ALLOCATED / UNITS
    frame = ClusterFrame.objects.get()
    cluster = answer(busy, "/api/v1/cluster/")
    platforms = answer(busy, "/api/v1/platforms/")["results"]
    figure = answer(busy, reverse("figure", args=["utilisation"]))
    state = answer(busy, reverse("map-state"))
    metrics = busy.get("/metrics").content.decode()
    assert cluster["units_allocated"] == ALLOCATED
    assert cluster["units"] == UNITS
    assert frame.units_allocated == ALLOCATED
    assert sum(row["status"]["units_allocated"] for row in platforms) == ALLOCATED
    assert state["usage"]["all"]["allocated"] == share
    assert f"berth_units_allocated {ALLOCATED}.0" in metrics
    assert f"{formats.percent(share)} allocated" in page(busy, "overview")
    assert f"{formats.percent(share, 0)} allocated" in figure["title"]


def test_cpu_used_is_one_number(busy: Client) -> None:
    assert store_frame()
    figure = answer(busy, reverse("figure", args=["utilisation"]))
    state = answer(busy, reverse("map-state"))
    assert answer(busy, "/api/v1/cluster/")["cpu_share"] == pytest.approx(CPU_USED)
    assert ClusterFrame.objects.get().cpu_share == pytest.approx(CPU_USED)
    assert state["usage"]["all"]["cpu"] == pytest.approx(CPU_USED)
    assert f"CPU used{formats.thousands(100 * CPU_USED, 1)}%" in page(busy, "overview")
    assert f"{formats.percent(CPU_USED, 0)} of the cores are in use" in figure["title"]


def test_cpu_used_by_platform_is_one_number(busy: Client) -> None:
    assert store_frame()
    rows = answer(busy, reverse("figure", args=["utilisation"]))["table"]["rows"]
    by_name = {row[0]: row[2] for row in rows}
    layout = answer(busy, reverse("map-layout"))
    usage = answer(busy, reverse("map-state"))["usage"]["platform"]
    assert {
        name: formats.percent(share["cpu"], 0)
        for name, share in zip(layout["platforms"], usage, strict=True)
    } == by_name
    assert by_name["J"] == "70 %"  # of the two large servers
    assert by_name["A"] == "10 %"  # of the one small server that reports


def test_silent_and_down_servers_have_no_cpu_anywhere(busy: Client) -> None:
    assert store_frame()
    state = answer(busy, reverse("map-state"))
    layer = answer(busy, "/api/v1/cluster/map/?layer=cpu")
    known = [True, True, True, False, False]
    for packed in (state["cpu"], layer["values"]):
        assert [byte != 255 for byte in base64.b64decode(packed)] == known
    assert [byte != 255 for byte in bytes(ClusterFrame.objects.get().server_cpu)] == known


def test_power_is_one_number(busy: Client) -> None:
    assert store_frame()
    metrics = busy.get("/metrics").content.decode()
    assert answer(busy, "/api/v1/cluster/")["power_watts"] == WATTS
    assert ClusterFrame.objects.get().watts == WATTS
    assert f"berth_cluster_power_watts {WATTS}" in metrics
    assert "Power0.360kW3 of 5 servers report" in page(busy, "overview")
    title = answer(busy, reverse("figure", args=["power"]))["title"]
    assert title.startswith("The cluster draws 360 W")


def test_the_99th_percentile_of_the_decision_time_is_one_number(busy: Client) -> None:
    job = factories.job()
    for i in range(200):
        factories.decision(
            job,
            agent=f"agent-{i % 2}",
            elapsed_s=(i + 1) / 10_000,
            cluster_s=7_000.0 - i,
            at=timezone.now(),
        )
    expected = formats.duration(198.01 / 10_000)  # between the 198th and the 199th of 200
    system = busy.get(reverse("system")).content.decode()
    shown = re.search(r'id="decision-p99">([^<]+)<', system)
    assert shown is not None
    assert shown[1] == expected
    title = answer(busy, reverse("figure", args=["decision-latency"]))["title"]
    assert title.startswith(f"99 % of decisions within {expected};")
    overview = page(busy, "overview")
    assert f"Decision time, p99{expected.replace(' ', '')}in the agent, n = 200" in overview
    rows = answer(busy, reverse("figure", args=["decision-latency"]))["table"]["rows"]
    assert ("p99", expected) in {tuple(row[:2]) for row in rows}
