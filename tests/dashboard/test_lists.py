"""Lists say how many rows match; facets count under the filter; marks follow the target."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from apps.common.api.paging import Order
from apps.common.infrastructure.database import TookTooLongError, fetch_rows, time_limit
from apps.dashboard.core import formats
from apps.dashboard.core.job_query import parse
from apps.dashboard.core.matches import Matches, range_words
from apps.dashboard.core.regions import live_regions
from apps.dashboard.selectors import job_facets as facets
from apps.dashboard.selectors import lists
from apps.dashboard.templatetags.berth import over_target, state
from apps.dashboard.templatetags.drawings import trend
from apps.workloads.models import Job
from apps.workloads.selectors import job_counts
from tests import factories

pytestmark = pytest.mark.django_db
ORDER = Order(columns=("created_at", "id"), descending=True)


def counts(text: str) -> dict[str, dict[str, int]]:
    """Return the facets of a query over all jobs: the count of each value, by facet."""
    found = facets.job_facets(Job.objects.all(), None, text, parse(text), job_counts(None))
    return {
        facet.name: {choice.name: choice.count for choice in facet.choices}
        for facet in found.facets
    }


@pytest.fixture
def jobs() -> None:
    """Five jobs of two applications: three running, one waiting, one that ended below target."""
    etl, web = factories.application("etl"), factories.application("web")
    factories.job("a-1", application=etl, state="running", attainment=1.2)
    factories.job("a-2", application=etl, state="running", attainment=0.8)
    factories.job("b-1", application=web, state="running", target_kind="ips")
    factories.job("b-2", application=web, state="queued", reason_code="CapacityShort")
    factories.job("b-3", application=web, state="succeeded", attainment=0.5)


@pytest.mark.parametrize(
    ("rows", "found", "is_first", "words"),
    [
        (50, Matches(1_234), True, "1–50 of 1,234 match"),
        (50, Matches(1_234), False, "50 of 1,234 match"),
        (50, Matches(10_000, is_exact=False), True, "1–50 of more than 10,000 match"),
        (7, Matches(7), True, "all 7 match"),
        (1, Matches(1), True, "1 matches"),
        (50, None, True, "50 on this page"),
    ],
)
def test_a_page_says_which_rows_of_how_many_it_shows(
    rows: int, found: Matches | None, is_first: bool, words: str
) -> None:
    assert range_words(rows, found, is_first=is_first) == words


def test_the_jobs_page_says_how_many_match(as_operator: Client, jobs: None) -> None:
    everything = as_operator.get(reverse("jobs")).content.decode()
    filtered = as_operator.get(reverse("jobs"), {"q": "app:etl state:running"}).content.decode()
    by_word = as_operator.get(reverse("jobs"), {"q": "b-2"}).content.decode()
    assert "all 5 match, newest first" in everything
    assert "all 2 match, newest first" in filtered
    assert "1 matches, newest first" in by_word


def test_a_long_list_counts_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "COUNT_LIMIT", 3)
    for _ in range(5):
        factories.job()
    page = lists.list_page(Job.objects.all(), ORDER, limit=2, cursor=None)
    assert page.matches == Matches(3, is_exact=False)
    assert page.range_words == "1–2 of more than 3 match"
    after = lists.list_page(Job.objects.all(), ORDER, limit=2, cursor=page.next)
    assert after.range_words == "2 of more than 3 match"


def test_a_count_that_takes_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    factories.job()
    slow = Job.objects.extra(where=["pg_sleep(0.2) IS NOT NULL"])
    monkeypatch.setattr(lists, "COUNT_MS", 20)
    assert lists.counted_matches(slow, ORDER) is None


def test_the_time_limit_ends_with_its_block() -> None:
    with pytest.raises(TookTooLongError), time_limit(20):
        fetch_rows("SELECT pg_sleep(5)")
    with time_limit(5_000):
        assert fetch_rows("SELECT 1") == [(1,)]
    assert connection.in_atomic_block
    assert fetch_rows("SHOW statement_timeout") == [("0",)]


def test_facets_count_under_the_other_filters(jobs: None) -> None:
    everything = counts("")
    assert everything["State"] == {"queued": 1, "running": 3, "succeeded": 1}
    assert everything["Application"] == {"web": 3, "etl": 2}
    assert list(everything["Waits for"].values()) == [1]
    by_app = counts("app:web")
    assert by_app["State"] == {"queued": 1, "running": 1, "succeeded": 1}
    assert by_app["Application"] == {"web": 3, "etl": 2}  # its own filter does not count
    assert sum(counts("app:etl")["Waits for"].values()) == 0
    assert counts("state:running")["Application"] == {"etl": 2, "web": 1}
    assert counts("state:running target:ips")["Application"] == {"web": 1}


def test_facets_count_under_filters_without_counters(jobs: None) -> None:
    below = counts("is:below")
    assert below["State"] == {"running": 1, "succeeded": 1}
    assert below["Application"] == {"etl": 1, "web": 1}
    assert counts("is:below state:running")["State"] == {"running": 1, "succeeded": 1}
    assert counts("is:below state:running")["Application"] == {"etl": 1}


def test_exact_and_bounded_counts_agree(jobs: None) -> None:
    for text in ("", "app:web", "state:running", "state:running app:etl"):
        query = parse(text)
        exact = facets._exact(None, query, job_counts(None))
        bounded, matches = facets._bounded(Job.objects.all(), query)
        assert matches == facets._matches(exact["state"], query)
        for key in ("state", "target", "app"):
            assert dict(exact[key].by_value) == dict(bounded[key].by_value), (text, key)


def test_a_page_waits_once_for_counts_that_take_too_long(
    jobs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    @contextmanager
    def bounded() -> Iterator[None]:
        tried.append(1)
        with time_limit(20):
            yield

    monkeypatch.setattr(facets, "bounded_read", bounded)
    slow = Job.objects.extra(where=["pg_sleep(0.05) IS NOT NULL"])
    query = parse("is:below state:running target:ips")
    found, matches = facets._bounded(slow, query)
    assert (len(tried), matches) == (1, None)
    assert all(not one.by_value for one in found.values())


def test_bounded_facets_say_so(
    as_operator: Client, jobs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facets, "COUNT_LIMIT", 1)
    page = as_operator.get(reverse("jobs"), {"q": "is:below"}).content.decode()
    assert '<span class="n" title="at least">1+</span>' in page


def test_each_facet_count_is_what_its_link_lists(as_operator: Client, jobs: None) -> None:
    for text in ("", "app:web", "is:below", "state:running"):
        found = facets.job_facets(Job.objects.all(), None, text, parse(text), job_counts(None))
        for facet in found.facets:
            for choice in facet.choices:
                if choice.current:
                    continue
                page = as_operator.get(reverse("jobs"), {"q": choice.text}).content.decode()
                assert len(re.findall(r"<tr data-id", page)) == choice.count, (text, choice)


def test_a_viewer_counts_only_visible_jobs(as_viewer: Client, jobs: None) -> None:
    page = as_viewer.get(reverse("jobs"), {"q": "state:running"}).content.decode()
    assert "No job matches" in page


def test_every_list_with_pages_says_how_many_match() -> None:
    templates = [path.read_text() for path in Path("templates").rglob("*.html")]
    paged = [text for text in templates if "cursor=page.next" in text]
    assert len(paged) == 1  # one partial for all lists
    assert "{{ page.range_words }}" in paged[0]
    pagers = [
        sum("partials/pager.html" in inner for inner in live_regions(text).values())
        for text in templates
        if "partials/pager.html" in text
    ]
    assert pagers == [1] * 6  # refreshed with their rows: else "Older" would skip new ones


@pytest.mark.parametrize(
    ("ratio", "text"), [(1.0, "1.00"), (0.99996, "0.999"), (0.62, "0.620"), (1.234, "1.23")]
)
def test_a_ratio_below_the_target_is_not_rounded_up_to_it(ratio: float, text: str) -> None:
    assert formats.over_target(ratio) == text


def test_what_is_below_target_is_marked_and_not_green() -> None:
    assert "data-below" in state("succeeded", attainment=0.9)
    assert "data-below" not in state("succeeded", attainment=1.0)
    assert "data-below" not in state("queued")
    assert 'class="ratio bad"' in over_target(0.9)
    assert "below target" in over_target(0.9)
    assert 'class="ratio ok"' in over_target(1.0)
    assert "–" in over_target(None)
    assert 'class="fbad"' in trend([(-60.0, 1.2), (0.0, 0.9)])
    assert 'class="fa"' in trend([(-60.0, 0.2), (0.0, 1.1)])


@pytest.mark.parametrize(
    ("page", "list_id"), [("jobs", "job-list"), ("decisions", "decision-list")]
)
def test_the_pager_is_refreshed_with_its_list(
    as_operator: Client, page: str, list_id: str
) -> None:
    factories.decision(factories.job("a-1"))
    regions = live_regions(as_operator.get(reverse(page)).content.decode())
    assert [name for name, inner in regions.items() if 'class="pager"' in inner] == [list_id]


def test_the_list_of_jobs_below_target_has_no_green_mark(as_operator: Client, jobs: None) -> None:
    page = as_operator.get(reverse("jobs"), {"q": "is:below"}).content.decode()
    table = page[page.index('id="jobs-table"') :]
    table = table[: table.index("</table>")]
    assert table.count("data-below") == 2
    assert 'class="ratio ok"' not in table
