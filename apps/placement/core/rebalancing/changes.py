"""What changed in a plan since it was proposed, as JSON and as sentences.

An entry of ``Plan.changes`` has the keys ``bundle``, ``change`` ("dropped" or "rewritten"),
``reason``, ``purpose``, ``about``, ``gain`` (of F, before the change) and ``cluster_seconds``;
there is one entry, the last, for each bundle.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from apps.placement.core.rebalancing.verdicts import MIN_CHANGE, reduction

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
        parts.append(f"{_share(share)} of the proposed gain is left")
    then, now = (reduction(side, "watts") for side in (proposed, predicted))
    if max(abs(then), abs(now)) >= MIN_CHANGE["watts"]:
        parts.append(_power(now, then))
    sentence = "; ".join(parts)
    return f"{sentence[0].upper()}{sentence[1:]}."


def _share(share: float) -> str:
    """Format a share, with a minus sign if the gain became a loss."""
    return f"{100.0 * share:.0f} %".replace("-", "−")


def _power(now: float, then: float) -> str:
    """Compare two savings in watts; a negative one is described as a use of more."""
    uses_more, used_more = (watts <= -MIN_CHANGE["watts"] for watts in (now, then))
    amounts = [f"{watts:,.0f} W" for watts in (abs(now), abs(then))]
    if uses_more == used_more:
        return " ".join(
            ["uses", amounts[0], "more instead of", amounts[1], "more"]
            if uses_more
            else ["saves", amounts[0], "instead of", amounts[1]]
        )
    if uses_more:
        return f"uses {amounts[0]} more instead of saving {amounts[1]}"
    return f"saves {amounts[0]} instead of using {amounts[1]} more"
