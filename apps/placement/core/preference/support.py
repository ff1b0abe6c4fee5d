"""Supported points of a front: those that minimise some weighted sum.

A weighted sum only finds points on the lower convex hull of the losses. Points in a concave part
of the front are Pareto-optimal, but no weights lead to them. Source: Das and Dennis (1997), "A
closer look at drawbacks of minimizing weighted sums of objectives".

k points. Weights form a triangle (w >= `MIN_WEIGHT`, Σw = 1; zero weights would allow ties).
Every other point restricts the triangle to the half-plane in which it is not better than the
tested point; the remaining polygon contains the weights that return the tested point. Each step
cuts with the point that is furthest ahead at the centroid, which removes at least four ninths of
the area (Grünbaum 1960): about thirty cuts decide.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Floats

MIN_WEIGHT: Final = 1e-4
TOLERANCE: Final = 1e-9  # of a loss; losses are rounded to 2⁻³⁰


def unsupported(losses: Floats, points: Sequence[int]) -> list[int]:
    """Return the unsupported points among those given, in their order.

    Parameters
    ----------
    losses : (k, 3) minimised values
    points : indices
    """
    return [point for point in points if supporting(losses, point) is None]


def supporting(losses: Floats, point: int) -> Floats | None:
    """(3,) weights, sum 1, for which no point is better than this one; None if unsupported.

    O(k) per cut, about thirty cuts.
    """
    ahead = losses[point] - losses  # (k, 3): w·ahead > 0 if another point is better for w
    corners: Floats = np.eye(3) * (1.0 - 3.0 * MIN_WEIGHT) + MIN_WEIGHT
    while len(corners):
        weights = np.vstack([corners.mean(axis=0), corners])
        lead = weights @ ahead.T
        best = int(lead.max(axis=1).argmin())
        # The cut is made at the tolerance, so a point that was used once stays within twice of it.
        if lead[best].max() <= 2.0 * TOLERANCE:
            return weights[best]
        worst = int(lead[0].argmax()) if lead[0].max() > TOLERANCE else 0
        corners = _cut(corners, lead[1:, worst] - TOLERANCE)
    return None


def _cut(corners: Floats, over: Floats) -> Floats:
    """Intersect a convex polygon with the half-plane where a linear function is at most 0.

    Parameters
    ----------
    corners : (v, 3) in order
    over : (v,) values of the function at the corners
    """
    kept: list[Floats] = []
    for i in range(len(corners)):
        before, here = over[i - 1], over[i]
        if (before > 0.0) != (here > 0.0):
            share = before / (before - here)
            kept.append(corners[i - 1] + share * (corners[i] - corners[i - 1]))
        if here <= 0.0:
            kept.append(corners[i])
    return np.array(kept).reshape(len(kept), 3)
