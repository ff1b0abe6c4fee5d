"""What the solver returns under derived weights, beside what was accepted.

m picks, k points of the front; values are normalised P, D, C. Source: product risk 1 of weights
from spread: a tight cluster of picks leads to an optimum beside it more often than into it, so the
optimum is always shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Floats
from apps.placement.core.front import OBJECTIVES, losses
from apps.placement.core.picking_words import NAMES
from apps.placement.core.support import unsupported

TOLERANCE: Final = 1e-9


class Position(StrEnum):
    """Where an answer is, seen from the picks."""

    INSIDE = "inside"  # within their range in everything
    BETTER = "better"  # beyond it somewhere, and nowhere worse
    OUTSIDE = "outside"  # worse than all of them somewhere


@dataclass(frozen=True, slots=True)
class Check:
    """How an answer lies to the picks.

    Attributes
    ----------
    position, distance : to the picks' range and centre; None where nothing was picked or wanted
    nearest : the point of the front that is nearest to the answer
    unreachable : picks that no weights return
    """

    position: Position | None
    distance: float | None
    nearest: int
    unreachable: list[int]
    sentence: str


def compare(star: Floats, front: Floats, picks: Sequence[int], wanted: Floats | None) -> Check:
    """Compare the solver's answer with the picks, or with what is wanted where there are none.

    Parameters
    ----------
    star : (3,) its values
    front : (k, 3) values, k >= 1
    wanted : (3,) values
    """
    held = front[list(picks)] if picks else np.empty((0, 3))
    if not picks and wanted is not None:
        held = wanted[None, :]
    nearest = int(((front - star) ** 2).sum(axis=1).argmin())
    unreachable = unsupported(losses(front), picks)
    if not len(held):
        told = "Nothing was accepted that the solver's own answer could be compared with."
        return Check(None, None, nearest, unreachable, told)
    distance = float(np.linalg.norm(star - held.mean(axis=0)))
    mine, theirs = losses(star[None, :])[0], losses(held)
    is_worse = mine > theirs.max(axis=0) + TOLERANCE
    is_better = mine < theirs.min(axis=0) - TOLERANCE
    position = (
        Position.OUTSIDE
        if is_worse.any()
        else Position.BETTER
        if is_better.any()
        else Position.INSIDE
    )
    what = "your picks" if picks else "what you want"
    told = f"{_words(is_worse, is_better, what)}, {distance:.2f} from {_centre(len(held))}."
    return Check(position, distance, nearest, unreachable, told)


def _words(is_worse: Floats, is_better: Floats, what: str) -> str:
    parts = [
        f"{word} than {what} on {' and '.join(names)}"
        for word, flags in (("worse", is_worse), ("better", is_better))
        if (names := [NAMES[o] for o, flag in zip(OBJECTIVES, flags, strict=True) if flag])
    ]
    said = " and ".join(parts) or f"within the range of {what} in everything"
    return f"The solver's own answer is {said}"


def _centre(held: int) -> str:
    return "their centre" if held > 1 else "it"
