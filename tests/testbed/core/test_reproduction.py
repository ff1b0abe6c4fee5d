"""Figures of papers beside ours: what counts as agreement."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from apps.testbed.core.google_tasks import GoogleTasks
from apps.testbed.core.reproduction import PAPERS, clavismo
from apps.testbed.core.reproduction.clavismo import CLAVISMO
from apps.testbed.core.reproduction.figures import (
    DataSets,
    Figure,
    Measured,
    Outcome,
    Paper,
    Quantity,
    Relation,
    ReproductionError,
    measured,
    report,
)
from apps.testbed.core.reservation.model import Scheduler
from apps.testbed.core.scenarios import SCENARIOS, PlacementScenario, run_scenario
from apps.testbed.core.traces import SwimTrace

SIXTY = Quantity("x", "gain", "%", 60.0)


def outcome(quantity: Quantity, *values: float) -> Outcome:
    return Measured(quantity, values).outcome


def test_a_value_agrees_if_the_interval_over_seeds_contains_it() -> None:
    assert outcome(SIXTY, 58.0, 61.0, 62.0) is Outcome.AGREES
    assert outcome(SIXTY, 50.0, 51.0, 52.0) is Outcome.DIFFERS


def test_a_value_agrees_up_to_the_last_digit_that_the_paper_gives() -> None:
    rounded = Quantity("x", "energy", "kWh", 6.0, rounding=0.5)
    assert outcome(rounded, 6.4, 6.4) is Outcome.AGREES
    assert outcome(rounded, 6.6, 6.6) is Outcome.DIFFERS


@pytest.mark.parametrize(
    ("relation", "values", "expected"),
    [
        (Relation.AT_LEAST, (70.0, 71.0), Outcome.AGREES),
        (Relation.AT_LEAST, (55.0, 70.0), Outcome.DIFFERS),
        (Relation.AT_MOST, (50.0, 51.0), Outcome.AGREES),
        (Relation.AT_MOST, (50.0, 75.0), Outcome.DIFFERS),
        (Relation.NOT_STATED, (60.0, 60.0), Outcome.NOT_STATED),
    ],
)
def test_a_bound_must_hold_for_the_whole_interval(
    relation: Relation, values: tuple[float, ...], expected: Outcome
) -> None:
    assert outcome(Quantity("x", "gain", "%", 60.0, relation), *values) is expected


def test_an_input_is_never_agreement() -> None:
    taken = Quantity("x", "gain", "%", 60.0, is_input=True)
    assert outcome(taken, 60.0, 60.0) is Outcome.INPUT


def test_one_seed_has_no_interval() -> None:
    assert Measured(SIXTY, (60.0,)).interval is None
    assert Measured(SIXTY, (60.0,)).outcome is Outcome.AGREES


def test_the_interval_is_that_of_student() -> None:
    low, high = Measured(SIXTY, (1.0, 2.0, 3.0)).interval or (0.0, 0.0)
    assert (low, high) == pytest.approx((2.0 - 2.919986 / 3**0.5, 2.0 + 2.919986 / 3**0.5))


def test_the_same_value_of_all_seeds_has_no_interval() -> None:
    same = Measured(SIXTY, (60.0, 60.0, 60.0))
    assert same.is_same
    assert same.interval is None
    assert same.outcome is Outcome.AGREES
    assert same.as_json()["is_same"]
    assert not Measured(SIXTY, (60.0,)).is_same


@pytest.mark.parametrize("figure", CLAVISMO.figures, ids=lambda figure: figure.number)
def test_a_figure_of_clavismo_says_whether_its_jobs_are_fixed(figure: Figure) -> None:
    name = {"9": "parapluie", "13": "india", "14": "facebook600", "15": "facebook3000"}
    scenario = SCENARIOS[name[figure.number]]
    assert bool(figure.note) == (scenario.trace is None)
    if figure.note:
        assert repr(scenario.day(None, 1)) == repr(scenario.day(None, 2))


class NoData:
    """Data sets that are not needed."""

    def swim(self, file: str) -> None:
        raise AssertionError(file)

    def google_hour(self) -> None:
        raise AssertionError


def _twice(seed: int, _data: DataSets) -> Mapping[str, float]:
    return {"x": 2.0 * seed}


def test_a_report_has_every_quantity_and_names_what_was_not_measured() -> None:
    quick = Figure("1", "quick", (SIXTY,), _twice)
    paper = Paper("p", "someone", (quick, Figure("2", "long", (SIXTY,), _twice, is_long=True)))
    assert paper.chosen(None) == (quick,)
    rows = {"1": measured(quick, [29, 31], NoData())}  # type: ignore[arg-type]  # never asked
    document = report(paper, [29, 31], rows)
    (figure,) = document["figures"]
    (row,) = figure["quantities"]
    assert (row["paper"], row["ours"], row["outcome"]) == (60.0, 60.0, "agrees")
    assert row["interval"][0] < 60.0 < row["interval"][1]
    assert document["not_measured"] == ["2"]


def test_an_unknown_figure_is_refused_with_those_that_exist() -> None:
    with pytest.raises(
        ReproductionError, match=r"clavismo has the figures 9, 13, 14, 15, not '7'"
    ):
        PAPERS["clavismo"].chosen("7")


@pytest.mark.parametrize("name", sorted(PAPERS))
def test_numbers_and_keys_of_a_paper_are_unique(name: str) -> None:
    figures = PAPERS[name].figures
    assert len({figure.number for figure in figures}) == len(figures)
    for figure in figures:
        assert len({each.key for each in figure.quantities}) == len(figure.quantities)


def test_every_slowdown_taken_from_clavismo_is_marked_as_input() -> None:
    rows = {
        (figure.number, each.key): each
        for figure in PAPERS["clavismo"].figures
        for each in figure.quantities
    }
    taken = [("9", "fastest"), ("9", "expert_j"), ("13", "T"), ("13", "W"), ("13", "X")]
    assert all(rows[each].is_input and rows[each].why for each in taken)


def test_the_message_time_is_the_one_that_the_thesis_section_names() -> None:
    (delay,) = PAPERS["thesis"].chosen("4.7")[0].quantities
    assert f"{1e3 * Scheduler().network_s:g} ms" in delay.why


class SmallTraces:
    """A day of 60 jobs, whatever the file."""

    def swim(self, file: str) -> SwimTrace:
        one = np.ones(60)
        return SwimTrace(file, 60.0 * np.arange(60.0), 1e9 * one, 0.0 * one, 1e8 * one)

    def google_hour(self) -> GoogleTasks:
        raise AssertionError


@pytest.mark.parametrize(
    ("number", "racks", "jobs"), [("14", 3, 12), ("15", 3, 3)], ids=["600 nodes", "3,000 nodes"]
)
def test_a_reduced_facebook_day_has_the_same_share_of_jobs_and_racks(
    number: str, racks: int, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []

    def run(scenario: PlacementScenario, policy: str, *, seed: int, trace: SwimTrace) -> Any:
        seen.append((scenario.racks, len(trace)))
        return run_scenario(scenario, "SlotRR", seed=seed, trace=trace)

    monkeypatch.setattr(clavismo, "run_scenario", run)
    (figure,) = CLAVISMO.reduced().chosen(number)
    values = {each.quantity.key: each.mean for each in measured(figure, [1], SmallTraces())}
    assert seen == [(racks, jobs)] * 3  # baseline, Dot-Product, Berth
    assert values == {"dot_time": 0.0, "dot_energy": 0.0, "berth_time": 0.0, "berth_energy": 0.0}
    assert not figure.is_long
