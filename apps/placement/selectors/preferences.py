"""Preference sets, activations, and the weights that picks give."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import numpy as np
from django.db.models import Count, OuterRef, QuerySet, Subquery

from apps.common.core.errors import ConflictError, FieldProblem, InvalidInputError, NotFoundError
from apps.inventory.core.snapshot import Floats, Ints
from apps.inventory.models import Rack
from apps.placement.core.front.facts import intermediate_points
from apps.placement.core.preference.derivation import (
    REFERENCE,
    PreferenceInput,
    WeightDerivation,
    derive,
)
from apps.placement.core.problem.objectives import OBJECTIVES
from apps.placement.models import Activation, FrontVersion, PreferenceSet
from apps.placement.selectors.fronts import front_by_key, points_of, version_of
from apps.placement.selectors.other_objectives import evaluated_points, other_objectives
from apps.workloads.core.lifecycle import JobState
from apps.workloads.models import Job

MAX_BETWEEN: Final = 50


@dataclass(frozen=True, slots=True)
class FrontPicking:
    """A picking and the front version it refers to; None if weights are given directly."""

    input: PreferenceInput
    version: FrontVersion | None

    @property
    def values(self) -> Floats:
        """(k, 3) normalised P, D, C of the points of the version."""
        if self.version is None:
            return np.empty((0, len(OBJECTIVES)))
        return points_of(self.version).normalised

    @property
    def wanted(self) -> Floats | None:
        """(3,) wanted values; None unless the rule is `reference`."""
        if self.input.rule != REFERENCE:
            return None
        return np.array([self.input.wanted[name] for name in OBJECTIVES])

    def derive_weights(self, *, is_final: bool = False) -> WeightDerivation:
        """Derive weights.

        Raises
        ------
        InvalidInputError : names every invalid screen, pick and value.
        """
        others = self.bounded_columns()
        return derive(self.values, self.input, is_final=is_final, others=others)

    def bounded_columns(self) -> dict[str, Floats]:
        """(k,) normalised values by each objective besides P, D and C that has a bound.

        Raises
        ------
        InvalidInputError : an objective was deleted since the request was read.
        """
        names = [name for name in self.input.bounds if name in self.input.others]
        if self.version is None:
            return {name: np.empty(0) for name in names}
        columns = {}
        for name in names:
            try:
                (other,) = evaluated_points(self.version, [name])
            except ValueError as error:
                raise _refused(f"/bounds/{name}", "the objective was deleted") from error
            columns[name] = other.points.normalised
        return columns


def named_others(picks: Iterable[str], bounds: Iterable[str]) -> tuple[str, ...]:
    """Return the objectives besides P, D and C if a screen or a bound may name one of them."""
    named = {*bounds, *(name for screen in picks for name in screen.split("-"))}
    return tuple(other_objectives()) if named - {*OBJECTIVES} else ()


def requested_version(front: str, number: int | None) -> FrontVersion:
    """Return the front version that a request names.

    Raises
    ------
    InvalidInputError : there is no such front or version.
    """
    try:
        row = front_by_key(front)
    except NotFoundError as error:
        raise _refused("/front", str(error)) from error
    try:
        return version_of(row, number)
    except NotFoundError as error:
        raise _refused("/version", str(error)) from error


def points_between(version: FrontVersion, pair: Sequence[int]) -> Ints:
    """(≤ `MAX_BETWEEN`,) points between two points, ordered from the first to the second.

    Raises
    ------
    InvalidInputError : a point is not on the front, or the two are equal.
    """
    points = points_of(version)
    problems = [
        FieldProblem(f"/points/{i}", "unknown", f"must be a placement of the front, 0-{last}")
        for last in [len(points.raw) - 1]
        for i, point in enumerate(pair)
        if not 0 <= point <= last
    ]
    if pair[0] == pair[1]:
        problems.append(
            FieldProblem("/points/1", "duplicate", "must differ from the first placement")
        )
    if problems:
        raise InvalidInputError(problems)
    indices = intermediate_points(points.normalised, pair[0], pair[1])
    if indices.size > MAX_BETWEEN:
        last_rank = np.sort(points.standing[indices])[MAX_BETWEEN - 1]
        indices = indices[points.standing[indices] <= last_rank]
    return indices


def _refused(pointer: str, detail: str) -> InvalidInputError:
    return InvalidInputError([FieldProblem(pointer, "unknown", detail)])


# ---- sets ----


def preference_sets() -> QuerySet[PreferenceSet]:
    """Return all sets with their creators, fronts, and number and id of activations."""
    latest = Activation.objects.filter(preference_set=OuterRef("pk")).order_by("-id")
    return (
        PreferenceSet.objects.select_related("created_by", "version__front")
        .defer(
            *(f"version__{name}" for name in ("raw", "normalised", "assignments", "facts")),
            "version__front__instance",
        )
        .annotate(
            times_activated=Count("activations", distinct=True),
            latest_activation=Subquery(latest.values("id")[:1]),
        )
    )


def preference_set(set_id: UUID) -> PreferenceSet:
    """Return a preference set.

    Raises
    ------
    NotFoundError : there is no such set.
    """
    row = preference_sets().filter(pk=set_id).first()
    if row is None:
        raise NotFoundError(f"There is no preference set {set_id}.")
    return row


# ---- activations ----


def activations() -> QuerySet[Activation]:
    """Return all activations with their sets and creators."""
    return Activation.objects.select_related("preference_set", "created_by")


def weights_in_force() -> Activation | None:
    """Return the activation in force; None before the first."""
    return activations().order_by("-id").first()


def activation(activation_id: int) -> Activation:
    """Return an activation.

    Raises
    ------
    NotFoundError : there is no such activation.
    """
    row = activations().filter(pk=activation_id).first()
    if row is None:
        raise NotFoundError(f"There is no activation {activation_id}.")
    return row


def previous_activation(row: Activation) -> Activation | None:
    """Return the activation before another one; None if there is none."""
    return activations().filter(id__lt=row.pk).order_by("-id").first()


def share_of_targets_met() -> float | None:
    """Return the share of measured running jobs that meet their target, 0-1; None without any."""
    measured = Job.objects.filter(state=JobState.RUNNING, attainment__isnull=False)
    total = measured.count()
    return measured.filter(attainment__gte=1.0).count() / total if total else None


def racks_by_name(names: Sequence[str]) -> list[Rack]:
    """Return racks by name, in the given order.

    Raises
    ------
    InvalidInputError : names each unknown and each duplicate rack.
    """
    racks = {rack.name: rack for rack in Rack.objects.filter(name__in=names)}
    problems = [
        FieldProblem(f"/racks/{i}", "unknown", f"there is no rack {name!r}")
        for i, name in enumerate(names)
        if name not in racks
    ]
    problems += [
        FieldProblem(f"/racks/{i}", "duplicate", f"{name!r} is listed twice")
        for i, name in enumerate(names)
        if name in names[:i]
    ]
    if problems:
        raise InvalidInputError(problems)
    return [racks[name] for name in names]


def racks_in_scope(active: Activation) -> list[str]:
    """Return the names of the racks that an activation is limited to; empty = all.

    Raises
    ------
    ConflictError : none of these racks exists any more.
    """
    names = list(Rack.objects.filter(pk__in=active.racks).values_list("name", flat=True))
    if active.racks and not names:
        raise ConflictError("The weights in force are limited to racks that no longer exist.")
    return names


def rack_names(ids: Iterable[int]) -> dict[int, str]:
    """Return the names of racks by id."""
    rows: Any = Rack.objects.filter(pk__in=set(ids)).values_list("pk", "name")
    return dict(rows)
