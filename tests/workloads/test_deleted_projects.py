"""A deleted project leaves nothing to a later project of the same name."""

from contextlib import ExitStack

import pytest
from django.db import transaction

from apps.accounts.core.roles import Role
from apps.accounts.models import AuditEntry, Membership, Project, User
from apps.accounts.services import (
    create_project,
    delete_project,
    join_project,
    update_project,
)
from apps.common.core.errors import ConflictError
from apps.inventory.core.backends import AGENT
from apps.operations.models import Event
from apps.workloads.core.commands import MAX_APPLICATION
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


def test_a_later_project_of_the_name_gets_an_application_of_its_own(
    project: Project, user: User
) -> None:
    former = factories.application("vision:train", runs_commands=True)
    delete_project(project.pk)
    submit(create_project("vision", {}), user)
    job = Job.objects.select_related("application").get()
    assert (job.application.name, job.application.pk == former.pk) == ("vision:train", False)
    former.refresh_from_db()
    assert former.name == f"deleted.{former.pk.hex}:train"


def test_applications_of_other_projects_and_of_all_keep_their_names(project: Project) -> None:
    for name in ("visions:train", "train", "other:vision"):
        factories.application(name)
    delete_project(project.pk)
    names = Application.objects.order_by("name").values_list("name", flat=True)
    assert list(names) == ["other:vision", "train", "visions:train"]


def test_long_names_that_begin_alike_stay_different(project: Project) -> None:
    rows = [factories.application("vision:" + "t" * 119 + end) for end in "ab"]
    delete_project(project.pk)
    names = [Application.objects.get(pk=row.pk).name for row in rows]
    assert len(set(names)) == 2
    assert [len(name) for name in names] == [MAX_APPLICATION] * 2


def test_the_new_name_is_recorded(project: Project) -> None:
    application = factories.application("vision:train")
    delete_project(project.pk)
    name = f"deleted.{application.pk.hex}:train"
    entry = AuditEntry.objects.get(action="application.updated")
    assert (entry.before, entry.after) == ({"name": "vision:train"}, {"name": name})
    event = Event.objects.get(kind="application.updated")
    assert (event.subject, event.data) == (str(application.pk), {"name": name})


def test_a_project_with_jobs_keeps_its_applications(project: Project, user: User) -> None:
    submit(project, user)
    with pytest.raises(ConflictError, match="has jobs"):
        delete_project(project.pk)
    assert Application.objects.get().name == "vision:train"


def test_a_later_project_of_the_name_has_no_members_and_no_quota(
    project: Project, user: User
) -> None:
    join_project(user=user, project=project)
    update_project(project.pk, {"max_units": 4, "description": "eyes"})
    delete_project(project.pk)
    later = create_project("vision", {})
    assert not Membership.objects.filter(project=later).exists()
    assert (later.max_units, later.description, later.pk == project.pk) == (None, "", False)


def test_a_deletion_during_a_rename_is_refused(project: Project) -> None:
    refused: list[ConflictError] = []

    def delete() -> None:
        try:
            delete_project(project.pk)
        except ConflictError as error:
            refused.append(error)

    with ExitStack() as under_way, transaction.atomic():
        update_project(project.pk, {"name": "sight"})
        under_way.enter_context(in_background(delete))
        wait_for_a_waiter()
    assert [str(error) for error in refused] == [
        "The project vision was renamed to sight meanwhile."
    ]
    assert Project.objects.get().name == "sight"
