"""Rounds of a measured pair, and the slowdowns that follow."""

import json
import math

import pytest

from apps.classification.core.estimates import Estimate
from apps.testbed.core.pairs.rounds import (
    Report,
    Round,
    holds,
    measured_slowdown,
    overlaps,
    read_report,
    round_from_json,
    summary,
)

LINE = {"counts": True, "alone": [2.0, 1.0], "together": [3.0, 1.0], "foreign": 0.01}


def text(*lines: object) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_a_report_has_the_rounds_that_count() -> None:
    found = read_report(text(LINE, {**LINE, "counts": False}, LINE) + '{"counts": tr')
    assert found == Report((Round((2.0, 1.0), (3.0, 1.0), 0.01),) * 2, rejected=1)


def test_a_report_is_complete_with_its_last_line() -> None:
    assert read_report(text(LINE, {"done": True})).is_complete
    assert not read_report(text(LINE)).is_complete


def test_a_report_says_why_it_gave_up() -> None:
    assert read_report(text({"failed": "the first command ended"})) == Report(
        failure="the first command ended", is_complete=True
    )


def test_nothing_written_is_an_empty_report() -> None:
    assert read_report("") == Report()


@pytest.mark.parametrize(
    "line",
    ["hello", "[1]", '{"counts": true}', json.dumps({**LINE, "alone": [0.0, 1.0]}),
     json.dumps({**LINE, "together": [1.0, math.inf]}), json.dumps({**LINE, "alone": [1.0]})],
    ids=["text", "list", "fields", "zero", "infinite", "one"],
)  # fmt: skip
def test_other_lines_are_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"line of|lacks|positive|unpack|enough"):
        read_report(line + "\n")


def test_a_round_is_stored_and_read() -> None:
    one = Round((2.0, 1.0), (3.0, 1.5), 0.02)
    assert round_from_json(one.as_json()) == one


def test_the_interval_is_that_of_students_t() -> None:
    rounds = [Round((1.0, 1.0), (math.exp(log), 1.0)) for log in (0.1, 0.2, 0.3)]
    value, low, high = measured_slowdown(rounds, 0)
    half = 2.919986 * 0.1 / math.sqrt(3)  # t of two degrees of freedom at 95 %
    assert (math.log(value), math.log(high)) == pytest.approx((0.2, 0.2 + half), abs=1e-6)
    assert math.log(low) == pytest.approx(0.2 - half, abs=1e-6)
    assert measured_slowdown(rounds, 1) == Estimate(1.0, 1.0, 1.0)


def test_one_round_has_no_interval() -> None:
    with pytest.raises(ValueError, match="two rounds, got 1"):
        measured_slowdown([Round((1.0, 1.0), (1.0, 1.0))], 0)


@pytest.mark.parametrize(
    ("predicted", "measured", "verdict"),
    [
        (Estimate(1.2, 1.1, 1.3), Estimate(1.25, 1.0, 1.5), (True, True)),
        (Estimate(1.2, 1.1, 1.3), Estimate(1.35, 1.25, 1.45), (False, True)),
        (Estimate(1.2, 1.1, 1.3), Estimate(1.0, 0.9, 1.05), (False, False)),
        (Estimate(1.2, 1.2, 1.2), Estimate(1.2, 1.2, 1.2), (True, True)),
        (None, Estimate(1.0, 0.9, 1.1), (None, None)),
    ],
    ids=["inside", "overlap", "apart", "equal", "unknown"],
)
def test_a_prediction_holds_if_its_interval_contains_the_measured_value(
    predicted: Estimate | None, measured: Estimate, verdict: tuple[bool | None, bool | None]
) -> None:
    assert (holds(predicted, measured), overlaps(predicted, measured)) == verdict


def test_a_summary_has_both_sides_and_all_rounds() -> None:
    rounds = [Round((1.0, 2.0), (1.5, 2.0))] * 3
    found = summary(rounds, (Estimate(1.4, 1.2, 1.6), None), rejected=2)
    assert [side["measured"]["value"] for side in found["sides"]] == pytest.approx([1.5, 1.0])
    assert [side["holds"] for side in found["sides"]] == [True, None]
    assert (len(found["rounds"]), found["rejected"]) == (3, 2)


def test_too_few_rounds_have_no_summary() -> None:
    with pytest.raises(ValueError, match="2 rounds count, and 3 are needed"):
        summary([Round((1.0, 1.0), (1.0, 1.0))] * 2, (None, None), rejected=0)
