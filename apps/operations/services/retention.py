"""Deletion of history by age: in batches, within a time, and stopped when somebody asks.

Every app lists its kinds of history (`Kind`); its periodic task runs them. A batch is one
transaction, so a run that is killed loses nothing, and the next one continues.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db.models import Exists, F, OuterRef
from django.utils import timezone

from apps.common.infrastructure.deletion import BATCH, delete_before
from apps.operations.core.states import TERMINAL
from apps.operations.models import Operation, Retention
from apps.operations.services.events import prune_events

BUDGET_S: Final = 60.0  # wall seconds of one run


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of history.

    Attributes
    ----------
    name : in metrics and in ``manage.py retention``
    delete : deletes one batch and returns its size; 0 = nothing is left to delete
    """

    name: str
    delete: Callable[[], int]


@dataclass(frozen=True, slots=True)
class Run:
    """What a run did about one kind.

    Attributes
    ----------
    is_complete : False if the time ran out or somebody paused it before nothing was left
    """

    name: str
    deleted: int
    seconds: float
    is_complete: bool


def run_retention(
    kinds: Sequence[Kind],
    *,
    budget_s: float = BUDGET_S,
    clock: Callable[[], float] = time.monotonic,
) -> list[Run]:
    """Delete batches of each kind until nothing is left, its time is over, or it is paused.

    The remaining time is shared equally by the remaining kinds, so that a backlog of one does not
    starve the others. Each kind has at least one batch.
    """
    end, runs = clock() + budget_s, []
    for place, kind in enumerate(kinds):
        Retention.objects.get_or_create(name=kind.name)
        began = clock()
        until = began + (end - began) / (len(kinds) - place)
        deleted, is_complete = _delete(kind, until, clock)
        runs.append(Run(kind.name, deleted, clock() - began, is_complete))
        _record(runs[-1])
    return runs


def _delete(kind: Kind, until: float, clock: Callable[[], float]) -> tuple[int, bool]:
    deleted = 0
    while not Retention.objects.filter(name=kind.name, is_paused=True).exists():
        count = kind.delete()
        deleted += count
        if count == 0:
            return deleted, True
        if clock() >= until:
            break
    return deleted, False


def _record(run: Run) -> None:
    Retention.objects.filter(name=run.name).update(
        deleted=F("deleted") + run.deleted,
        last_deleted=run.deleted,
        last_seconds=run.seconds,
        last_run_at=timezone.now(),
        is_complete=run.is_complete,
    )


def pause_retention(name: str, *, is_paused: bool) -> bool:
    """Pause or resume one kind; a run in progress ends after its batch. False: unknown kind."""
    return Retention.objects.filter(name=name).update(is_paused=is_paused) == 1


def cutoff(days: float) -> datetime | None:
    """Return the time before which history of this age is deleted; None: it is kept for ever."""
    return timezone.now() - timedelta(days=days) if days > 0 else None


def operation_kinds() -> list[Kind]:
    """Return the kinds of history that this app owns."""
    return [
        Kind(
            "events",
            lambda: prune_events(before=cutoff(settings.BERTH_EVENT_DAYS)),
        ),
        Kind(
            "idempotency_keys",
            lambda: delete_before(
                "operations_idempotencykey",
                "created_at",
                cutoff(settings.BERTH_IDEMPOTENCY_HOURS / 24.0),
            ),
        ),
        Kind(
            "operations",
            lambda: _delete_operations(cutoff(settings.BERTH_OPERATION_DAYS)),
        ),
    ]


def _delete_operations(before: datetime | None) -> int:
    """Delete one batch of ended operations that no other row refers to."""
    if before is None:
        return 0
    old = Operation.objects.filter(created_at__lt=before, status__in=TERMINAL)
    for relation in Operation._meta.related_objects:
        rows = relation.related_model._default_manager
        old = old.exclude(Exists(rows.filter(**{relation.field.name: OuterRef("pk")})))
    keys = list(old.order_by("created_at", "id").values_list("pk", flat=True)[:BATCH])
    return Operation.objects.filter(pk__in=keys).delete()[0]
