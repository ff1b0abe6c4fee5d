"""All functions that allocate and release units lock rows in the order of their ids."""

from collections.abc import Callable, Iterable

import pytest
from django.db import transaction

from apps.inventory.models import ResourceUnit, Server
from apps.inventory.services.allocation import (
    Usage,
    lock_free_units,
    lock_servers,
    lock_units,
    release_units,
)
from tests import factories
from tests.races import assert_locks_in_order
from tests.scheduling.world import build

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def servers() -> list[int]:
    """Return the ids of two servers with one unit each."""
    factories.cluster()
    return build("a", "b", cores=1).topology.server_id.tolist()


def units() -> list[int]:
    return list(ResourceUnit.objects.values_list("id", flat=True))


def _lock(servers: Iterable[int]) -> None:
    lock_units(units())


def _lock_free(servers: Iterable[int]) -> None:
    lock_free_units(list(servers))


def _release(servers: Iterable[int]) -> None:
    with transaction.atomic():
        release_units(units(), allocation_ids=[], usages=[])


@pytest.mark.parametrize("act", [_lock, _lock_free, _release])
def test_units(servers: list[int], act: Callable[[Iterable[int]], None]) -> None:
    assert_locks_in_order(ResourceUnit, units(), lambda: act(servers))


def _release_usage(servers: Iterable[int]) -> None:
    usages = [Usage(server, 0, 0, 0, 0) for server in servers]
    with transaction.atomic():
        release_units([], allocation_ids=[], usages=usages)


@pytest.mark.parametrize("act", [lock_servers, _release_usage])
def test_servers(servers: list[int], act: Callable[[Iterable[int]], object]) -> None:
    assert_locks_in_order(Server, servers, lambda: act(servers))
