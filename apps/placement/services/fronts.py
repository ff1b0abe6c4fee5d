"""Fronts on their way: asked for, searched by a worker, stopped; each version is written once.

One search runs at a time, so that of the workers that serve placement one is left for those who
wait for an answer. A search whose worker died begins again with what it had found.
"""

import json
import logging
import math
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, Max, OuterRef, ProtectedError, QuerySet
from django.utils import timezone

from apps.common.core.errors import (
    ConflictError,
    ControlPlaneError,
    FieldProblem,
    InvalidInputError,
)
from apps.common.core.ids import uuid7
from apps.common.poke import poke
from apps.inventory.selectors import cluster_now
from apps.operations.core.states import OperationStatus, Topic
from apps.operations.models import Operation
from apps.operations.services import (
    MOST_ATTEMPTS,
    LostError,
    NewEvent,
    begin_operation,
    cancel_operation,
    claim_operation,
    finish_operation,
    finish_owned,
    owned_operation,
    record_events,
)
from apps.placement.core import front_search, starts
from apps.placement.core.examples import Draw, draw
from apps.placement.core.front import OBJECTIVES, scales
from apps.placement.core.instance import Instance
from apps.placement.core.instance_file import written
from apps.placement.core.mix import mix_of
from apps.placement.core.objectives import evaluate
from apps.placement.core.solver import filled
from apps.placement.models import Front, FrontSource, FrontVersion
from apps.placement.selectors.fronts import has_instance, instance_of
from apps.placement.services.front_versions import Keeper
from apps.placement.services.locks import Lock, hold

KIND: Final = "placement.front"
TASK: Final = "placement.fronts"
QUEUE: Final = "placement"
PERCENT: Final = 100
KEPT: Final = timedelta(days=1)  # of versions on the way to a front: pages still show them
_logger = logging.getLogger(__name__)


class Workload(NamedTuple):
    """What runs, and when."""

    instance: Instance
    cluster_s: float


Reader = Callable[[float | None], Workload]


class NothingRunsError(ConflictError):
    """There is no workload of which a front could be."""


@dataclass(frozen=True, slots=True)
class NewFront:
    """A front that is wanted.

    Attributes
    ----------
    instance : its workload; None = what runs on the cluster
    cluster_s : moment of the cluster; None = now
    """

    budget_s: float
    seed: int
    instance: Instance | None = None
    cluster_s: float | None = None


def begin_front(wanted: NewFront, *, by: UUID) -> Front:
    """Write down a front that is wanted; a worker takes it up at once.

    Raises
    ------
    InvalidInputError : its moment is yet to come.
    """
    if wanted.cluster_s is not None and wanted.cluster_s > (now_s := cluster_now()):
        detail = f"must not be later than now, {now_s:.0f}"
        raise InvalidInputError([FieldProblem("/cluster_seconds", "too_high", detail)])
    front_id = uuid7()
    is_given = wanted.instance is not None
    with transaction.atomic():
        hold(Lock.FRONTS)
        number = (Front.objects.aggregate(most=Max("number"))["most"] or 0) + 1
        operation = begin_operation(
            kind=KIND, created_by=by, total=PERCENT, arguments={"front": str(front_id)}
        )
        front = Front(
            id=front_id,
            number=number,
            operation=operation,
            source=FrontSource.INSTANCE if is_given else FrontSource.CLUSTER,
            cluster_s=wanted.cluster_s,
            budget_s=wanted.budget_s,
            seed=wanted.seed,
            created_by_id=by,
        )
        if wanted.instance is not None:
            _describe(front, wanted.instance)
        front.save(force_insert=True)
        record_events([_event(front, "front.created")])
        poke(TASK, queue=QUEUE)
    return front


def prune_fronts() -> int:
    """Forget fronts that ended long ago and gave no preference set; returns how many.

    The newest front stays.
    """
    before = timezone.now() - timedelta(days=settings.BERTH_FRONT_DAYS)
    old = Front.objects.filter(operation__finished_at__lt=before)
    of_a_set = FrontVersion.objects.filter(front=OuterRef("pk"), preference_sets__isnull=False)
    newest = Front.objects.order_by("-number").values("pk")[:1]
    gone = old.exclude(Exists(of_a_set)).exclude(pk__in=newest)
    return sum(_forget(Front.objects.filter(pk=pk)) for pk in gone.values_list("pk", flat=True))


def prune_versions() -> int:
    """Forget what was found on the way to a front that is done for a day; returns how many.

    Its last version stays, and those of which picks were kept.
    """
    before = timezone.now() - KEPT
    later = FrontVersion.objects.filter(front=OuterRef("front"), number__gt=OuterRef("number"))
    on_the_way = FrontVersion.objects.filter(
        Exists(later), preference_sets=None, front__operation__finished_at__lt=before
    )
    ids = on_the_way.values_list("pk", flat=True)
    return sum(_forget(FrontVersion.objects.filter(pk=pk)) for pk in ids)


def _forget(rows: "QuerySet[Front] | QuerySet[FrontVersion]") -> int:
    """Delete what nobody has saved a preference set of meanwhile; what is large is not read."""
    try:
        return rows.only("pk").delete()[1].get(rows.model._meta.label, 0)
    except ProtectedError:
        return 0


def stop_front(front: Front) -> Operation:
    """End a search; what it has found stays.

    Raises
    ------
    ConflictError : it has ended.
    """
    with transaction.atomic():
        operation = cancel_operation(front.operation_id)
        if operation.status == OperationStatus.CANCELLED:
            record_events([_event(front, "front.finished", state=operation.status)])
    return operation


def prepare_search() -> None:
    """Load, and after an installation compile, what searches need; once a process."""
    front_search.prepare(draw(Draw(4, has_real_intensities=True, kinds=2, nodes_per_rack=1), 0))


def search_waiting(read: Reader, *, clock: Callable[[], float] = time.monotonic) -> UUID | None:
    """Search the front that waits longest, if none is searched; returns its id.

    Parameters
    ----------
    read : gives what runs on the cluster, at a moment or now
    """
    front = _claimed()
    if front is None:
        return None
    try:
        _search_or_fail(front, read, clock)
    except LostError:
        _logger.warning("front %s (%s) was taken over by another worker", front, front.pk)
    poke(TASK, queue=QUEUE)  # another may be waiting
    return front.pk


def _claimed() -> Front | None:
    """Take up the front that waits longest, unless one is searched."""
    with transaction.atomic():
        hold(Lock.FRONTS)
        open_ones = Operation.objects.filter(kind=KIND)
        if open_ones.filter(status=OperationStatus.RUNNING).exists():
            return None
        waiting = open_ones.filter(status=OperationStatus.PENDING).order_by("created_at").first()
        claimed = claim_operation(waiting.pk) if waiting is not None else None
        if claimed is None:
            return None
        front = Front.objects.get(operation=claimed)
        front.operation = claimed
    if claimed.arguments["attempt"] > MOST_ATTEMPTS:
        _fail(front, f"Its worker died {MOST_ATTEMPTS} times.")
        return None
    return front


def _search_or_fail(front: Front, read: Reader, clock: Callable[[], float]) -> None:
    try:
        _search(front, read, clock)
    except LostError:
        raise
    except ControlPlaneError as error:
        _fail(front, str(error))
    except Exception:
        _logger.exception("front %s (%s) failed", front, front.pk)
        _fail(front, "The search broke; the log holds the rest.")


def _search(front: Front, read: Reader, clock: Callable[[], float]) -> None:
    instance = _workload(front, read)
    keeper = Keeper(front, instance, clock)
    found = front_search.find_front(
        instance,
        clock=clock,
        budget_s=keeper.left_s,
        seed=front.seed,
        more=keeper.starts(),
        should_stop=lambda: keeper.is_stopped,
        watch=keeper.watch,
        keep=keeper.keep,
    )
    with transaction.atomic():
        operation = owned_operation(front.operation)
        version = keeper.end(found)
        is_cut = keeper.is_stopped and operation.cancel_requested
        status = OperationStatus.CANCELLED if is_cut else OperationStatus.SUCCEEDED
        result = {
            "front": str(front.pk),
            "version": version,
            "points": found.points,
            "hypervolume": found.hypervolume,
            "exact": found.is_exact,
        }
        finish_operation(front.operation_id, status=status, result=result)
        record_events([_event(front, "front.finished", state=status, version=version)])


def _workload(front: Front, read: Reader) -> Instance:
    """Return the instance of a front, reading the cluster where that was not done yet."""
    if not has_instance(front.pk):
        instance, front.cluster_s = read(front.cluster_s)
        if not instance.job.size:
            raise NothingRunsError("Nothing runs on the cluster that could be placed.")
        _describe(front, instance)
        front.save()
    return instance_of(front.pk)


def _describe(front: Front, instance: Instance) -> None:
    front.instance = zlib.compress(json.dumps(written(instance)).encode())
    front.containers, front.nodes = instance.job.size, len(instance.node_ids)
    front.scales = {
        name: scale if math.isfinite(scale) else None
        for name, scale in zip(OBJECTIVES, scales(instance).tolist(), strict=True)
    }
    front.mix = mix_of(instance)
    front.anchors = list(_anchors(instance))


def _anchors(instance: Instance) -> list[dict[str, Any]]:
    """Judge what runs now, and what cluster schedulers would do (ClavisMO §4.2)."""
    placements = {
        "SlotRR": starts.slot_round_robin(instance),
        "NodeRR": starts.node_round_robin(instance),
    }
    if instance.has_current:
        placements = {"now": filled(instance, instance.current), **placements}
    judged = {name: evaluate(instance, np.asarray(at)) for name, at in placements.items()}
    return [
        {
            "name": name,
            "raw": {key: value.raw[key] for key in OBJECTIVES},
            "normalised": {key: value.normalised[key] for key in OBJECTIVES},
        }
        for name, value in judged.items()
    ]


def _fail(front: Front, detail: str) -> None:
    with transaction.atomic():
        problem = {"title": "No front was found", "detail": detail}
        finish_owned(front.operation, status=OperationStatus.FAILED, problem=problem)
        record_events([_event(front, "front.finished", state=OperationStatus.FAILED)])


def _event(front: Front, kind: str, **more: Any) -> NewEvent:
    data: Mapping[str, Any] = {"name": str(front), **more}
    return NewEvent(topic=Topic.FRONTS, kind=kind, subject=str(front.pk), data=data)
