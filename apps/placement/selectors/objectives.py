"""Objectives that somebody added, and what they weigh on the running cluster."""

from collections.abc import Mapping, Sequence

import numpy as np
from django.db.models import QuerySet

from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.curves import Curve
from apps.placement.models import CurveObjective

WATTS: float = 1_000.0  # of a kilowatt


def objectives() -> QuerySet[CurveObjective]:
    """Objectives beside those built in, by name."""
    return CurveObjective.objects.select_related("created_by").order_by("name")


def curve_of(row: CurveObjective) -> Curve:
    """Return an objective as a value."""
    curve = {rack: tuple(values) for rack, values in row.curve.items()}
    return Curve(row.label, row.unit, tuple(row.hours), curve)


def weighed(weights: Mapping[str, float]) -> dict[str, float]:
    """Return weights of P, D and C, and those of the objectives that were added."""
    more = CurveObjective.objects.filter(weight__gt=0.0).values_list("name", "weight")
    return {**weights, **dict(more)}


def watt_rates(racks: Sequence[str], rack: Ints) -> dict[str, Floats]:
    """(n,) what a watt costs on each server over the whole curve, by objective.

    Parameters
    ----------
    racks : names
    rack : (n,) index of each server's
    """
    curves = {row.name: curve_of(row) for row in objectives()}
    return {
        name: np.array([curve.per_kilowatt(one) / WATTS for one in racks])[rack]
        for name, curve in curves.items()
    }
