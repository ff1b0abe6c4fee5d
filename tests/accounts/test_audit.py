"""The audit log: who did what, in the transaction of the act, and never changed."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from apps.accounts.core.roles import Role
from apps.accounts.infrastructure.actor import Actor, Via, acting_as, current_actor
from apps.accounts.models import AuditEntry
from apps.accounts.services import Act, record_act
from apps.accounts.services.audit import NotInTransactionError
from tests import factories

ACT = Act("server.state_changed", "7", "srv-7", {"state": "active"}, {"state": "draining"}, "fan")


@pytest.mark.django_db
def test_an_act_names_actor_object_and_change() -> None:
    olga = factories.user("olga")
    with acting_as(Actor(Via.SESSION, olga.pk, "olga", address="192.0.2.7")):
        record_act(ACT)
    entry = AuditEntry.objects.get()
    assert (entry.username, entry.user_id, entry.via) == ("olga", olga.pk, "session")
    assert (entry.action, entry.object_kind) == ("server.state_changed", "server")
    assert (entry.object_id, entry.object_name) == ("7", "srv-7")
    assert (entry.before, entry.after) == ({"state": "active"}, {"state": "draining"})
    assert (entry.message, entry.address) == ("fan", "192.0.2.7")


@pytest.mark.django_db
def test_a_worker_acts_for_the_user_who_asked() -> None:
    olga = factories.user("olga")
    record_act(ACT, by=olga.pk)
    entry = AuditEntry.objects.get()
    assert (entry.username, entry.via) == ("olga", "system")


@pytest.mark.django_db
def test_nobody_is_named_for_what_berth_does_by_itself() -> None:
    record_act(ACT)
    entry = AuditEntry.objects.get()
    assert (entry.username, entry.user_id, entry.via) == ("", None, "system")


def test_an_actor_is_forgotten_afterwards() -> None:
    with acting_as(Actor(Via.COMMAND, username="root")):
        pass
    assert current_actor() == Actor()


@pytest.mark.django_db(transaction=True)
def test_an_act_outside_of_a_transaction_is_a_defect() -> None:
    with pytest.raises(NotInTransactionError, match="outside of a transaction"):
        record_act(ACT)


@pytest.mark.django_db(transaction=True)
def test_an_act_that_is_rolled_back_leaves_no_entry() -> None:
    class FailedError(Exception):
        pass

    def act() -> None:
        with transaction.atomic():
            record_act(ACT)
            raise FailedError

    with pytest.raises(FailedError):
        act()
    assert not AuditEntry.objects.exists()


def _change() -> Any:
    return AuditEntry.objects.update(message="nothing happened")


def _delete() -> Any:
    return AuditEntry.objects.all().delete()


def _truncate() -> Any:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE accounts_auditentry ENABLE TRIGGER accounts_audit_no_truncate")
        cursor.execute("TRUNCATE accounts_auditentry")


@pytest.mark.django_db
@pytest.mark.parametrize("tamper", [_change, _delete, _truncate])
def test_the_database_refuses_to_change_the_log(tamper: Callable[[], Any]) -> None:
    record_act(ACT)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        tamper()
    assert AuditEntry.objects.get().message == "fan"


@pytest.mark.django_db
def test_entries_outlive_the_user() -> None:
    olga = factories.user("olga", role=Role.OPERATOR)
    record_act(ACT, by=olga.pk)
    olga.delete()
    assert AuditEntry.objects.get().username == "olga"
