"""Values of a front in objectives that it was not searched by: migrations, money, carbon.

k placements, c containers. Over several moments a value is the mean, like P, D and C.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.front.moments import split_by_moment
from apps.placement.core.problem.instance import Instance
from apps.placement.core.problem.objectives import Objective


@dataclass(frozen=True, slots=True, eq=False)
class ObjectiveColumn:
    """One objective of each placement, read-only.

    Attributes
    ----------
    raw : (k,)
    scale : divisor of the raw values; 0 if the objective is 0 for every placement
    """

    raw: Floats
    scale: float

    @property
    def normalised(self) -> Floats:
        """(k,) values in [0, 1]."""
        return self.raw / self.scale if self.scale > 0.0 else np.zeros_like(self.raw)


def objective_column(
    instances: Sequence[Instance], assignments: Ints, objective: Objective
) -> ObjectiveColumn:
    """Evaluate (k, sum c) placements by one objective. O(k·(n + c)).

    Raises
    ------
    CurveLacksRackError : the objective has no values for a rack of an instance.
    """
    parts = split_by_moment(instances, assignments)
    raw: Floats = np.mean(
        [
            [objective.raw(instance, assignment) for assignment in part]
            for instance, part in zip(instances, parts, strict=True)
        ],
        axis=0,
    )
    raw.flags.writeable = False
    return ObjectiveColumn(
        raw, float(np.mean([objective.scale(instance) for instance in instances]))
    )
