"""Leases of operations whose work cannot report for longer than a lease, such as compiling."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

from django.db import DatabaseError, connection
from django.db.models.functions import Now

from apps.common.infrastructure.leases import shift_leases
from apps.operations.core.states import OperationStatus
from apps.operations.models import Operation
from apps.operations.services.operations import LEASE

RENEW_S: Final = LEASE.total_seconds() / 3.0
_logger = logging.getLogger(__name__)


def renew_lease(claimed: Operation) -> bool:
    """Renew the lease of an operation; False if another worker owns it or it has ended."""
    owned = Operation.objects.filter(
        pk=claimed.pk,
        status=OperationStatus.RUNNING,
        arguments__attempt=claimed.arguments["attempt"],
    )
    return owned.update(lease_until=Now() + LEASE) == 1


def shift_operation_leases(back_s: float) -> None:
    """Move the leases that were stored before the wall clock was set back by ``back_s``."""
    shift_leases("operations_operation", "lease_until", back_s)


@contextmanager
def lease_kept(claimed: Operation, *, every_s: float = RENEW_S) -> Iterator[None]:
    """Renew the lease from a thread during the body, and stop with it.

    A worker that dies stops renewing, so another one takes over after one lease.
    """
    ended = Event()
    thread = Thread(target=_renew, args=(claimed, ended, every_s), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _renew(claimed: Operation, ended: Event, every_s: float) -> None:
    while not ended.wait(every_s):
        try:
            renew_lease(claimed)
        except DatabaseError:
            _logger.warning("the lease of operation %s was not renewed", claimed.pk, exc_info=True)
        finally:
            connection.close()
