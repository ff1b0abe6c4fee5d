"""The log of decisions: its search, its time range, and what could not be placed first."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.core.roles import Role
from apps.accounts.models import Membership
from apps.dashboard.core.decision_query import DecisionQuery, parse
from apps.dashboard.selectors.decisions import (
    LogSummary,
    Span,
    decisions_page,
    log_summary,
    unplaced,
)
from apps.scheduling.models import Decision
from apps.workloads.models import Job
from tests import factories

NOW_S = 100_000.0
NOW = timezone.now()  # one for all rows, as their order must not depend on when they are stored


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("", DecisionQuery()),
        ("sort  job-1", DecisionQuery(words="sort job-1")),
        (
            'app:"two words" server:a policy:tarcil agent:a-1 reason:NoFreeUnit retries:2',
            DecisionQuery("two words", "a", "tarcil", "a-1", "NoFreeUnit", 2),
        ),
        ('say "so', DecisionQuery(words="say so")),
    ],
    ids=["nothing", "words", "keys", "open quote"],
)
def test_a_query_is_read(text: str, query: DecisionQuery) -> None:
    assert parse(text) == query


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("state:running", "state: is not a filter; use one of app, server, policy"),
        ("app:", "app: needs a value"),
        ("retries:many", "retries:many must be a whole number of at least 0"),
        ("retries:-1", "retries:-1 must be"),
    ],
)
def test_an_invalid_part_is_reported(text: str, problem: str) -> None:
    assert parse(text).problems[0].startswith(problem)


@pytest.fixture
def at_noon(db: None) -> None:
    factories.cluster(seen_cluster_s=NOW_S)


def decided(job: Job, ago_s: float = 0.0, **values: Any) -> Decision:
    """A decision so many cluster seconds ago, at the default speed."""
    at = NOW - timedelta(seconds=ago_s / 60)
    return factories.decision(job, at=at, cluster_s=NOW_S - ago_s, **values)


def found(query: str = "", **values: Any) -> list[Decision]:
    page = decisions_page(Job.objects.all(), cursor=None, query=parse(query), **values)
    return list(page.rows)


def test_each_part_of_a_query_narrows_the_log(at_noon: None) -> None:
    sort, other = factories.application("sort"), factories.application("other")
    one = decided(factories.job("kmeans-7", application=sort), 60.0, policy="quasar", agent="a-1")
    two = decided(
        factories.job("scan-7", application=other),
        reason_code="NoFreeUnit",
        outcome="refused",
        commit_retries=2,
    )
    server = factories.server()
    factories.allocation(one.job, server, cores=1, by=one)
    assert found() == [two, one]
    for query, expected in (
        ("app:sort", [one]),
        (f"server:{server.name}", [one]),
        ("server:absent", []),
        ("policy:quasar", [one]),
        ("agent:a-1", [one]),
        ("reason:NoFreeUnit", [two]),
        ("retries:2", [two]),
        ("retries:3", []),
        ("kmeans", [one]),
        (str(two.pk), [two]),
        (str(one.job_id), [one]),
        ("app:other kmeans", []),
    ):
        assert found(query) == expected, query


def test_a_range_starts_at_its_cluster_time(at_noon: None) -> None:
    job = factories.job()
    factories.frame(NOW_S - 4000.0, [], at=NOW - timedelta(seconds=4000 / 60))
    late, early = decided(job, 3000.0), decided(job, 3700.0)
    assert found(span=Span(NOW_S - 3600.0)) == [late]
    assert found() == [late, early]


def test_refusals_and_lost_commits_come_first(at_noon: None) -> None:
    job = factories.job()
    old = decided(job, 500.0, outcome="conflict")
    refused = [decided(job, float(i), outcome="refused") for i in range(1, 13)]
    for _ in range(3):
        decided(job)
    first = unplaced(Job.objects.all())
    assert list(first) == refused[:10]
    Decision.objects.filter(pk__in=[row.pk for row in refused[:5]]).delete()
    assert list(unplaced(Job.objects.all())) == [*refused[5:], old]


def page_of(user: Any, **query: str) -> str:
    client = Client()
    client.force_login(user)
    response = client.get("/decisions/", query)
    assert response.status_code == 200
    return response.content.decode()


def test_the_page_shows_them_above_the_log_until_an_outcome_is_chosen(at_noon: None) -> None:
    operator = factories.user(role=Role.OPERATOR)
    decided(factories.job("unlucky"), outcome="refused")
    decided(factories.job("lucky"))
    page = page_of(operator)
    assert page.index(">Refusals and lost commits</h2>") < page.index(">All decisions</h2>")
    assert page.count(">unlucky</a>") == 2
    assert ">Refusals and lost commits</h2>" not in page_of(operator, outcome="placed")
    assert "No decision matches <code>absent</code>" in page_of(operator, q="absent")
    assert "state: is not a filter" in page_of(operator, q="state:x")
    assert "No decision in this range" not in page_of(operator, range="1h")


def test_a_viewer_finds_only_decisions_of_their_projects(at_noon: None) -> None:
    mine = factories.job("mine")
    theirs = factories.job("theirs", project=factories.project("another"))
    viewer = factories.user(role=Role.VIEWER)
    Membership.objects.create(user=viewer, project=mine.project)
    for job in (mine, theirs):
        decided(job, outcome="refused")
    for query in ("", "theirs", str(theirs.pk), "policy:tarcil"):
        page = page_of(viewer, q=query)
        assert ">theirs</a>" not in page
    assert ">mine</a>" in page_of(viewer)


def test_the_summary_for_a_viewer_counts_only_decisions_of_their_projects(at_noon: None) -> None:
    mine = factories.job("mine")
    theirs = factories.job("theirs", project=factories.project("another"))
    viewer, operator = factories.user(role=Role.VIEWER), factories.user("o", role=Role.OPERATOR)
    Membership.objects.create(user=viewer, project=mine.project)
    decided(mine, outcome="refused")
    for _ in range(7):
        decided(theirs, commit_retries=1)
    counts = "Of the last <b>{}</b>, <b>{}</b> placed a job; {} commits had to be retried."
    assert counts.format(1, 0, 0) in page_of(viewer)
    assert counts.format(8, 7, 7) in page_of(operator)
    assert log_summary(Job.objects.filter(project=mine.project), at_s=NOW_S) == LogSummary(1, 0, 0)
