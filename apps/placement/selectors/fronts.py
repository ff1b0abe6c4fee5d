"""Fronts, their versions and points, and their instances.

k points, c containers. Versions never change, so decoded ones are cached in the process.
"""

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

import numpy as np
from django.db.models import Q, QuerySet

from apps.common.core.errors import NotFoundError
from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.front.moments import split_by_moment
from apps.placement.core.problem.instance import Instance
from apps.placement.core.problem.instance_file import parse
from apps.placement.core.problem.objectives import OBJECTIVES
from apps.placement.models import Front, FrontVersion

_PREFIX: Final = "f-"


def fronts() -> QuerySet[Front]:
    """Return all fronts with their operations, without their instances."""
    return Front.objects.select_related("operation", "created_by").defer("instance")


def front_by_key(key: str) -> Front:
    """Return a front by id or name (f-0031).

    Raises
    ------
    NotFoundError : there is no such front.
    """
    front = fronts().filter(_matches_key(key)).first()
    if front is None:
        raise NotFoundError(f"There is no front {key}.")
    return front


def _matches_key(key: str) -> Q:
    digits = key.removeprefix(_PREFIX)
    if key.startswith(_PREFIX) and digits.isascii() and digits.isdigit() and len(digits) < 10:
        return Q(number=int(digits))
    try:
        return Q(pk=UUID(key))
    except ValueError:
        return Q(pk__in=[])


def versions_of(front_ids: Iterable[UUID]) -> list[FrontVersion]:
    """Return the versions of fronts, oldest first, without their points."""
    rows = FrontVersion.objects.filter(front_id__in=list(front_ids))
    return list(
        rows.defer("raw", "normalised", "assignments", "facts").order_by("front_id", "number")
    )


def version_of(front: Front, number: int | None) -> FrontVersion:
    """Return a version of a front without its points; None = the latest.

    Raises
    ------
    NotFoundError : the front has no version yet, or none with this number.
    """
    rows = FrontVersion.objects.filter(front=front).defer(
        "raw", "normalised", "assignments", "facts"
    )
    if number is None:
        version = rows.order_by("-number").first()
    else:
        version = rows.filter(number=number).first()
    if version is None:
        missing = "version yet" if number is None else f"version {number}"
        raise NotFoundError(f"{front} has no {missing}.")
    return version


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """The points of a version; read-only.

    Attributes
    ----------
    raw, normalised : (k, 3) P, D, C
    nodes_on, jobs_protected, jobs_exposed, jobs_split : (k,) see `core.front.facts.Facts`
    worst_job : (k,) name of the job that loses most; None if no job loses anything
    standing : (k,) rank as a representative: points with a rank below m are the m representatives;
        see `core.front.archive.standing`
    """

    raw: Floats
    normalised: Floats
    nodes_on: list[int]
    jobs_protected: list[int]
    jobs_exposed: list[int]
    jobs_split: list[int]
    worst_job: list[str | None]
    standing: Ints

    def representatives(self, limit: int | None) -> Ints:
        """(≤ limit,) ascending indices of representative points; nested for growing limits."""
        is_shown: Bools = self.standing < (self.standing.size if limit is None else limit)
        return np.flatnonzero(is_shown)


def points_of(version: FrontVersion) -> Points:
    """Return the points of a version."""
    return _points(version.pk, version.created_at)


@lru_cache(maxsize=16)
def _points(version_id: int, created_at: datetime) -> Points:
    """Read points; ``created_at`` tells equal ids before and after a reset apart."""
    row = FrontVersion.objects.only("raw", "normalised", "facts").get(pk=version_id)
    columns: dict[str, Any] = json.loads(zlib.decompress(bytes(row.facts)))
    standing = np.array(columns.pop("standing"), dtype=np.int64)
    standing.flags.writeable = False
    return Points(
        _table(bytes(row.raw)), _table(bytes(row.normalised)), standing=standing, **columns
    )


def _table(packed: bytes) -> Floats:
    return np.frombuffer(packed, dtype=np.float64).reshape(-1, len(OBJECTIVES))


def assignments_of(version_id: int) -> Ints:
    """(k, c) node of each container, for every point of a version."""
    row = FrontVersion.objects.only("assignments", "shown").get(pk=version_id)
    cells = np.frombuffer(zlib.decompress(bytes(row.assignments)), dtype=np.int32)
    return cells.reshape(row.shown, -1).astype(np.int64)


def placed_containers(front: Front, assignment: Ints) -> dict[str, str]:
    """Return the node of each container of a placement, by name.

    Over several moments, the name is followed by "@" and the cluster time in seconds.
    """
    instances = instances_of(front.pk)
    names = [f"@{at_s:.0f}" for at_s in front.moments] or [""]
    parts = split_by_moment(instances, assignment[None, :])
    return {
        f"{container}{name}": instance.node_ids[node]
        for instance, part, name in zip(instances, parts, names, strict=True)
        for container, node in zip(instance.container_ids, part[0].tolist(), strict=True)
    }


def has_instance(front_id: UUID) -> bool:
    """Whether the workload of a front has been read."""
    return Front.objects.filter(pk=front_id, instance__isnull=False).exists()


def instance_of(front_id: UUID) -> Instance:
    """Return the workload of a front of one moment.

    Raises
    ------
    Front.DoesNotExist : there is no such front, or its workload has not been read yet.
    """
    (instance,) = instances_of(front_id)
    return instance


@lru_cache(maxsize=8)
def container_ids(front_id: UUID) -> frozenset[int]:
    """Return the allocations that the workloads of a front of the cluster consist of."""
    return frozenset(
        int(key) for instance in instances_of(front_id) for key in instance.container_ids
    )


@lru_cache(maxsize=4)
def instances_of(front_id: UUID) -> tuple[Instance, ...]:
    """Return the workload of a front at each of its moments; it never changes once it is read.

    Raises
    ------
    Front.DoesNotExist : there is no such front, or its workload has not been read yet.
    """
    packed = (
        Front.objects.filter(pk=front_id, instance__isnull=False)
        .values_list("instance", flat=True)
        .get()
    )
    stored = json.loads(zlib.decompress(bytes(packed or b"")))
    each = stored if isinstance(stored, list) else [stored]
    return tuple(parse(data) for data in each)
