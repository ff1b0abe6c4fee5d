"""The Overview as of an earlier moment, and pages that show only now."""

import base64
import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.dashboard.core.ranges import earlier_moment, time_range
from apps.inventory.models import Cluster, Platform
from tests import factories

pytestmark = pytest.mark.django_db
NOW_S, THEN_S = 7_200, 3_600


@pytest.fixture
def recorded(as_operator: Client) -> Client:
    """Two hours of frames: use rises from 20 % to 80 % after the first; now it is 50 %."""
    Cluster.objects.filter(id=1).update(
        wall_anchor_s=timezone.now().timestamp(), cluster_anchor_s=NOW_S
    )
    kind = factories.platform("J", cores=4)
    servers = [factories.server(of=kind, used_cores=4) for _ in range(2)]
    for server in servers:
        factories.reading(server, cpu_share=0.5, at=timezone.now(), watts=100.0)
    for cluster_s in (THEN_S - 60, THEN_S, NOW_S - 60):
        is_then = cluster_s <= THEN_S
        factories.frame(
            float(cluster_s),
            [0.2, 0.2] if is_then else [0.8, 0.8],
            at=timezone.now() - timedelta(seconds=(NOW_S - cluster_s) / 60),
            units_allocated=2,
            watts=160.0,
            facts={
                "jobs": {"running": 3, "queued": 1},
                "targets": {"met": 2, "measured": 3},
                "waiting": {"CapacityShort": 1},
            },
        )
    factories.job(state="running", attainment=0.5)
    return as_operator


def figure(client: Client, name: str, **query: Any) -> Any:
    return json.loads(client.get(reverse("figure", args=[name]), query).content)


def test_the_headline_of_the_past_counts_the_jobs_of_its_chart(recorded: Client) -> None:
    at = timezone.now() - timedelta(days=1)
    for ratio in (1.2, 0.9, 1.1):
        factories.job(
            state="succeeded", attainment=ratio, finished_s=THEN_S - 10.0, finished_at=at
        )
    page = recorded.get("/", {"at": THEN_S}).content.decode()
    assert "<b>2</b> of <b>3</b> jobs with a target that succeeded met it in the" in page
    assert ", n = 3 that succeeded in the" in figure(recorded, "attainment", at=THEN_S)["sub"]


def test_the_overview_shows_the_recorded_numbers(recorded: Client) -> None:
    page = recorded.get("/", {"at": THEN_S}).content.decode()
    assert "<b>As of <time" in page
    assert "day 1, 01:00" in page
    assert "20.0<span" in page  # CPU used
    assert "of 8 units; 25.0 % allocated" in page
    assert "Back to now" in page
    assert "Berth does not record what needed attention at an earlier moment." in page
    assert " data-past>" in page


def test_without_a_moment_the_overview_shows_now(recorded: Client) -> None:
    page = recorded.get("/").content.decode()
    assert 'id="as-of"' not in page
    assert "data-past" not in page
    assert "50.0<span" in page
    assert "of 8 units; 100.0 % allocated" in page


@pytest.mark.parametrize("at", ["", "soon", "nan", "-1", "1e9"])
def test_a_moment_that_is_not_in_the_past_is_now(recorded: Client, at: str) -> None:
    assert 'id="as-of"' not in recorded.get("/", {"at": at}).content.decode()


def test_figures_end_at_the_moment(recorded: Client) -> None:
    use = figure(recorded, "utilisation", at=THEN_S)
    assert use["title"].startswith("20 % of the cores are in use, 25 % allocated")
    assert figure(recorded, "power", at=THEN_S)["title"].startswith("The cluster draws 160 W")
    assert figure(recorded, "queue", at=THEN_S)["title"].startswith("1 job waiting")
    assert figure(recorded, "queue")["title"].startswith("No jobs waiting")


def test_decisions_after_the_moment_are_not_counted(recorded: Client) -> None:
    job = factories.job()
    for cluster_s, elapsed_s in ((THEN_S - 30, 0.002), (NOW_S - 30, 0.5)):
        factories.decision(
            job,
            cluster_s=cluster_s,
            elapsed_s=elapsed_s,
            at=timezone.now() - timedelta(seconds=(NOW_S - cluster_s) / 60),
        )
    then = figure(recorded, "decision-latency", at=THEN_S)
    assert then["title"].startswith("99 % of decisions within 2 ms")
    assert "n = 1" in then["sub"]
    assert "n = 2" in figure(recorded, "decision-latency")["sub"]


def decided(name: str, cluster_s: float, **values: Any) -> None:
    """A decision on a new job, at a wall time that fits the recorded frames."""
    at = timezone.now() - timedelta(seconds=(NOW_S - cluster_s) / 60)
    factories.decision(factories.job(name), cluster_s=cluster_s, at=at, **values)


def test_the_log_ends_at_the_moment(recorded: Client) -> None:
    decided("before", THEN_S - 30)
    decided("refused-before", THEN_S - 20, outcome="refused")
    decided("after", NOW_S - 30)
    page = recorded.get("/decisions/", {"at": THEN_S}).content.decode()
    assert "<b>As of <time" in page
    assert " data-past>" in page
    assert ">before</a>" in page
    assert ">after</a>" not in page
    assert "Of the last <b>2</b> until then, <b>1</b> placed a job" in page
    assert ">after</a>" in recorded.get("/decisions/").content.decode()
    placed = recorded.get(f"/decisions/?at={THEN_S}&outcome=placed").content.decode()
    assert ">refused-before</a>" not in placed
    assert f"at={THEN_S}" in placed  # the links to other outcomes keep the moment


def test_a_decision_after_the_moment_and_before_its_frame_is_left_out(recorded: Client) -> None:
    decided("in-the-minute", THEN_S - 10)
    page = recorded.get("/decisions/", {"at": THEN_S - 30}).content.decode()
    assert ">in-the-minute</a>" not in page
    assert "No decision until then is stored." in page
    assert "No decision until then</h3>" in page


def test_attainment_then_is_that_of_jobs_that_had_ended(recorded: Client) -> None:
    for finished_s, attainment in ((THEN_S - 100, 1.5), (NOW_S - 100, 0.5)):
        factories.job(
            state="succeeded",
            target_kind="ips",
            attainment=attainment,
            finished_s=finished_s,
            finished_at=timezone.now() - timedelta(seconds=(NOW_S - finished_s) / 60),
        )
    then = figure(recorded, "attainment", at=THEN_S)
    assert then["title"] == "The only job with a target meets it"
    assert "n = 1 that succeeded in the 24 h before" in then["sub"]


def test_a_moment_before_the_first_frame_shows_no_numbers(recorded: Client) -> None:
    page = recorded.get("/", {"at": 10}).content.decode()
    assert "day 1, 00:00" in page


@pytest.mark.parametrize("name", ["jobs", "system", "plans"])
def test_other_pages_say_that_they_show_only_now(recorded: Client, name: str) -> None:
    page = recorded.get(reverse(name), {"at": THEN_S}).content.decode()
    assert "<b>This page shows only now</b>" in page
    assert "data-past" not in page
    pages = "The Overview, the Cluster map and Decisions can show earlier moments."
    assert f"This page shows only now. {pages}" in page


def test_the_bar_offers_the_recorded_moments(recorded: Client) -> None:
    page = recorded.get("/", {"range": "6h"}).content.decode()
    assert 'min="3540" max="7140" step="60" value="7140"' in page
    assert '<input type="hidden" name="range" value="6h">' in page


def test_a_range_ends_at_its_moment() -> None:
    assert earlier_moment("100", now_s=200.0) == 100.0
    assert earlier_moment("200", now_s=200.0) is None
    span = time_range("1h", now_s=9_000.0, at_s=5_000.0)
    assert (span.first_s, span.last_s, span.is_past) == (1_400.0, 5_000.0, True)


def shares(text: str) -> list[int]:
    """Return the bytes of a layer of the map: half percents, 255 = unknown."""
    return list(base64.b64decode(text))


def test_the_map_shows_the_recorded_use_of_each_server(recorded: Client) -> None:
    page = recorded.get("/map/", {"at": THEN_S}).content.decode()
    assert "<b>As of <time" in page
    assert f'data-state-url="/map/state.json?at={THEN_S}"' in page
    factories.server("joined-later", of=Platform.objects.get(name="J"))
    then = recorded.get("/map/state.json", {"at": THEN_S + 30}).json()
    assert shares(then["cpu"]) == [40, 40, 255]
    assert (then["age"], then["state"], then["pressure"]) == (None, None, None)
    assert then["usage"]["all"] == {"cpu": 0.2, "allocated": 0.25}  # as on the Overview
    assert then["usage"]["platform"][0]["cpu"] == pytest.approx(0.2)
    now = recorded.get("/map/state.json").json()
    assert shares(now["cpu"]) == [100, 100, 255]
    assert now["state"] is not None


def test_the_map_before_the_first_frame_is_unknown(recorded: Client) -> None:
    before = recorded.get("/map/state.json", {"at": 10}).json()
    assert shares(before["cpu"]) == shares(before["allocated"]) == [255, 255]
    nothing = {"cpu": None, "allocated": None}
    assert before["usage"] == {"all": nothing, "platform": [nothing], "rack": [nothing]}
