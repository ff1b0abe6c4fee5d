"""What changed in a plan since it was proposed, as JSON and as sentences.

An entry of ``Plan.changes`` has the keys ``bundle``, ``change`` ("dropped" or "rewritten"),
``reason``, ``purpose``, ``about``, ``gain`` (of F, before the change) and ``cluster_seconds``;
there is one entry, the last, for each bundle.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from apps.placement.core.rebalancing.verdicts import reduction

DROPPED: Final = "dropped"
REWRITTEN: Final = "rewritten"
MIN_GAIN_LEFT: Final = 0.25  # of the proposed gain; a plan with less is superseded
_NO_GAIN: Final = 1e-9


def gain_left(proposed: Mapping[str, Any], predicted: Mapping[str, Any]) -> float | None:
    """Share of the proposed decrease of F that is left; None if no decrease was proposed."""
    then = reduction(proposed, "F")
    return reduction(predicted, "F") / then if then > _NO_GAIN else None


def too_little_gain(
    proposed: Mapping[str, Any], predicted: Mapping[str, Any], *, least_gain: float
) -> str:
    """Explain that too little of the proposed gain is left; "" if enough is."""
    share = gain_left(proposed, predicted)
    then, now = reduction(proposed, "F"), reduction(predicted, "F")
    if share is None or (share >= MIN_GAIN_LEFT and now >= min(least_gain, then)):
        return ""
    left = f"only {max(100.0 * share, 0.0):.0f} %" if share > 0.0 else "nothing"
    text = f"{left} of its predicted gain is left (F lower by {now:.2g} instead of {then:.2g})"
    if share < MIN_GAIN_LEFT:
        return f"{text}; the minimum is {100 * MIN_GAIN_LEFT:.0f} %."
    return f"{text}; the minimum gain of a plan is {least_gain:.2g}."


def merged(
    before: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return one entry for each changed bundle, the latest, in the order of the bundles."""
    by_bundle = {entry["bundle"]: dict(entry) for entry in (*before, *new)}
    return [by_bundle[bundle] for bundle in sorted(by_bundle)]


def difference(
    proposed: Mapping[str, Any],
    predicted: Mapping[str, Any],
    changes: Sequence[Mapping[str, Any]],
) -> str:
    """Compare a plan with its proposal in one sentence."""
    counts = {
        kind: sum(entry["change"] == kind for entry in changes) for kind in (DROPPED, REWRITTEN)
    }
    of = proposed.get("bundles", 0)
    parts = [f"{count} of {of} bundles {kind}" for kind, count in counts.items() if count]
    parts = [" and ".join(parts)] if parts else ["no bundle changed"]
    share = gain_left(proposed, predicted)
    if share is not None:
        parts.append(f"{100.0 * share:.0f} % of the proposed gain is left")
    watts = [reduction(side, "watts") for side in (proposed, predicted)]
    if max(map(abs, watts)) >= 0.5:
        parts.append(f"saves {watts[1]:,.0f} W instead of {watts[0]:,.0f} W")
    sentence = "; ".join(parts)
    return f"{sentence[0].upper()}{sentence[1:]}.".replace("-", "−")
