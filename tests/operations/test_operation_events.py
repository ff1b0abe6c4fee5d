"""Who sees the events of an operation: those who may read the operation."""

import pytest
from asgiref.sync import sync_to_async
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.models import Membership, User
from apps.accounts.services import create_token, create_user, ensure_project, join_project
from apps.operations.models import Event, Operation
from apps.operations.services import begin_operation
from tests.migration import migrate
from tests.operations.streams import Reader, happen, run, subjects

pytestmark = pytest.mark.django_db(transaction=True)
USERS = ("starter", "member", "bystander", "operator")


@pytest.fixture
def users(transactional_db: None) -> dict[str, User]:
    """The user who starts operations, a member of their project, and two others."""
    ensure_project("default")
    theirs = ensure_project("theirs")
    users = {name: create_user(username=name, password=None, role=Role.VIEWER) for name in USERS}
    User.objects.filter(username="operator").update(role=Role.OPERATOR.value)
    join_project(user=users["member"], project=theirs)
    return users


@pytest.fixture
def operations(users: dict[str, User]) -> dict[str, Operation]:
    """One operation of each kind of owner."""
    starter, project = users["starter"].pk, ensure_project("theirs").pk
    return {
        "of the user": begin_operation(kind="a", created_by=starter),
        "of the project": begin_operation(kind="b", created_by=starter, project_id=project),
        "of the system": begin_operation(kind="c", created_by=None),
    }


def bearer_of(user: User) -> dict[str, str]:
    return {"Authorization": f"Bearer {create_token(user=user, name='t').secret}"}


def readable(headers: dict[str, str]) -> set[str]:
    """Return the ids of the operations that a caller may list."""
    found = APIClient().get("/api/v1/operations/", headers=headers).json()["results"]
    return {row["id"] for row in found}


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("starter", {"of the user", "of the project"}),
        ("member", {"of the project"}),
        ("bystander", set()),
        ("operator", {"of the user", "of the project", "of the system"}),
    ],
)
@pytest.mark.parametrize("address", ["/api/v1/events/?limit=50", "/api/v1/changes/?since=0"])
def test_events_are_listed_for_those_who_may_read_the_operation(
    users: dict[str, User],
    operations: dict[str, Operation],
    name: str,
    seen: set[str],
    address: str,
) -> None:
    headers = bearer_of(users[name])
    found = APIClient().get(address, headers=headers).json()["results"]
    assert {event["subject"] for event in found} == {str(operations[key].pk) for key in seen}
    assert {event["subject"] for event in found} == readable(headers)


@pytest.mark.parametrize("name", USERS)
def test_the_stream_replays_and_sends_them_to_the_same_users(
    users: dict[str, User], operations: dict[str, Operation], name: str
) -> None:
    headers = bearer_of(users[name])
    replayed = readable(headers)
    position = Event.objects.earliest("seq").seq - 1
    starter, project = users["starter"].pk, ensure_project("theirs").pk

    def begin_more() -> None:
        begin_operation(kind="a", created_by=starter)
        begin_operation(kind="b", created_by=starter, project_id=project)
        begin_operation(kind="c", created_by=None)

    async def follow() -> None:
        async with Reader({**headers, "Last-Event-ID": str(position)}) as reader:
            await reader.events(1 + len(replayed))
            await sync_to_async(begin_more)()
            await happen("last")
            await reader.until(lambda text: '"last"' in text)
        both = await sync_to_async(readable)(headers)
        assert set(subjects(reader.so_far())) == both | {"last"}
        assert len(both) == 2 * len(replayed)

    run(follow)


def test_the_starter_sees_them_without_a_membership(
    users: dict[str, User], operations: dict[str, Operation]
) -> None:
    Membership.objects.filter(user=users["starter"]).delete()
    found = APIClient().get("/api/v1/events/", headers=bearer_of(users["starter"])).json()
    subjects = {event["subject"] for event in found["results"]}
    assert subjects == {str(operations[key].pk) for key in ("of the user", "of the project")}


def test_the_migration_stores_the_users_of_earlier_events(
    operations: dict[str, Operation],
) -> None:
    Event.objects.update(user_id=None)
    migrate("operations", "0008_fill_users_of_operation_events", back=False)
    stored = dict(Event.objects.values_list("subject", "user_id"))
    assert stored == {str(row.pk): row.created_by_id for row in operations.values()}
