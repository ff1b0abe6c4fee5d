"""Objectives that fronts are not searched by, evaluated on stored placements when requested."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Final

import numpy as np

from apps.common.core.errors import ConflictError
from apps.placement.core.front.other_objectives import ObjectiveColumn, objective_column
from apps.placement.core.front.references import reference_placements
from apps.placement.core.problem.objectives import (
    BUILT_IN,
    OBJECTIVES,
    CurveLacksRackError,
    Objective,
)
from apps.placement.models import FrontVersion
from apps.placement.selectors.fronts import assignments_of, instances_of
from apps.placement.selectors.objectives import curve_of, objectives

_BUILT_IN: Final = {name: each for name, each in BUILT_IN.items() if name not in OBJECTIVES}


@dataclass(frozen=True, slots=True)
class OtherObjective:
    """One objective of the points of a version.

    Attributes
    ----------
    references : raw value of each of `reference_placements`
    """

    name: str
    objective: Objective
    points: ObjectiveColumn
    references: Mapping[str, float]


def other_objectives() -> dict[str, Objective]:
    """Return all objectives except P, D and C, the built-in ones first."""
    return {**_BUILT_IN, **{row.name: curve_of(row).objective() for row in objectives()}}


def evaluated_points(version: FrontVersion, names: Sequence[str]) -> Iterator[OtherObjective]:
    """Evaluate the points of a version by some of `other_objectives`.

    Raises
    ------
    ValueError : there is no such objective.
    ConflictError : a rack of the front has no values in a curve.
    """
    created = dict.fromkeys(_BUILT_IN, version.created_at)
    if set(names) - created.keys():
        created |= dict(objectives().values_list("name", "created_at"))
    for name in names:
        if name not in created:
            raise ValueError(f"contains {name!r}; known: {', '.join(created)}")
        yield _evaluated(version.pk, version.created_at, name, created[name])


@lru_cache(maxsize=64)
def _evaluated(
    version_id: int, created_at: datetime, name: str, objective_created_at: datetime
) -> OtherObjective:
    """Evaluate a version; the times tell versions and objectives of the same key apart."""
    version = FrontVersion.objects.only("front_id").get(pk=version_id)
    objective = other_objectives()[name]
    instances = instances_of(version.front_id)
    try:
        points = objective_column(instances, assignments_of(version_id), objective)
    except CurveLacksRackError as error:
        raise ConflictError(f"The front has no values of {name}: {error}.") from error
    placements = [reference_placements(instance) for instance in instances]
    references = {
        place: float(
            np.mean(
                [
                    objective.raw(instance, each[place])
                    for instance, each in zip(instances, placements, strict=True)
                ]
            )
        )
        for place in placements[0]
        if all(place in each for each in placements)
    }
    return OtherObjective(name, objective, points, references)
