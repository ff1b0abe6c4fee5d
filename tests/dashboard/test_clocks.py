"""Cluster time and wall time: both in the bar of every page, and every time says which it is."""

import json
import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.core.roles import Role
from apps.dashboard.core import formats
from apps.dashboard.figures import theme
from apps.dashboard.views.figure_sources import FIGURES
from apps.inventory.models import Cluster, Server
from apps.workloads.models import Job
from tests import factories

pytestmark = pytest.mark.django_db
TIME_OF_DAY = re.compile(r"\d\d:\d\d")
NOT_SHOWN = frozenset({"script", "style", "template", "code", "pre"})
LISTS = (
    *("overview", "submit", "jobs", "map", "applications", "calibrate", "classification"),
    *("plans", "decisions", "sampling", "system", "account", "projects", "users", "audit"),
)
TABS = ("why", "allocation", "performance", "events", "spec", "api")


class Unlabelled(HTMLParser):
    """Collects the texts with a time of day that no element marks as cluster or wall time."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, bool]] = []
        self.found: list[str] = []
        self.marked = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        is_clock = dict(attrs).get("data-clock") in {"cluster", "wall"}
        self.marked += is_clock
        self.open.append((tag, is_clock))

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        is_hidden = any(tag in NOT_SHOWN or is_clock for tag, is_clock in self.open)
        if TIME_OF_DAY.search(data) and not is_hidden and not is_labelled(data):
            self.found.append(data)


def is_labelled(text: str) -> bool:
    """Whether each time of day follows "day N, ", or is followed by "UTC"."""
    bare = re.sub(r"day \d+, \d\d:\d\d(:\d\d)?|\d\d:\d\d(:\d\d)? UTC", "", text)
    return not TIME_OF_DAY.search(bare)


def unlabelled(page: str) -> Unlabelled:
    parser = Unlabelled()
    parser.feed(page)
    return parser


@pytest.fixture
def as_admin(client: Client, db: None) -> Client:
    factories.cluster()
    client.force_login(factories.user("ada", role=Role.ADMIN))
    return client


@pytest.fixture
def addresses(settings: Any) -> list[str]:
    """Every list, and the pages of one job, server, application, decision, user and project."""
    settings.BERTH_RATES = {}
    call_command("seed_demo", servers=60, verbosity=0)
    call_command("load_reference", jobs=200, verbosity=0)
    job = Job.objects.filter(state="running", decisions__isnull=False).first()
    assert job is not None
    decision = job.decisions.first()
    assert decision is not None
    server = Server.objects.order_by("id")[0]
    return [
        *(reverse(name) for name in LISTS),
        *(f"{reverse('job', args=[job.id])}?tab={tab}" for tab in TABS),
        reverse("server", args=[server.name]),
        reverse("application", args=[job.application.name]),
        reverse("decision", args=[decision.id]),
        reverse("user", args=["ada"]),
        reverse("project", args=[job.project.name]),
    ]


def test_every_time_of_day_on_every_page_says_its_clock(
    as_admin: Client, addresses: list[str]
) -> None:
    found, marked = {}, 0
    for address in addresses:
        response = as_admin.get(address)
        assert response.status_code == 200, address
        seen = unlabelled(response.content.decode())
        marked += seen.marked
        if seen.found:
            found[address] = seen.found[:3]
    assert not found
    assert marked > 3 * len(addresses)  # two clocks in each bar, and the times of the pages


def test_an_unmarked_time_of_day_is_found() -> None:
    assert unlabelled("<p>at 14:32</p>").found == ["at 14:32"]
    assert unlabelled('<p><time data-clock="wall">14:32</time></p>').found == []
    assert unlabelled("<p>since day 2, 14:32</p><p>14:32 UTC</p>").found == []


@pytest.mark.parametrize("name", LISTS)
def test_the_bar_shows_cluster_time_with_its_rate_and_wall_time(
    as_admin: Client, name: str
) -> None:
    anchor = timezone.now().timestamp()
    Cluster.objects.filter(id=1).update(
        wall_anchor_s=anchor, cluster_anchor_s=86_400 + 10.5 * 3600, speed=60
    )
    page = as_admin.get(reverse(name)).content.decode()
    bar = page[page.index('id="clocks"') : page.index('id="conn"')]
    words = re.sub(r"<[^>]+>", "", bar[bar.index(">") + 1 :])
    assert re.match(r"Cluster time day 2, 10:3\d · 60×wall time \d\d:\d\d:\d\d UTC", words)
    data = dict(re.findall(r'data-(now|speed|wall)="([^"]+)"', bar))
    assert float(data["speed"]) == 60
    assert float(data["now"]) >= 86_400 + 10.5 * 3600
    assert datetime.fromisoformat(data["wall"]).tzinfo is not None


def test_a_stopped_clock_says_so(as_admin: Client) -> None:
    assert '<span id="cluster-rate">stopped</span>' in as_admin.get("/").content.decode()


def test_signed_out_pages_have_no_clock(client: Client) -> None:
    assert 'id="clocks"' not in client.get(reverse("login")).content.decode()


def test_every_time_axis_is_called_cluster_time(as_admin: Client, addresses: list[str]) -> None:
    server = Server.objects.order_by("id")[0].name
    job = Job.objects.filter(state="running", samples__isnull=False).first()
    assert job is not None
    query = {"server": server, "job": str(job.id), "application": job.application.name}
    figures = {name: as_admin.get(reverse("figure", args=[name]), query) for name in FIGURES}
    # the others need a plan, a decision or a spec
    drawn = {name: answer for name, answer in figures.items() if answer.status_code != 404}
    assert len(drawn) > len(figures) / 2
    for name, answer in drawn.items():
        layout = json.loads(answer.content)["figure"]["layout"]
        for axis in (value for key, value in layout.items() if key.startswith("xaxis")):
            if any(TIME_OF_DAY.search(text) for text in axis.get("ticktext", ())):
                assert axis["title"]["text"].startswith("cluster time, day "), name
                assert layout["margin"]["b"] >= theme.TIME_BOTTOM, name


def test_formats_of_both_clocks() -> None:
    now = datetime(2011, 5, 2, 9, 0, 0, tzinfo=UTC)
    assert formats.cluster_day(86_400 + 3_661) == "day 2, 01:01"
    assert formats.cluster_day(86_400 + 3_661, seconds=True) == "day 2, 01:01:01"
    assert formats.cluster_rate(60.0) == "60×"
    assert formats.cluster_rate(0.0) == "stopped"
    assert formats.wall_time(now, now=now) == "09:00:00 UTC"
    assert formats.wall_time(datetime(2011, 5, 1, 8, tzinfo=UTC), now=now) == (
        "2011-05-01 08:00:00 UTC"
    )
