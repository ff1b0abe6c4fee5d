"""The Logs tab of a job: only of jobs with a command, and as the program wrote it."""

import pytest
from django.test import Client

from apps.execution.models import Launch, OutputChunk
from apps.workloads.models import Job
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def job() -> Job:
    factories.cluster()
    program = {"command": ["printf", "<b>%s</b>", "x y"], "environment": {}}
    return factories.job(state="running", program={**program, "working_directory": None})


def test_the_output_is_shown_as_text_and_not_as_markup(as_operator: Client, job: Job) -> None:
    launch = Launch.objects.create(job=job, attempt=1, backend="agent", order={})
    OutputChunk.objects.create(
        job=job, launch=launch, stream="stdout", start=0, data=b"<b>x y</b>"
    )
    page = as_operator.get(f"/jobs/{job.id}/?tab=logs").content.decode()
    assert "&lt;b&gt;x y&lt;/b&gt;" in page
    assert "<b>x y</b>" not in page
    assert f"/api/v1/jobs/{job.id}/output/?stream=stdout" in page
    assert "Nothing is written yet" in page  # to stderr


def test_the_page_of_a_command_shows_it_as_a_shell_would_quote_it(
    as_operator: Client, job: Job
) -> None:
    page = as_operator.get(f"/jobs/{job.id}/").content.decode()
    assert "printf &#x27;&lt;b&gt;%s&lt;/b&gt;&#x27; &#x27;x y&#x27;" in page
    assert "?tab=logs" in page


def test_a_job_without_a_command_has_no_logs(as_operator: Client) -> None:
    factories.cluster()
    emulated = factories.job(state="running")
    page = as_operator.get(f"/jobs/{emulated.id}/?tab=logs")
    assert page.status_code == 200
    assert "tab=logs" not in page.content.decode()
