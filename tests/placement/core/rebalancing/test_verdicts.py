"""Verdicts on plans: realised against predicted effect, as a sentence."""

from collections.abc import Mapping
from typing import Any

from apps.placement.core.rebalancing.verdicts import FinishedPlan, verdict


def ended(before: Mapping[str, float], after: Mapping[str, float], **values: Any) -> FinishedPlan:
    prediction = {
        "before": {"watts": 4200.0, "diversity": 3.0, "crossing": 6, "F": 0.5},
        "after": {"watts": 0.0, "diversity": 4.5, "crossing": 2, "F": 0.4},
    }
    defaults = {"predicted": prediction, "done": 36, "asked": 37}
    return FinishedPlan(realised={"before": before, "after": after}, **{**defaults, **values})


def test_the_verdict_names_each_objective_predicted_to_change() -> None:
    before = {"watts": 9000.0, "diversity": 2.0, "crossing": 5, "F": 0.6}
    after = {"watts": 5100.0, "diversity": 3.4, "crossing": 2, "F": 0.51}
    assert verdict(ended(before, after)) == (
        "90 % of the predicted gain; power: saved 3.9 of the predicted 4.2 kW; "
        "diversity: +1.40 of the predicted +1.50; "
        "crossing traffic: 3 of 4 containers reunited with their job; 36 of 37 migrations done."
    )


def test_a_verdict_marks_losses_with_a_minus() -> None:
    before = {"watts": 100.0, "diversity": 3.0, "crossing": 2, "F": 0.5}
    after = {"watts": 150.0, "diversity": 2.0, "crossing": 3, "F": 0.55}
    assert verdict(ended(before, after)) == (
        "−50 % of the predicted gain; power: +50 W instead of the predicted −4,200 W; "
        "diversity: −1.00 of the predicted +1.50; "
        "crossing traffic: +1 instead of the predicted −4; 36 of 37 migrations done."
    )


def test_predicted_extra_power_is_reported_as_a_cost() -> None:
    prediction = {"before": {"watts": 100.0, "F": 0.4}, "after": {"watts": 180.0, "F": 0.5}}
    done = {"watts": 110.0, "F": 0.4}, {"watts": 180.0, "F": 0.5}
    assert verdict(ended(*done, predicted=prediction, done=2, asked=2)) == (
        "Power: uses 70 of the predicted 80 W more; 2 of 2 migrations done."
    )


def test_changes_that_round_to_zero_have_no_sign() -> None:
    before = {"watts": 4000.0, "diversity": 3.0, "crossing": 5, "F": 0.5}
    after = {"watts": 4000.4, "diversity": 3.001, "crossing": 5.2, "F": 0.5004}
    assert verdict(ended(before, after, done=3, asked=9)) == (
        "0 % of the predicted gain; power: saved 0.0 of the predicted 4.2 kW; "
        "diversity: unchanged instead of the predicted +1.50; "
        "crossing traffic: 0 of 4 containers reunited with their job; 3 of 9 migrations done."
    )
