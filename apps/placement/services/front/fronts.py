"""Request, search, stop and prune fronts.

One search runs at a time, so that another placement worker stays free for interactive requests. If
the worker of a search dies, the search continues from its last version.
"""

import json
import logging
import math
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
from django.db import transaction
from django.db.models import Exists, Max, OuterRef, ProtectedError, QuerySet

from apps.common.core.errors import (
    ConflictError,
    ControlPlaneError,
    FieldProblem,
    InvalidInputError,
)
from apps.common.core.ids import uuid7
from apps.common.infrastructure.advisory_locks import AdvisoryLock, acquire
from apps.common.infrastructure.database import database_now
from apps.common.infrastructure.notifications import notify
from apps.inventory.core.snapshot import Floats
from apps.inventory.selectors import cluster_now
from apps.operations.core.states import OperationStatus, Topic
from apps.operations.models import Operation
from apps.operations.services import (
    NewEvent,
    OperationLostError,
    begin_operation,
    cancel_operation,
    claim_operation,
    finish_operation,
    finish_owned,
    owned_operation,
    record_events,
    why_given_up,
)
from apps.placement.core.front import search
from apps.placement.core.front.mix import mean_mix, mix_of
from apps.placement.core.front.moments import find_front_of_moments, mean_scales
from apps.placement.core.front.references import reference_placements
from apps.placement.core.problem.examples import InstanceSpec, generate_instance
from apps.placement.core.problem.instance import Instance
from apps.placement.core.problem.instance_file import instance_to_json
from apps.placement.core.problem.objectives import OBJECTIVES, evaluate
from apps.placement.models import Front, FrontSource, FrontVersion
from apps.placement.selectors.fronts import has_instance, instances_of
from apps.placement.services.front.versions import VersionRecorder

KIND: Final = "placement.front"
TASK: Final = "placement.fronts"
QUEUE: Final = "placement"
PERCENT: Final = 100
# of intermediate versions: pages still show them
VERSION_RETENTION: Final = timedelta(days=1)
_logger = logging.getLogger(__name__)


class Workload(NamedTuple):
    """The running containers, and the cluster time."""

    instance: Instance
    cluster_s: float


WorkloadReader = Callable[[float | None], Workload]


class EmptyClusterError(ConflictError):
    """No container runs on the cluster."""


@dataclass(frozen=True, slots=True)
class FrontRequest:
    """A request for a front.

    Attributes
    ----------
    instance : its workload; None = the running cluster
    cluster_s : cluster time of the workload; None = now
    moments : cluster times of several workloads, whose objectives are averaged; () = one
    """

    budget_s: float
    seed: int
    instance: Instance | None = None
    cluster_s: float | None = None
    moments: tuple[float, ...] = ()


def request_front(request: FrontRequest, *, by: UUID) -> Front:
    """Queue the search for a front.

    Raises
    ------
    InvalidInputError : a cluster time is in the future.
    """
    _require_past(request)
    front_id = uuid7()
    is_given = request.instance is not None
    with transaction.atomic():
        acquire(AdvisoryLock.FRONT_QUEUE)
        number = (Front.objects.aggregate(most=Max("number"))["most"] or 0) + 1
        operation = begin_operation(
            kind=KIND, created_by=by, total=PERCENT, arguments={"front": str(front_id)}
        )
        front = Front(
            id=front_id,
            number=number,
            operation=operation,
            source=FrontSource.INSTANCE if is_given else FrontSource.CLUSTER,
            cluster_s=max(request.moments, default=request.cluster_s),
            moments=list(request.moments),
            budget_s=request.budget_s,
            seed=request.seed,
            created_by_id=by,
        )
        if request.instance is not None:
            _describe(front, [request.instance])
        front.save(force_insert=True)
        record_events([_event(front, "front.created")])
        notify(TASK, queue=QUEUE)
    return front


def _require_past(request: FrontRequest) -> None:
    now_s = cluster_now()
    detail = f"must not be later than the current cluster time, {now_s:.0f}"
    given = {"/cluster_seconds": [request.cluster_s or 0.0], "/moments": request.moments}
    problems = [
        FieldProblem(pointer, "too_high", detail)
        for pointer, times in given.items()
        if max(times, default=0.0) > now_s
    ]
    if problems:
        raise InvalidInputError(problems)


def prune_fronts(*, before: datetime | None) -> int:
    """Delete fronts searched before without preference sets; returns their number. None: keep all.

    The newest front is kept.
    """
    if before is None:
        return 0
    old = Front.objects.filter(operation__finished_at__lt=before)
    with_set = FrontVersion.objects.filter(front=OuterRef("pk"), preference_sets__isnull=False)
    newest = Front.objects.order_by("-number").values("pk")[:1]
    expired = old.exclude(Exists(with_set)).exclude(pk__in=newest)
    return sum(
        _delete_unprotected(Front.objects.filter(pk=pk))
        for pk in expired.values_list("pk", flat=True)
    )


def prune_versions() -> int:
    """Delete intermediate versions of finished fronts; returns their number.

    Versions with preference sets are kept.
    """
    before = database_now() - VERSION_RETENTION
    later = FrontVersion.objects.filter(front=OuterRef("front"), number__gt=OuterRef("number"))
    intermediate = FrontVersion.objects.filter(
        Exists(later), preference_sets=None, front__operation__finished_at__lt=before
    )
    ids = intermediate.values_list("pk", flat=True)
    return sum(_delete_unprotected(FrontVersion.objects.filter(pk=pk)) for pk in ids)


def _delete_unprotected(rows: "QuerySet[Front] | QuerySet[FrontVersion]") -> int:
    """Delete rows unless a preference set now protects them; does not load large columns."""
    try:
        return rows.only("pk").delete()[1].get(rows.model._meta.label, 0)
    except ProtectedError:
        return 0


def stop_front(front: Front) -> Operation:
    """Stop a search and keep its versions.

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
    """Load the search kernels, compiling them after an installation; once per process."""
    search.prepare(
        generate_instance(InstanceSpec(4, has_real_intensities=True, kinds=2, nodes_per_rack=1), 0)
    )


def search_next_front(
    read: WorkloadReader, *, clock: Callable[[], float] = time.monotonic
) -> UUID | None:
    """Search the oldest queued front unless a search runs; returns its id.

    Parameters
    ----------
    read : returns the workload of the cluster, at a cluster time or now
    """
    front = _claim_next()
    if front is None:
        return None
    try:
        _search_or_fail(front, read, clock)
    except OperationLostError:
        _logger.warning("front %s (%s) was taken over by another worker", front, front.pk)
    notify(TASK, queue=QUEUE)  # another may be queued
    return front.pk


def _claim_next() -> Front | None:
    """Claim the oldest queued front, unless a search runs."""
    with transaction.atomic():
        acquire(AdvisoryLock.FRONT_QUEUE)
        operations = Operation.objects.filter(kind=KIND)
        if operations.filter(status=OperationStatus.RUNNING).exists():
            return None
        pending = operations.filter(status=OperationStatus.PENDING).order_by("created_at").first()
        claimed = claim_operation(pending.pk) if pending is not None else None
        if claimed is None:
            return None
        front = Front.objects.get(operation=claimed)
        front.operation = claimed
    if why := why_given_up(claimed):
        _fail(front, why)
        return None
    return front


def _search_or_fail(front: Front, read: WorkloadReader, clock: Callable[[], float]) -> None:
    try:
        _search(front, read, clock)
    except OperationLostError:
        raise
    except ControlPlaneError as error:
        _fail(front, str(error))
    except Exception:
        _logger.exception("front %s (%s) failed", front, front.pk)
        _fail(front, "The search failed with an internal error; see the log.")


def _search(front: Front, read: WorkloadReader, clock: Callable[[], float]) -> None:
    instances = _workloads(front, read)
    recorder = VersionRecorder(front, instances, clock)
    result = find_front_of_moments(
        instances,
        clock=clock,
        budget_s=recorder.remaining_s,
        seed=front.seed,
        starts=recorder.starts(),
        should_stop=lambda: recorder.is_stopped,
        on_progress=recorder.on_progress,
        on_version=recorder.on_version,
    )
    with transaction.atomic():
        operation = owned_operation(front.operation)
        version = recorder.finish(result)
        is_stopped = recorder.is_stopped and operation.cancel_requested
        status = OperationStatus.CANCELLED if is_stopped else OperationStatus.SUCCEEDED
        summary = {
            "front": str(front.pk),
            "version": version,
            "points": result.points,
            "hypervolume": result.hypervolume,
            "exact": result.is_exact,
        }
        finish_operation(front.operation_id, status=status, result=summary)
        record_events([_event(front, "front.finished", state=status, version=version)])


def _workloads(front: Front, read: WorkloadReader) -> tuple[Instance, ...]:
    """Return the instances of a front, reading the cluster the first time."""
    if not has_instance(front.pk):
        found = [read(at_s) for at_s in front.moments or [front.cluster_s]]
        found = [workload for workload in found if workload.instance.job.size]
        if not found:
            raise EmptyClusterError("No container runs on the cluster.")
        front.cluster_s = found[-1].cluster_s
        front.moments = [w.cluster_s for w in found] if front.moments else []
        _describe(front, [workload.instance for workload in found])
        front.save()
    return instances_of(front.pk)


def _describe(front: Front, instances: Sequence[Instance]) -> None:
    """Store the instances of the moments of a front, and what is the same for all versions."""
    stored = [instance_to_json(instance) for instance in instances]
    front.instance = zlib.compress(json.dumps(stored if front.moments else stored[0]).encode())
    front.containers = len({key for each in instances for key in each.container_ids})
    front.nodes = max(len(instance.node_ids) for instance in instances)
    divisors = mean_scales(instances)
    front.scales = {
        name: scale if math.isfinite(scale) else None
        for name, scale in zip(OBJECTIVES, divisors.tolist(), strict=True)
    }
    front.mix = mean_mix([mix_of(instance) for instance in instances])
    front.anchors = list(_anchors(instances, divisors))


def _anchors(instances: Sequence[Instance], divisors: Floats) -> Iterator[dict[str, Any]]:
    """Evaluate the current placement and those of common schedulers (ClavisMO §4.2)."""
    each = [reference_placements(instance) for instance in instances]
    for name in each[0]:
        judged = [
            evaluate(instance, np.asarray(placements[name])).raw
            for instance, placements in zip(instances, each, strict=True)
        ]
        raw = np.mean([[values[key] for key in OBJECTIVES] for values in judged], axis=0)
        yield {
            "name": name,
            "raw": dict(zip(OBJECTIVES, raw.tolist(), strict=True)),
            "normalised": dict(zip(OBJECTIVES, (raw / divisors).tolist(), strict=True)),
        }


def _fail(front: Front, detail: str) -> None:
    with transaction.atomic():
        problem = {"title": "The search for a front failed", "detail": detail}
        finish_owned(front.operation, status=OperationStatus.FAILED, problem=problem)
        record_events([_event(front, "front.finished", state=OperationStatus.FAILED)])


def _event(front: Front, kind: str, **more: Any) -> NewEvent:
    data: Mapping[str, Any] = {"name": str(front), **more}
    return NewEvent(topic=Topic.FRONTS, kind=kind, subject=str(front.pk), data=data)
