"""Which placements of a front some weighted sum returns, and which none does.

A weighted sum only finds points on the lower convex hull of the losses; what lies in a dent is as
good as any other placement in the eyes of Pareto, and yet no weights lead to it. Source: Das and
Dennis (1997), "A closer look at drawbacks of minimizing weighted sums of objectives".

k points. Weights are points of a triangle (w >= `LEAST`, Σw = 1: with nothing but a weight of 0 on
what tells two placements apart, either may be returned). Each other point leaves of it the half
where it is no better than the one asked about; what is left, if anything, are the weights that
return that one. The triangle is cut by the point that beats it most at the middle of what is left,
so that each cut takes away at least four ninths (Grünbaum 1960): some thirty cuts decide.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Floats

LEAST: Final = 1e-4
TOLERANCE: Final = 1e-9  # of a loss, that another may be better by: losses are rounded to 2⁻³⁰


def unsupported(losses: Floats, points: Sequence[int]) -> list[int]:
    """Return those of some points that no weights return, in the order given.

    Parameters
    ----------
    losses : (k, 3) what is minimised
    points : indices
    """
    return [point for point in points if supporting(losses, point) is None]


def supporting(losses: Floats, point: int) -> Floats | None:
    """(3,) weights, sum 1, under which no point is better than this one; None where none are.

    O(k) a cut, some thirty cuts.
    """
    ahead = losses[point] - losses  # (k, 3): w·ahead > 0 where another is better under w
    corners: Floats = np.eye(3) * (1.0 - 3.0 * LEAST) + LEAST
    while len(corners):
        tried = np.vstack([corners.mean(axis=0), corners])
        beaten = tried @ ahead.T
        best = int(beaten.max(axis=1).argmin())
        # cut at the tolerance, so that what was cut once is within twice of it for good
        if beaten[best].max() <= 2.0 * TOLERANCE:
            return tried[best]
        worst = int(beaten[0].argmax()) if beaten[0].max() > TOLERANCE else 0
        corners = _cut(corners, beaten[1:, worst] - TOLERANCE)
    return None


def _cut(corners: Floats, over: Floats) -> Floats:
    """Keep the part of a convex polygon where a linear function is at most 0.

    Parameters
    ----------
    corners : (v, 3) in order
    over : (v,) the function there
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
