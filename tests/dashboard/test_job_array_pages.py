"""Job arrays on the pages of jobs."""

import pytest
from django.test import Client
from django.urls import reverse

from apps.dashboard.core.job_query import parse
from apps.dashboard.selectors.job_facts import api_filter, waiting_reason
from apps.dashboard.selectors.jobs import jobs_page
from apps.workloads.core.reasons import MEANINGS, Reason
from apps.workloads.models import Batch, Job
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def array() -> Batch:
    """An array of a member that may start and one that waits for it, beside another job."""
    row = Batch.objects.create(
        project=factories.project(), created_by=factories.user(), mode="array", total=2, accepted=2
    )
    factories.job("sweep-0", batch=row, array_index=0)
    factories.job(
        "sweep-1", batch=row, array_index=1, held=True, reason_code=Reason.WAITING_FOR_ARRAY.value
    )
    factories.job("other")
    return row


def page(client: Client, name: str, query: str = "", **arguments: object) -> str:
    return client.get(reverse(name, kwargs=arguments) + query).content.decode()


def test_the_jobs_page_shows_the_members_of_an_array(as_operator: Client, array: Batch) -> None:
    text = page(as_operator, "jobs", f"?q=array:{array.pk}")
    assert ["sweep-0" in text, "sweep-1" in text, "other" in text] == [True, True, False]
    assert "waits for its array" in text


def test_the_members_of_an_array_are_listed_by_their_index(array: Batch) -> None:
    for index in (7, 3):
        factories.job(f"sweep-{index}", batch=array, array_index=index)
    query = parse(f"array:{array.pk}")
    first = jobs_page(Job.objects.all(), query, cursor=None, limit=3)
    rest = jobs_page(Job.objects.all(), query, cursor=first.next, limit=3)
    assert [job.array_index for job in (*first.rows, *rest.rows)] == [0, 1, 3, 7]


def test_a_batch_that_is_no_array_has_no_members(as_operator: Client, array: Batch) -> None:
    Job.objects.update(array_index=None)
    assert "No job matches" in page(as_operator, "jobs", f"?q=array:{array.pk}")


def test_the_page_of_a_member_links_to_its_array(as_operator: Client, array: Batch) -> None:
    member, other = Job.objects.get(name="sweep-1"), Job.objects.get(name="other")
    link = f"?q=array:{array.pk}"
    text = page(as_operator, "job", job_id=member.pk)
    assert "index 1" in text
    assert link in text
    assert link not in page(as_operator, "job", job_id=other.pk)


def test_only_a_member_that_a_user_holds_can_be_released(
    as_operator: Client, array: Batch
) -> None:
    member = Job.objects.get(name="sweep-1")
    release = 'data-job-action="release"'
    assert release not in page(as_operator, "job", job_id=member.pk)
    Job.objects.filter(pk=member.pk).update(reason_code=Reason.HELD.value)
    assert release in page(as_operator, "job", job_id=member.pk)


def test_the_reason_of_a_member_beyond_the_limit_names_its_array(array: Batch) -> None:
    waiting = Job.objects.get(name="sweep-1")
    assert waiting_reason(waiting) == MEANINGS[Reason.WAITING_FOR_ARRAY]
    waiting.reason_code = Reason.HELD.value
    assert waiting_reason(waiting) == MEANINGS[Reason.HELD]


def test_cancelling_what_a_filter_shows_names_the_array_to_rest(array: Batch) -> None:
    assert f"array={array.pk}" in api_filter(parse(f"array:{array.pk}"))
