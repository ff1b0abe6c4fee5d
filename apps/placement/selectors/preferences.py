"""Preference sets, what is in force, and what picks lead to. Nothing is written here."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import numpy as np
from django.db.models import Count, OuterRef, QuerySet, Subquery

from apps.common.core.errors import ConflictError, FieldProblem, InvalidInputError, NotFoundError
from apps.inventory.core.snapshot import Floats, Ints
from apps.inventory.models import Rack
from apps.placement.core.derivation import REFERENCE, Derivation, Picking, derive
from apps.placement.core.front import OBJECTIVES
from apps.placement.core.front_facts import between
from apps.placement.models import Activation, FrontVersion, PreferenceSet
from apps.placement.selectors.fronts import front_named, points_of, version_of
from apps.workloads.core.lifecycle import JobState
from apps.workloads.models import Job

MOST_BETWEEN: Final = 50


@dataclass(frozen=True, slots=True)
class Picked:
    """What was accepted, of which version of a front; None where weights are given directly."""

    picking: Picking
    version: FrontVersion | None

    @property
    def values(self) -> Floats:
        """(k, 3) normalised P, D, C of the points there are."""
        if self.version is None:
            return np.empty((0, len(OBJECTIVES)))
        return points_of(self.version).normalised

    @property
    def wanted(self) -> Floats | None:
        """(3,) values wanted; None where the rule takes none."""
        if self.picking.rule != REFERENCE:
            return None
        return np.array([self.picking.wanted[name] for name in OBJECTIVES])

    def derived(self, *, is_final: bool = False) -> Derivation:
        """Make weights of it.

        Raises
        ------
        InvalidInputError : names every screen, pick and value that cannot be.
        """
        return derive(self.values, self.picking, is_final=is_final)


def version_asked(front: str, number: int | None) -> FrontVersion:
    """Return a version that a body names.

    Raises
    ------
    InvalidInputError : there is none.
    """
    try:
        found = front_named(front)
    except NotFoundError as error:
        raise _refused("/front", str(error)) from error
    try:
        return version_of(found, number)
    except NotFoundError as error:
        raise _refused("/version", str(error)) from error


def between_two(version: FrontVersion, pair: Sequence[int]) -> Ints:
    """(≤ `MOST_BETWEEN`,) points between two others, in order from the one to the other.

    Raises
    ------
    InvalidInputError : one is not on the front, or they are the same.
    """
    points = points_of(version)
    problems = [
        FieldProblem(f"/points/{i}", "unknown", f"the front has the placements 0-{last}")
        for last in [len(points.raw) - 1]
        for i, point in enumerate(pair)
        if not 0 <= point <= last
    ]
    if pair[0] == pair[1]:
        problems.append(FieldProblem("/points/1", "duplicate", "name two different placements"))
    if problems:
        raise InvalidInputError(problems)
    found = between(points.normalised, pair[0], pair[1])
    if found.size > MOST_BETWEEN:
        most = np.sort(points.standing[found])[MOST_BETWEEN - 1]
        found = found[points.standing[found] <= most]
    return found


def _refused(pointer: str, detail: str) -> InvalidInputError:
    return InvalidInputError([FieldProblem(pointer, "unknown", detail)])


# ---- sets ----


def preference_sets() -> QuerySet[PreferenceSet]:
    """Return all sets with their makers and fronts, how often they came into force, and when."""
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
    """Return a set.

    Raises
    ------
    NotFoundError : there is none.
    """
    found = preference_sets().filter(pk=set_id).first()
    if found is None:
        raise NotFoundError(f"There is no preference set {set_id}.")
    return found


# ---- what is in force ----


def activations() -> QuerySet[Activation]:
    """Return all that ever came into force, with whose and what."""
    return Activation.objects.select_related("preference_set", "created_by")


def weights_in_force() -> Activation | None:
    """Return what is in force; None before the first activation."""
    return activations().order_by("-id").first()


def activation(activation_id: int) -> Activation:
    """Return something that once came into force.

    Raises
    ------
    NotFoundError : it never did.
    """
    found = activations().filter(pk=activation_id).first()
    if found is None:
        raise NotFoundError(f"There is no activation {activation_id}.")
    return found


def before(one: Activation) -> Activation | None:
    """Return what was in force before; None where nothing was."""
    return activations().filter(id__lt=one.pk).order_by("-id").first()


def share_of_targets_met() -> float | None:
    """Share of the running jobs that meet their target, of those that are measured; 0-1."""
    measured = Job.objects.filter(state=JobState.RUNNING, attainment__isnull=False)
    every = measured.count()
    return measured.filter(attainment__gte=1.0).count() / every if every else None


def racks_named(names: Sequence[str]) -> list[Rack]:
    """Return racks by name, in the order given.

    Raises
    ------
    InvalidInputError : names each that is not there, or twice.
    """
    found = {rack.name: rack for rack in Rack.objects.filter(name__in=names)}
    problems = [
        FieldProblem(f"/racks/{i}", "unknown", f"there is no rack {name!r}")
        for i, name in enumerate(names)
        if name not in found
    ]
    problems += [
        FieldProblem(f"/racks/{i}", "duplicate", f"{name!r} is named twice")
        for i, name in enumerate(names)
        if name in names[:i]
    ]
    if problems:
        raise InvalidInputError(problems)
    return [found[name] for name in names]


def racks_of(active: Activation) -> list[str]:
    """Return names of the racks that weights in force are limited to; none = everywhere.

    Raises
    ------
    ConflictError : they are limited to racks of which none is left.
    """
    names = list(Rack.objects.filter(pk__in=active.racks).values_list("name", flat=True))
    if active.racks and not names:
        raise ConflictError("The racks that the weights in force are limited to are gone.")
    return names


def rack_names(ids: Iterable[int]) -> dict[int, str]:
    """Return the names of racks."""
    rows: Any = Rack.objects.filter(pk__in=set(ids)).values_list("pk", "name")
    return dict(rows)
