"""The applications that only one project profiles are renamed with the project."""

from contextlib import ExitStack

import pytest
from django.db import transaction

from apps.accounts.core.roles import Role
from apps.accounts.models import AuditEntry, Project, User
from apps.accounts.services import update_project
from apps.common.core.errors import ConflictError
from apps.inventory.core.backends import AGENT
from apps.operations.models import Event
from apps.workloads.core.spec import parse_job
from apps.workloads.models import Application, Job
from apps.workloads.services import submit_jobs
from tests import factories
from tests.races import in_background, wait_for_a_waiter

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def project() -> Project:
    factories.cluster()
    factories.server(backend=AGENT)
    return factories.project("vision")


@pytest.fixture
def user(project: Project) -> User:
    return factories.user("ada", role=Role.SUBMITTER)


def submit(project: Project, user: User, application: str = "train") -> None:
    spec = parse_job({"application": application, "command": ["./train"], "copyable": True})
    with transaction.atomic():
        submit_jobs([spec], project=project, user=user, correlation_id="r")


def names() -> list[str]:
    return list(Application.objects.order_by("name").values_list("name", flat=True))


def test_a_rename_renames_the_applications_of_the_project(project: Project) -> None:
    train = factories.application("vision:train")
    factories.application("visions:train")
    factories.application("train")
    update_project(project.pk, {"name": "sight"})
    assert names() == ["sight:train", "train", "visions:train"]
    assert Application.objects.get(name="sight:train").pk == train.pk


def test_the_next_job_uses_the_renamed_application(project: Project, user: User) -> None:
    submit(project, user)
    update_project(project.pk, {"name": "sight"})
    submit(Project.objects.get(), user)
    assert names() == ["sight:train"]


def test_a_later_project_of_the_old_name_does_not_share_the_application(
    project: Project, user: User
) -> None:
    submit(project, user)
    update_project(project.pk, {"name": "sight"})
    submit(factories.project("vision"), user)
    jobs = Job.objects.values_list("project__name", "application__name")
    assert set(jobs) == {("sight", "sight:train"), ("vision", "vision:train")}


def test_the_rename_of_an_application_is_recorded(project: Project) -> None:
    application = factories.application("vision:train")
    update_project(project.pk, {"name": "sight"})
    entry = AuditEntry.objects.get(action="application.updated")
    assert (entry.object_id, entry.object_name) == (str(application.pk), "vision:train")
    assert (entry.before, entry.after) == ({"name": "vision:train"}, {"name": "sight:train"})
    event = Event.objects.get(kind="application.updated")
    assert (event.subject, event.data) == (str(application.pk), {"name": "sight:train"})


def test_a_rename_changes_the_generation_of_an_application(project: Project) -> None:
    application = factories.application("vision:train")
    update_project(project.pk, {"name": "sight"})
    generation = application.generation
    application.refresh_from_db()
    assert application.generation == generation + 1


def test_a_rename_is_refused_if_an_application_has_the_new_name(project: Project) -> None:
    factories.application("vision:train")
    factories.application("sight:train")
    with pytest.raises(ConflictError, match="An application named sight:train already exists"):
        update_project(project.pk, {"name": "sight"})
    project.refresh_from_db()
    assert project.name == "vision"


def test_a_rename_is_refused_if_a_new_name_would_be_too_long(project: Project) -> None:
    factories.application("vision:" + "t" * 120)
    with pytest.raises(ConflictError, match="would have more than 127 characters"):
        update_project(project.pk, {"name": "visions"})
    project.refresh_from_db()
    assert project.name == "vision"


def test_a_change_without_a_rename_leaves_the_applications(project: Project) -> None:
    application = factories.application("vision:train")
    update_project(project.pk, {"name": "vision", "description": "eyes"})
    generation = application.generation
    application.refresh_from_db()
    assert (application.name, application.generation) == ("vision:train", generation)


def test_a_job_submitted_during_a_rename_uses_the_new_name(project: Project, user: User) -> None:
    factories.application("vision:train", runs_commands=True)
    with ExitStack() as under_way, transaction.atomic():
        update_project(project.pk, {"name": "sight"})
        under_way.enter_context(in_background(lambda: submit(project, user)))
        wait_for_a_waiter()
    assert names() == ["sight:train"]


def test_a_rename_waits_for_a_job_of_a_known_application(project: Project, user: User) -> None:
    factories.application("vision:train", runs_commands=True)
    with ExitStack() as under_way, transaction.atomic():
        submit(project, user)
        renaming = in_background(lambda: update_project(project.pk, {"name": "sight"}))
        under_way.enter_context(renaming)
        wait_for_a_waiter()
    assert names() == ["sight:train"]


def test_a_rename_is_refused_if_a_job_adds_an_application_meanwhile(
    project: Project, user: User
) -> None:
    refused: list[ConflictError] = []

    def rename() -> None:
        try:
            update_project(project.pk, {"name": "sight"})
        except ConflictError as error:
            refused.append(error)

    with ExitStack() as under_way, transaction.atomic():
        submit(project, user)
        under_way.enter_context(in_background(rename))
        wait_for_a_waiter()
    assert [str(error) for error in refused] == [
        "A job has added an application to vision meanwhile: try again."
    ]
    assert names() == ["vision:train"]
