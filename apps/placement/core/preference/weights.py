"""Weights of the objectives, derived from the placements an administrator accepts.

m picks from a front of k placements, o objectives. Source: ClavisMO §3.1, C5: "each weight is
inversely proportional to the standard deviation of its goal spread [...]: the more spread out the
goal is, the less important its value". Only ratios matter to the solver, so the largest is 1.

Ours, where the paper is silent: a placement picked on several screens counts once; a spread below
`SPREAD_FLOOR` counts as `SPREAD_FLOOR`, so that every weight is finite; an objective that is
constant on the front has weight 1 and is ignored when the others are scaled.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.problem.objectives import BUILT_IN, OBJECTIVES, Objective

SPREAD_FLOOR: Final = 0.01  # of a normalised objective
MIN_PICKS: Final = 3  # picks on each screen
SCREENS: Final = (("P", "D"), ("P", "C"), ("D", "C"))


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights by objective, the largest 1, and the spreads they were derived from.

    Attributes
    ----------
    weights : by objective, in [0, 1]
    spread : by objective: standard deviation over the picks, or distance to the best value on
        the front; empty for direct weights
    floored : objectives whose spread was below `SPREAD_FLOOR`
    idle : objectives that are constant on the front
    """

    weights: Mapping[str, float]
    spread: Mapping[str, float]
    floored: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()


def by_spread(front: Floats, chosen: Ints, names: Sequence[str] = OBJECTIVES) -> Weights:
    """Weigh each objective by 1/(standard deviation over the picks).

    Parameters
    ----------
    front : (k, o) normalised values
    chosen : (m,) indices of the picks, all different, m >= `MIN_PICKS`

    Raises
    ------
    ValueError : fewer picks, or values that are not finite.
    """
    _check(front, names)
    if chosen.size < MIN_PICKS:
        raise ValueError(f"pick at least {MIN_PICKS} different placements, not {chosen.size}")
    spread: Floats = front[chosen].std(axis=0, ddof=1)
    return _inverse(spread, _is_idle(front), names)


def leave_one_out(front: Floats, chosen: Ints, names: Sequence[str] = OBJECTIVES) -> Floats:
    """(m, o) weights derived without each of the picks.

    Raises
    ------
    ValueError : fewer than `MIN_PICKS` picks would be left.
    """
    without = [by_spread(front, np.delete(chosen, i), names) for i in range(chosen.size)]
    return np.array([[each.weights[name] for name in names] for each in without])


def by_reference(
    front: Floats,
    target: Mapping[str, float],
    names: Sequence[str] = OBJECTIVES,
    objectives: Mapping[str, Objective] = BUILT_IN,
) -> Weights:
    """Weigh each objective by 1/(distance of the target to the best value on the front).

    A target closer to the best value gives a larger weight; a target beyond it counts as the best
    value. Source: the weights of Wierzbicki's (1980) achievement function.

    Parameters
    ----------
    front : (k, o) normalised values, k >= 1
    target : normalised value of every objective

    Raises
    ------
    ValueError : a missing or unknown objective, a non-finite value, or an empty front.
    """
    _check(front, names)
    _check_names(target, names)
    values = np.array([target[name] for name in names])
    if not np.isfinite(values).all():
        raise ValueError(f"target must be finite, not {dict(target)}")
    if not front.size:
        raise ValueError("front must have at least one point")
    sign = np.array([-1.0 if objectives[name].is_higher_better else 1.0 for name in names])
    best = (front * sign).min(axis=0)
    return _inverse(np.maximum(values * sign - best, 0.0), _is_idle(front), names)


def direct(weights: Mapping[str, float], names: Sequence[str] = OBJECTIVES) -> Weights:
    """Scale direct weights so that the largest is 1.

    Raises
    ------
    ValueError : a missing or unknown objective, a negative or non-finite weight, or only zeros.
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
    inverse = 1.0 / np.maximum(spread, SPREAD_FLOOR)
    largest = inverse[~is_idle].max(initial=0.0)
    weights = np.where(is_idle, 1.0, inverse / largest if largest > 0.0 else 1.0)
    is_floored = (spread < SPREAD_FLOOR) & ~is_idle
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
