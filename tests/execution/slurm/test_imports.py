"""Jobs of Slurm as jobs of Berth: their users and projects."""

import pytest
from django.db import transaction

from apps.accounts.core.roles import Role
from apps.accounts.models import Membership, User
from apps.accounts.services import create_user, join_project
from apps.common.core.errors import ConflictError
from apps.execution.core.slurm.values import SlurmJob, SlurmNode
from apps.execution.services.slurm import Submitter, import_jobs
from apps.workloads.models import Job
from tests import factories

pytestmark = pytest.mark.django_db
NODES = [SlurmNode("n1", 4, 1, 2**32, (), ("main",), frozenset({"IDLE"}))]


@pytest.fixture(autouse=True)
def projects() -> None:
    factories.cluster()
    factories.project("default")
    factories.project("secret")


def imported(account: str, *, username: str = "ada", default: str = "default") -> Job:
    """Import a job that names an account, as sbatch --account does."""
    job = SlurmJob(id=7, state="PENDING", name="train", user=username, partition="main")
    with transaction.atomic():
        import_jobs(Submitter(username, account), [job], NODES, default_project=default)
    return Job.objects.get(slurm__slurm_id=7)


def member(role: Role) -> User:
    """Return a user of the default project with a role in the secret one."""
    user = create_user(username="ada", password=None, role=Role.VIEWER)
    join_project(user=user, project=factories.project("secret"), role=role)
    return user


def test_an_account_does_not_make_its_user_a_member_of_the_project_of_its_name() -> None:
    create_user(username="ada", password=None, role=Role.SUBMITTER)
    assert imported("secret").project.name == "default"
    assert not Membership.objects.filter(project__name="secret").exists()


def test_a_new_user_joins_the_default_project_only() -> None:
    job = imported("secret")
    assert (job.project.name, job.created_by.username) == ("default", "ada")
    joined = Membership.objects.filter(user__username="ada")
    assert list(joined.values_list("project__name", "role")) == [("default", "submitter")]


def test_an_account_is_the_project_of_its_name_for_those_who_submit_to_it() -> None:
    member(Role.SUBMITTER)
    assert imported("secret").project.name == "secret"


def test_a_viewer_of_a_project_does_not_submit_to_it() -> None:
    user = member(Role.VIEWER)
    assert imported("secret").project.name == "default"
    assert Membership.objects.get(user=user, project__name="secret").role == Role.VIEWER


def test_without_the_default_project_nothing_is_imported() -> None:
    with pytest.raises(ConflictError, match="there is no project lab"):
        imported("secret", default="lab")
    assert not User.objects.filter(username="ada").exists()
