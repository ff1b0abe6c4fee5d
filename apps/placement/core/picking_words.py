"""What weights mean and what speaks against them, in sentences."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.weights import FEWEST, FLOOR, Weights

NAMES: Final = {"P": "power", "D": "diversity", "C": "crossing traffic"}
DECIDES: Final = 0.30  # a weight that moves by more without one pick hangs on that pick
_MIDDLE: Final = 0.75  # of the front may be better than the middle pick; chance makes it half

Hanging = tuple[int, Mapping[str, float], float]  # a pick, weights without it, their change


def sentence(rule: str, made: Weights) -> str:
    """Say what the weights say, and why."""
    order = sorted(made.weights, key=lambda name: -made.weights[name])
    order = [name for name in order if name not in made.idle]
    if rule == "direct":
        return _plainly(made, order)
    if len(order) < 2:
        told = "Only " + NAMES[order[0]] + " differs" if order else "Nothing differs"
        return f"{told} on this front, so the weights decide nothing."
    first, last = order[0], order[-1]
    if made.weights[last] == 1.0:
        what = "Your picks agree on" if rule == "spread" else "You want the best of"
        return f"{what} all objectives alike, so each counts the same."
    how_much = f"so {_times(made, first, last)}"
    near, far = (f"{made.spread[name]:.3f}" for name in (first, last))
    if rule == "spread":
        return (
            f"Your picks agree on {NAMES[first]} (sd {near}) and differ on {NAMES[last]}"
            f" (sd {far}), {how_much}."
        )
    return (
        f"You want {NAMES[first]} within {near} of the best there is and {NAMES[last]} within"
        f" {far}, {how_much}."
    )


def _plainly(made: Weights, order: Sequence[str]) -> str:
    first, *others = order
    parts = [
        f"{made.weights[first] / made.weights[name]:.1f} × {NAMES[name]}"
        for name in others
        if made.weights[name] > 0.0
    ]
    told = f"{NAMES[first].capitalize()} counts {' and '.join(parts) or 'alone'}"
    silent = [NAMES[name] for name in others if made.weights[name] == 0.0]
    return f"{told}; {' and '.join(silent)} nothing." if silent and parts else f"{told}."


def _times(made: Weights, first: str, last: str) -> str:
    ratio = made.weights[first] / made.weights[last]
    return f"{NAMES[first]} counts {ratio:.1f} × {NAMES[last]}"


def guards(made: Weights, held: Mapping[str, int], hanging: Hanging | None) -> Iterator[str]:
    """Say what is thin about the picks.

    Parameters
    ----------
    held : number of picks by screen; empty where they do not make the weights
    hanging : the pick that decides most
    """
    short = [f"{screen} has {count}" for screen, count in held.items() if count < FEWEST]
    if short:
        yield f"Accept at least {FEWEST} placements on each screen: {', '.join(short)}."
    active = [name for name in made.weights if name not in made.idle]
    if held and active and len(made.floored) == len(active):
        yield "Your picks are all but the same: they say nothing of what matters more."
    elif made.floored:
        names = " and ".join(NAMES[name] for name in made.floored)
        what = "Your picks agree on" if held else "You want"
        end = "" if held else " of the best"
        yield (
            f"{what} {names} to within {FLOOR:g} of the scale{end}: closer than that counts as"
            f" {FLOOR:g}, or the weight would have no bounds."
        )
    for name in made.idle:
        what = NAMES[name].capitalize()
        yield f"{what} is the same all over this front: its weight says nothing."
    if hanging is not None and hanging[2] > DECIDES:
        point, weights, change = hanging
        moved = max(weights, key=lambda name: abs(weights[name] - made.weights[name]))
        yield (
            f"Placement {point} decides much: without it the weight of {NAMES[moved]} moves by"
            f" {change:.2f}, limit {DECIDES:.2f}."
        )


def contradictions(values: Floats, chosen: Ints, rejected: Sequence[int]) -> Iterator[str]:
    """Say where the weights prefer what was not accepted.

    Parameters
    ----------
    values : (k,) weighted sum of each point of the front, lower is better
    chosen : (m,) the picks
    """
    if not chosen.size:
        return
    best = values[chosen].min()
    better = [point for point in rejected if values[point] < best]
    if better:
        names = ", ".join(map(str, better))
        many = len(better) > 1
        yield (
            f"Under these weights the rejected placement{'s' if many else ''} {names}"
            f" {'are' if many else 'is'} better than all you accepted."
        )
    share = float((values < np.median(values[chosen])).mean())
    if share > _MIDDLE:
        yield (
            f"Under these weights {100 * share:.0f} % of the front is better than the middle one"
            " of your picks: they contradict what you accepted."
        )
