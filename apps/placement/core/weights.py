"""Weights of the objectives, from the placements an administrator accepts.

m picked placements of a front of k, o objectives. Source: ClavisMO §3.1, C5: "each weight is
inversely proportional to the standard deviation of its goal spread [...]: the more spread out the
goal is, the less important its value". Only ratios matter to the solver, so the largest is 1.

Three things the paper leaves open, and what holds here: a placement picked on several screens
counts once; a spread below `FLOOR` counts as `FLOOR`, so that no weight is infinite and picks that
agree to the last digit weigh as those that agree to one per cent of the scale; an objective that
is the same all over the front weighs 1 and says nothing of the others.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.objectives import BUILT_IN, Objective

FLOOR: Final = 0.01  # of a normalised objective
FEWEST: Final = 3  # picks on each screen
OBJECTIVES: Final = ("P", "D", "C")
SCREENS: Final = (("P", "D"), ("P", "C"), ("D", "C"))

Screen = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights by objective, the largest 1, and what they were made of.

    Attributes
    ----------
    weights : by objective, in [0, 1]
    spread : by objective: standard deviation over the picks, or distance to the best of the
        front; empty for weights given directly
    floored : objectives whose spread was below `FLOOR`
    idle : objectives that are the same all over the front
    """

    weights: Mapping[str, float]
    spread: Mapping[str, float]
    floored: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()


def picked(picks: Mapping[Screen, Collection[int]], points: int) -> Ints:
    """(m,) the placements picked, each once, in ascending order.

    Parameters
    ----------
    picks : indices into the front, by screen; one picked twice on a screen counts once
    points : of the front

    Raises
    ------
    ValueError : a screen there is not, one with fewer than `FEWEST` picks, a pick off the front.
    """
    unknown = [screen for screen in picks if screen not in SCREENS]
    if unknown:
        raise ValueError(f"there is no screen {'-'.join(unknown[0])}: there are {_listed()}")
    chosen = {screen: set(picks.get(screen, ())) for screen in SCREENS}
    for screen, held in chosen.items():
        off = sorted(pick for pick in held if not 0 <= pick < points)
        if off:
            name = "-".join(screen)
            raise ValueError(f"pick {off[0]} on {name} is not among the front's {points} points")
    short = [
        f"{'-'.join(screen)} has {len(held)}"
        for screen, held in chosen.items()
        if len(held) < FEWEST
    ]
    if short:
        raise ValueError(
            f"pick at least {FEWEST} different placements on each screen: {', '.join(short)}"
        )
    distinct: Ints = np.array(sorted(set().union(*chosen.values())), dtype=np.int64)
    return distinct


def by_spread(front: Floats, chosen: Ints, names: Sequence[str] = OBJECTIVES) -> Weights:
    """Weigh each objective by 1/(standard deviation over the picks).

    Parameters
    ----------
    front : (k, o) normalised values
    chosen : (m,) indices of the picks, all different, m >= `FEWEST`

    Raises
    ------
    ValueError : fewer picks, or values that are not finite.
    """
    _check(front, names)
    if chosen.size < FEWEST:
        raise ValueError(f"pick at least {FEWEST} different placements, not {chosen.size}")
    spread: Floats = front[chosen].std(axis=0, ddof=1)
    return _inverse(spread, _is_idle(front), names)


def leave_one_out(front: Floats, chosen: Ints, names: Sequence[str] = OBJECTIVES) -> Floats:
    """(m, o) weights that would hold without each pick; shows whether a single one decides.

    Raises
    ------
    ValueError : fewer than `FEWEST` picks would be left.
    """
    without = [by_spread(front, np.delete(chosen, i), names) for i in range(chosen.size)]
    return np.array([[each.weights[name] for name in names] for each in without])


def by_reference(
    front: Floats,
    wanted: Mapping[str, float],
    names: Sequence[str] = OBJECTIVES,
    objectives: Mapping[str, Objective] = BUILT_IN,
) -> Weights:
    """Weigh each objective by 1/distance between what is wanted and the best of the front.

    The closer to the best an objective is wanted, the more it weighs; what is wanted beyond the
    best is wanted at the best. Source: the weights of Wierzbicki's (1980) achievement function.

    Parameters
    ----------
    front : (k, o) normalised values, k >= 1
    wanted : normalised value of every objective

    Raises
    ------
    ValueError : an objective that is missing or unknown, a value that is not finite, no front.
    """
    _check(front, names)
    _check_names(wanted, names)
    target = np.array([wanted[name] for name in names])
    if not np.isfinite(target).all():
        raise ValueError(f"wanted must be finite, not {dict(wanted)}")
    if not front.size:
        raise ValueError("front has no points: there is no best to compare with")
    sign = np.array([-1.0 if objectives[name].is_higher_better else 1.0 for name in names])
    best = (front * sign).min(axis=0)
    return _inverse(np.maximum(target * sign - best, 0.0), _is_idle(front), names)


def direct(weights: Mapping[str, float], names: Sequence[str] = OBJECTIVES) -> Weights:
    """Scale weights given as such so that the largest is 1.

    Raises
    ------
    ValueError : an objective that is missing or unknown, a weight that is negative or not finite,
        or nothing but zeros.
    """
    _check_names(weights, names)
    for name, weight in weights.items():
        if not np.isfinite(weight) or weight < 0.0:
            raise ValueError(f"weight of {name} must be finite and at least 0, not {weight}")
    largest = max(weights.values())
    if largest == 0.0:
        raise ValueError("at least one weight must be above 0")
    return Weights(_named(names, [weights[name] / largest for name in names]), _named([], []))


def _inverse(spread: Floats, is_idle: Bools, names: Sequence[str]) -> Weights:
    inverse = 1.0 / np.maximum(spread, FLOOR)
    largest = inverse[~is_idle].max(initial=0.0)
    weights = np.where(is_idle, 1.0, inverse / largest if largest > 0.0 else 1.0)
    is_floored = (spread < FLOOR) & ~is_idle
    return Weights(
        _named(names, weights.tolist()),
        _named(names, spread.tolist()),
        tuple(name for name, low in zip(names, is_floored, strict=True) if low),
        tuple(name for name, low in zip(names, is_idle, strict=True) if low),
    )


def _is_idle(front: Floats) -> Bools:
    is_idle: Bools = front.max(axis=0) == front.min(axis=0)
    return is_idle


def _named(names: Sequence[str], values: Sequence[float]) -> Mapping[str, float]:
    return MappingProxyType(dict(zip(names, values, strict=True)))


def _check(front: Floats, names: Sequence[str]) -> None:
    if front.ndim != 2 or front.shape[1] != len(names):
        raise ValueError(f"front must have {len(names)} columns, not the shape {front.shape}")
    if not np.isfinite(front).all():
        raise ValueError("front must be finite")


def _check_names(given: Mapping[str, float], names: Sequence[str]) -> None:
    unknown, missing = sorted(given.keys() - set(names)), [n for n in names if n not in given]
    if unknown:
        raise ValueError(f"there is no objective {unknown[0]!r}: there are {', '.join(names)}")
    if missing:
        raise ValueError(f"{missing[0]} is missing")


def _listed() -> str:
    return ", ".join("-".join(screen) for screen in SCREENS)
