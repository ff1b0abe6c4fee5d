"""A lower role of a user lowers the memberships above it."""

from uuid import uuid4

import pytest

from apps.accounts.core.roles import Role
from apps.accounts.models import AuditEntry, Membership, User
from apps.accounts.services import join_project, update_user
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def olga() -> User:
    user = factories.user("olga", role=Role.OPERATOR)
    for name, role in (("own", Role.OPERATOR), ("seen", Role.VIEWER)):
        join_project(user=user, project=factories.project(name), role=role)
    return user


def roles() -> dict[str, str]:
    return dict(
        Membership.objects.filter(project__name__in=["own", "seen"]).values_list(
            "project__name", "role"
        )
    )


def test_a_lower_role_lowers_the_memberships_above_it(olga: User) -> None:
    update_user(olga.pk, role=Role.SUBMITTER, by=uuid4())
    assert roles() == {"own": "submitter", "seen": "viewer"}
    entry = AuditEntry.objects.get(action="membership.updated")
    assert entry.object_name == "olga in own"
    assert (entry.before, entry.after) == ({"role": "operator"}, {"role": "submitter"})


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.ADMIN, None])
def test_other_changes_leave_the_memberships(olga: User, role: Role | None) -> None:
    update_user(olga.pk, role=role, by=uuid4())
    assert roles() == {"own": "operator", "seen": "viewer"}


def test_a_membership_given_afterwards_stays(olga: User) -> None:
    update_user(olga.pk, role=Role.VIEWER, by=uuid4())
    join_project(user=olga, project=Membership.objects.get(project__name="own").project,
                 role=Role.SUBMITTER)  # fmt: skip
    update_user(olga.pk, role=Role.VIEWER, by=uuid4())
    assert roles()["own"] == "submitter"
