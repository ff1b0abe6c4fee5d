"""Sentences about a plan that changed since its proposal."""

from typing import Any

import pytest

from apps.placement.core.rebalancing.changes import difference


def saving(watts: float) -> dict[str, Any]:
    return {"before": {"watts": 1000.0}, "after": {"watts": 1000.0 - watts}, "bundles": 2}


@pytest.mark.parametrize(
    ("then", "now", "sentence"),
    [
        (120.0, 80.0, "No bundle changed; saves 80 W instead of 120 W."),
        (120.0, -100.0, "No bundle changed; uses 100 W more instead of saving 120 W."),
        (-50.0, -100.0, "No bundle changed; uses 100 W more instead of 50 W more."),
        (-50.0, 100.0, "No bundle changed; saves 100 W instead of using 50 W more."),
        (120.0, -0.2, "No bundle changed; saves 0 W instead of 120 W."),
        (0.2, -0.2, "No bundle changed."),
    ],
    ids=["less", "more instead", "even more", "less instead", "nothing", "no power"],
)
def test_a_negative_saving_is_described_as_a_use_of_more(
    then: float, now: float, sentence: str
) -> None:
    assert difference(saving(then), saving(now), []) == sentence


def test_a_gain_that_became_a_loss_has_a_minus_sign() -> None:
    proposed = {"before": {"F": 1.0}, "after": {"F": 0.5}}
    predicted = {"before": {"F": 1.0}, "after": {"F": 1.2}}
    assert difference(proposed, predicted, []) == (
        "No bundle changed; −40 % of the proposed gain is left."
    )
