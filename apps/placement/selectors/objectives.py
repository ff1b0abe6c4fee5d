"""Custom objectives, and their weights on the running cluster."""

from collections.abc import Mapping, Sequence

import numpy as np
from django.db.models import QuerySet

from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.problem.curves import Curve
from apps.placement.models import CurveObjective

WATTS_PER_KILOWATT: float = 1_000.0  # watts per kilowatt


def objectives() -> QuerySet[CurveObjective]:
    """Return the custom objectives by name."""
    return CurveObjective.objects.select_related("created_by").order_by("name")


def curve_of(row: CurveObjective) -> Curve:
    """Return the curve of a custom objective."""
    curve = {rack: tuple(values) for rack, values in row.curve.items()}
    return Curve(row.label, row.unit, tuple(row.hours), curve)


def effective_weights(weights: Mapping[str, float]) -> dict[str, float]:
    """Return the weights of P, D and C with those of the custom objectives."""
    custom = CurveObjective.objects.filter(weight__gt=0.0).values_list("name", "weight")
    return {**weights, **dict(custom)}


def cost_per_watt(racks: Sequence[str], rack: Ints) -> dict[str, Floats]:
    """(n,) cost of a watt on each server over the whole curve, by objective.

    Parameters
    ----------
    racks : names
    rack : (n,) index of the rack of each server
    """
    curves = {row.name: curve_of(row) for row in objectives()}
    return {
        objective: np.array([curve.per_kilowatt(name) / WATTS_PER_KILOWATT for name in racks])[
            rack
        ]
        for objective, curve in curves.items()
    }
