"""No job enters a project while it is being archived."""

from contextlib import ExitStack

import pytest
from django.db import transaction

from apps.accounts.models import Project, User
from apps.accounts.services import update_project
from apps.common.core.errors import ConflictError
from apps.workloads.core.spec import parse_job
from apps.workloads.models import Job
from apps.workloads.services import submit_jobs
from tests import factories
from tests.races import in_background, meanwhile, wait_for_a_waiter

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def project() -> Project:
    factories.cluster()
    factories.application("sort")
    return factories.project()


@pytest.fixture
def user(project: Project) -> User:
    return factories.user("ada")


def submit(project: Project, user: User) -> None:
    spec = parse_job({"application": "sort", "target": {"kind": "best_effort"}})
    with transaction.atomic():
        submit_jobs([spec], project=project, user=user, correlation_id="r")


def test_a_job_submitted_while_its_project_is_archived_is_refused(
    project: Project, user: User
) -> None:
    refused: list[ConflictError] = []

    def try_to_submit() -> None:
        try:
            submit(project, user)
        except ConflictError as error:
            refused.append(error)

    with ExitStack() as under_way, transaction.atomic():
        update_project(project.pk, {"is_archived": True})
        under_way.enter_context(in_background(try_to_submit))
        wait_for_a_waiter()
    assert [str(error) for error in refused] == [
        f"The project {project.name} is archived and accepts no jobs."
    ]
    assert not Job.objects.exists()


def test_a_project_is_archived_after_the_submission_in_progress(
    project: Project, user: User
) -> None:
    with ExitStack() as under_way, transaction.atomic():
        submit(project, user)
        archiving = in_background(lambda: update_project(project.pk, {"is_archived": True}))
        under_way.enter_context(archiving)
        wait_for_a_waiter()
    assert Job.objects.count() == 1
    project.refresh_from_db()
    assert project.archived_at is not None


def test_submissions_to_one_project_do_not_wait_for_each_other(
    project: Project, user: User
) -> None:
    with transaction.atomic():
        submit(project, user)
        meanwhile(lambda: submit(project, user))
    assert Job.objects.count() == 2
