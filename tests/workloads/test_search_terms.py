"""The terms that jobs are searched by follow every change of the jobs."""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from apps.workloads.models import Job, SearchTerms
from apps.workloads.services.retention import delete_ended_jobs
from tests import factories
from tests.migration import migrate

pytestmark = pytest.mark.django_db
NOW = timezone.now()
MIGRATION = ("workloads", "0025_search_terms")


def terms() -> set[tuple[object, ...]]:
    rows = SearchTerms.objects.values_list("job", "name", "labels__team", "correlation_id")
    return set(rows)


def test_a_new_job_has_its_terms() -> None:
    one = factories.job("sort", labels={"team": "blue"})
    two = factories.job("index", correlation_id="request-2")
    assert terms() == {(one.pk, "sort", "blue", "test"), (two.pk, "index", None, "request-2")}


def test_terms_follow_a_change_of_the_name_or_the_labels() -> None:
    job, other = factories.job("sort", labels={"team": "blue"}), factories.job("other")
    Job.objects.filter(pk=job.pk).update(name="resort")
    Job.objects.filter(pk=job.pk).update(labels={"team": "red"})
    assert terms() == {(job.pk, "resort", "red", "test"), (other.pk, "other", None, "test")}


def test_a_change_of_state_leaves_the_terms_alone() -> None:
    job = factories.job("sort")

    def version() -> object:
        with connection.cursor() as cursor:
            cursor.execute("SELECT ctid, xmin FROM workloads_searchterms")
            return cursor.fetchall()

    before = version()
    Job.objects.filter(pk=job.pk).update(state="queued", reason_code="CapacityShort")
    job.refresh_from_db()
    job.save()  # writes all columns
    assert version() == before


def test_the_terms_of_deleted_jobs_are_deleted() -> None:
    kept = factories.job("index")
    factories.job("sort", state="succeeded", finished_at=NOW)
    assert delete_ended_jobs(NOW + timedelta(days=1)) == 1
    assert terms() == {(kept.pk, "index", None, "test")}


def test_the_migration_copies_the_terms_of_all_jobs() -> None:
    job = factories.job("sort", labels={"team": "blue"})
    migrate(*MIGRATION, back=True)
    other = factories.job("index")
    migrate(*MIGRATION, back=False)
    assert terms() == {(job.pk, "sort", "blue", "test"), (other.pk, "index", None, "test")}
    after = factories.job("later")
    assert (after.pk, "later", None, "test") in terms()
