"""The Applications list, by role."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from apps.classification.models import Profile
from apps.dashboard.core.application_query import ApplicationQuery, read
from apps.dashboard.selectors import applications
from apps.workloads.services.counts import fold_job_counts
from tests import factories
from tests.dashboard.known_applications import compared, drifted, known

pytestmark = pytest.mark.django_db


def names(query: ApplicationQuery) -> list[str]:
    page = applications.applications_page(None, query, cursor=None)
    return [row.name for row in page.rows]


def test_a_row_shows_the_profile_and_its_known_cells(as_operator: Client) -> None:
    about = known()
    compared(about, ratio=1.05)
    factories.job(application=about, state="succeeded")
    page = as_operator.get("/applications/").content.decode()
    assert "<b>1</b> of <b>1</b> have a profile; no prediction has drifted." in page
    assert 'href="/applications/web/"' in page
    assert "+5.0 %" in page
    assert "no drift" in page


def test_running_and_all_jobs_are_counted() -> None:
    about = known()
    factories.job(application=about, state="running")
    factories.job(application=about, state="starting")
    factories.job(application=about, state="succeeded")
    page = applications.applications_page(None, ApplicationQuery(), cursor=None)
    (row,) = applications.application_rows(page.rows)
    assert (row.running, row.jobs) == (2, 3)


def test_jobs_are_counted_whether_folded_or_not() -> None:
    about = known()
    factories.job(application=about, state="succeeded")
    fold_job_counts()
    factories.job(application=about, state="running")
    page = applications.applications_page(None, ApplicationQuery(), cursor=None)
    (row,) = applications.application_rows(page.rows)
    assert (row.running, row.jobs) == (1, 2)


def test_jobs_of_others_are_not_counted_for_a_viewer(as_viewer: Client) -> None:
    factories.job(application=known(), state="running")
    page = as_viewer.get("/applications/").content.decode()
    assert '<td class="num"><span class="t3">0</span></td>' in page


def test_filters_match_name_and_kind() -> None:
    known("web-leaf")
    known("web-cache", kind="batch")
    factories.application("index", kind="batch")
    assert names(ApplicationQuery(text="WEB")) == ["web-cache", "web-leaf"]
    assert names(ApplicationQuery(kind="batch")) == ["index", "web-cache"]
    assert names(ApplicationQuery(standing="unprofiled")) == ["index"]


def test_applications_can_be_filtered_by_status() -> None:
    drifted(known("gone"))
    known("fine")
    weak = known("weak")
    Profile.objects.filter(application=weak).update(flags=["far"])
    assert names(ApplicationQuery(standing="drifted")) == ["gone"]
    assert names(ApplicationQuery(standing="degraded")) == ["weak"]


def test_sorting_by_error_puts_the_largest_first_and_unknown_last() -> None:
    compared(known("a"), ratio=1.05)
    compared(known("b"), ratio=0.7)
    known("c")
    assert names(ApplicationQuery(sort="error")) == ["b", "a", "c"]


def test_the_error_is_that_of_the_latest_comparison() -> None:
    about = known("a")
    compared(about, ratio=0.2, at_s=100.0)
    compared(about, ratio=1.1, at_s=200.0)
    page = applications.applications_page(None, ApplicationQuery(), cursor=None)
    (row,) = applications.application_rows(page.rows)
    assert row.error_text == "+10.0 %"


def test_sorting_by_profile_puts_the_newest_first_and_unprofiled_last() -> None:
    factories.application("none")
    known("old")
    Profile.objects.update(created_at=timezone.now() - timedelta(hours=2))
    known("new")
    assert names(ApplicationQuery(sort="profiled")) == ["new", "old", "none"]


def test_sorting_by_running_jobs_is_descending() -> None:
    factories.job(application=known("busy"), state="running")
    known("a-quiet")
    assert names(ApplicationQuery(sort="running")) == ["busy", "a-quiet"]


@pytest.mark.parametrize("sort", ["name", "running", "profiled", "error"])
def test_pages_neither_skip_nor_repeat(sort: str) -> None:
    for i in range(5):
        factories.application(f"app-x{i}")
    query = ApplicationQuery(sort=sort)
    first = applications.applications_page([], query, cursor=None, limit=2)
    second = applications.applications_page([], query, cursor=first.next, limit=2)
    third = applications.applications_page([], query, cursor=second.next, limit=2)
    found = [row.name for page in (first, second, third) for row in page.rows]
    assert sorted(found) == [f"app-x{i}" for i in range(5)]
    assert third.next is None


def test_a_cursor_of_another_order_shows_the_first_page(as_operator: Client) -> None:
    known("web")
    page = as_operator.get("/applications/?sort=error&cursor=broken").content.decode()
    assert "This page of the list no longer exists" in page
    assert 'href="/applications/web/"' in page


def test_a_filter_without_matches_is_named(as_operator: Client) -> None:
    known("web")
    page = as_operator.get("/applications/?kind=batch&standing=drifted&q=x").content.decode()
    assert "No application matches: batch, drifted, name contains “x”" in page
    assert "Clear filters" in page


def test_an_empty_list_explains_how_applications_are_registered(as_operator: Client) -> None:
    assert "No applications yet" in as_operator.get("/applications/").content.decode()


def test_invalid_parameters_are_ignored() -> None:
    query = read({"kind": "cloud", "standing": "on its head", "sort": "luck", "q": "  "})
    assert query == ApplicationQuery()


def test_the_number_of_queries_is_independent_of_the_number_of_applications(
    as_operator: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for i in range(30):
        known(f"app-x{i}")
    as_operator.get("/applications/")
    # session, user, principal; page, its count (7 statements), profiles, revision, totals, the
    # clock; the frame is cached
    with django_assert_num_queries(15):
        as_operator.get("/applications/")
