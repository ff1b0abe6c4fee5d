"""Weights of Calibrate that the form of the Lab offers as settings."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from apps.dashboard.core.lab_matrix import weights_text
from apps.placement.core.problem.objectives import OBJECTIVES
from apps.placement.models import PreferenceSet
from apps.placement.selectors.preferences import weights_in_force
from apps.testbed.core.replay.weights import weights_problem

OFFERED: Final = 6  # newest preference sets


@dataclass(frozen=True, slots=True)
class OfferedWeights:
    """Weights of P, D and C.

    Attributes
    ----------
    name : of the preference set, or the weights themselves
    document : JSON of the weights
    note : weights in words, and whether they are in force
    """

    name: str
    document: str
    note: str
    is_chosen: bool


def offered_weights(asked: Sequence[str]) -> list[OfferedWeights]:
    """Return the weights in force, the newest preference sets, and those that are asked for.

    Parameters
    ----------
    asked : names of sets, or weights such as ``P=0.22,D=1,C=0.36``; unknown ones are left out
    """
    current = weights_in_force()
    in_force = current.preference_set.name if current else ""
    named = dict(_sets([*asked, in_force]))
    given = {text: found for text in asked if text not in named and (found := _given(text))}
    order = sorted(named, key=lambda name: (name != in_force, name not in asked))
    return [
        OfferedWeights(
            name=name if name in named else weights_text(weights),
            document=json.dumps(weights),
            note=weights_text(weights) + (", in force" if name == in_force else ""),
            is_chosen=name in asked,
        )
        for name, weights in [*((n, _replayable(named[n])) for n in order), *given.items()]
        if weights_problem(weights) is None
    ]


def _sets(names: Sequence[str]) -> Iterator[tuple[str, Mapping[str, float]]]:
    """Yield the newest sets, and those with these names."""
    rows = PreferenceSet.objects.only("name", "weights").order_by("-created_at", "-id")
    for row in [*rows[:OFFERED], *rows.filter(name__in=names)]:
        yield row.name, row.weights


def _replayable(weights: Mapping[str, float]) -> dict[str, float]:
    """Return the weights of P, D and C: a replay has no prices."""
    return {name: float(weights.get(name, 0.0)) for name in OBJECTIVES}


def _given(text: str) -> dict[str, float]:
    """Read weights such as ``P=0.22,D=1,C=0.36``; empty if they are none."""
    pairs = [part.partition("=")[::2] for part in text.split(",")]
    try:
        weights = {name.strip(): float(value) for name, value in pairs}
    except ValueError:
        return {}
    is_known = weights.keys() <= {*OBJECTIVES} and all(map(math.isfinite, weights.values()))
    return _replayable(weights) if is_known else {}
