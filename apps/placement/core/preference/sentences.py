"""Descriptions of derived weights, and warnings about them, as sentences for the UI."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.preference.weights import MIN_PICKS, SPREAD_FLOOR, Weights

OBJECTIVE_NAMES: Final = {"P": "power", "D": "diversity", "C": "crossing traffic"}
INFLUENCE_LIMIT: Final = 0.30  # max change of a weight without one pick
_MAX_BETTER: Final = 0.75  # share of the front better than the median pick; 0.5 by chance

Influence = tuple[int, Mapping[str, float], float]  # a pick, weights without it, their change


def sentence(rule: str, weights: Weights) -> str:
    """Describe the weights and the reason for them."""
    order = sorted(weights.weights, key=lambda name: -weights.weights[name])
    order = [name for name in order if name not in weights.idle]
    if rule == "direct":
        return _direct_sentence(weights, order)
    if not order:
        return "All objectives are constant on this front, so the weights have no effect."
    if len(order) == 1:
        name = OBJECTIVE_NAMES[order[0]]
        return f"Only {name} differs on this front, so the weights have no effect."
    first, last = order[0], order[-1]
    if weights.weights[last] == 1.0:
        cause = "Your picks agree equally on" if rule == "spread" else "You want the best of"
        return f"{cause} all objectives, so the weights are equal."
    ratio = f"so {_ratio(weights, first, last)}"
    near, far = (f"{weights.spread[name]:.3f}" for name in (first, last))
    if rule == "spread":
        return (
            f"Your picks agree on {OBJECTIVE_NAMES[first]} (sd {near}) and differ on"
            f" {OBJECTIVE_NAMES[last]} (sd {far}), {ratio}."
        )
    return (
        f"You want {OBJECTIVE_NAMES[first]} within {near} and {OBJECTIVE_NAMES[last]} within"
        f" {far} of the best, {ratio}."
    )


def _direct_sentence(weights: Weights, order: Sequence[str]) -> str:
    first, *others = order
    ratios = [
        f"{weights.weights[first] / weights.weights[name]:.1f} × {OBJECTIVE_NAMES[name]}"
        for name in others
        if weights.weights[name] > 0.0
    ]
    if not ratios:
        return f"Only {OBJECTIVE_NAMES[first]} counts."
    sentence = f"{OBJECTIVE_NAMES[first].capitalize()} counts {' and '.join(ratios)}"
    ignored = [OBJECTIVE_NAMES[name] for name in others if weights.weights[name] == 0.0]
    return f"{sentence}; {ignored[0]} does not count." if ignored else f"{sentence}."


def _ratio(weights: Weights, first: str, last: str) -> str:
    ratio = weights.weights[first] / weights.weights[last]
    return f"{OBJECTIVE_NAMES[first]} counts {ratio:.1f} × {OBJECTIVE_NAMES[last]}"


def pick_warnings(
    weights: Weights, pick_counts: Mapping[str, int], influence: Influence | None
) -> Iterator[str]:
    """Warn about missing, almost equal and dominating picks and about idle objectives.

    Parameters
    ----------
    pick_counts : number of picks by screen; empty if the weights do not depend on picks
    influence : the pick with the largest influence
    """
    short = [f"{screen} has {count}" for screen, count in pick_counts.items() if count < MIN_PICKS]
    if short:
        yield f"Accept at least {MIN_PICKS} placements on each screen: {', '.join(short)}."
    active = [name for name in weights.weights if name not in weights.idle]
    if pick_counts and active and len(weights.floored) == len(active):
        yield "Your picks are almost equal: they do not show which objective matters more."
    elif weights.floored:
        names = " and ".join(OBJECTIVE_NAMES[name] for name in weights.floored)
        cause = "Your picks agree on" if pick_counts else "You want"
        end = "" if pick_counts else " of the best"
        yield (
            f"{cause} {names} to within {SPREAD_FLOOR:g} of the scale{end}: smaller distances"
            f" count as {SPREAD_FLOOR:g}, so that the weight stays finite."
        )
    for name in weights.idle:
        objective = OBJECTIVE_NAMES[name].capitalize()
        yield f"{objective} is constant on this front: its weight has no effect."
    if influence is not None and influence[2] > INFLUENCE_LIMIT:
        point, others, change = influence
        changed = max(others, key=lambda name: abs(others[name] - weights.weights[name]))
        yield (
            f"Placement {point} has a large influence: without it, the weight of"
            f" {OBJECTIVE_NAMES[changed]} changes by {change:.2f} (limit {INFLUENCE_LIMIT:.2f})."
        )


def contradictions(values: Floats, chosen: Ints, rejected: Sequence[int]) -> Iterator[str]:
    """Warn if the weights prefer placements that were not accepted.

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
        noun, verb = ("placements", "are") if len(better) > 1 else ("placement", "is")
        yield (
            f"With these weights, the rejected {noun} {names} {verb} better than all accepted"
            " ones."
        )
    share = float((values < np.median(values[chosen])).mean())
    if share > _MAX_BETTER:
        yield (
            f"With these weights, {100 * share:.0f} % of the front is better than the median of"
            " your picks: the weights contradict your picks."
        )
