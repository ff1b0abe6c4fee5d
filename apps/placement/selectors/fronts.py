"""Fronts, their versions and points, and the instances they are of.

k points, c containers. Versions never change, so what was unpacked of one is kept in the process.
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
from apps.placement.core.front import OBJECTIVES
from apps.placement.core.instance import Instance
from apps.placement.core.instance_file import parse
from apps.placement.models import Front, FrontVersion

_PREFIX: Final = "f-"


def fronts() -> QuerySet[Front]:
    """Return all fronts with how far they are, without their instances."""
    return Front.objects.select_related("operation", "created_by").defer("instance")


def front_named(key: str) -> Front:
    """Return the front of that id or name, such as f-0031.

    Raises
    ------
    NotFoundError : there is none.
    """
    found = fronts().filter(_named(key)).first()
    if found is None:
        raise NotFoundError(f"There is no front {key}.")
    return found


def _named(key: str) -> Q:
    digits = key.removeprefix(_PREFIX)
    if key.startswith(_PREFIX) and digits.isascii() and digits.isdigit() and len(digits) < 10:
        return Q(number=int(digits))
    try:
        return Q(pk=UUID(key))
    except ValueError:
        return Q(pk__in=[])


def versions_of(front_ids: Iterable[UUID]) -> list[FrontVersion]:
    """Read what is said of the versions of some fronts, oldest first, without their points."""
    rows = FrontVersion.objects.filter(front_id__in=list(front_ids))
    return list(
        rows.defer("raw", "normalised", "assignments", "facts").order_by("front_id", "number")
    )


def version_of(front: Front, number: int | None) -> FrontVersion:
    """Return a version of a front without its points; None = the latest.

    Raises
    ------
    NotFoundError : there is none, or none of that number.
    """
    rows = FrontVersion.objects.filter(front=front).defer(
        "raw", "normalised", "assignments", "facts"
    )
    found = (
        rows.order_by("-number").first() if number is None else rows.filter(number=number).first()
    )
    if found is None:
        none_yet = f"Nothing has been found for {front} yet."
        raise NotFoundError(none_yet if number is None else f"{front} has no version {number}.")
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """The points of a version; read-only.

    Attributes
    ----------
    raw, normalised : (k, 3) P, D, C
    nodes_on, jobs_protected, jobs_exposed, jobs_split : (k,) see `core.front_facts.Facts`
    worst_job : (k,) name of the job that loses most; None where none loses anything
    standing : (k,) those below m are the m that stand for all: see `core.front.standing`
    """

    raw: Floats
    normalised: Floats
    nodes_on: list[int]
    jobs_protected: list[int]
    jobs_exposed: list[int]
    jobs_split: list[int]
    worst_job: list[str | None]
    standing: Ints

    def among(self, most: int | None) -> Ints:
        """(≤ most,) the points that stand for all, ascending; fewer are always among more."""
        is_shown: Bools = self.standing < (self.standing.size if most is None else most)
        return np.flatnonzero(is_shown)


def points_of(version: FrontVersion) -> Points:
    """Read the points of a version."""
    return _points(version.pk, version.created_at)


@lru_cache(maxsize=16)
def _points(version_id: int, created_at: datetime) -> Points:
    """Read them; their time tells a version from one of the same number before a reset."""
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
    """(k, c) node of each container, of every point of a version."""
    row = FrontVersion.objects.only("assignments", "shown").get(pk=version_id)
    cells = np.frombuffer(zlib.decompress(bytes(row.assignments)), dtype=np.int32)
    return cells.reshape(row.shown, -1).astype(np.int64)


def has_instance(front_id: UUID) -> bool:
    """Whether the workload of a front is known by now."""
    return Front.objects.filter(pk=front_id, instance__isnull=False).exists()


@lru_cache(maxsize=4)
def instance_of(front_id: UUID) -> Instance:
    """Read the workload of a front; once it is known it does not change.

    Raises
    ------
    Front.DoesNotExist : no such front, or its workload has not been read yet.
    """
    packed = (
        Front.objects.filter(pk=front_id, instance__isnull=False)
        .values_list("instance", flat=True)
        .get()
    )
    return parse(json.loads(zlib.decompress(bytes(packed or b""))))
