"""Planted causes: the first suspect is the cause."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apps.execution.core.diagnosis.attribution import Kind, Reference
from apps.execution.core.diagnosis.case import Case, Stall, Wait
from apps.execution.core.diagnosis.diagnose import Finding, diagnose
from apps.execution.core.diagnosis.dips import dips
from apps.execution.core.diagnosis.suspects import Names, compared, span
from apps.execution.core.diagnosis.text import headline
from tests.execution.diagnosis.cases import (
    AT,
    DIP_S,
    HERE,
    THERE,
    case,
    dropped,
    holding,
    noisy,
    vector,
)

NAMES = Names({"loud": "shuffle-88", "calm": "etl-40"}, {HERE: "srv-0212", THERE: "srv-0141"})
LOUD = vector(llc_bandwidth=90.0)  # eight units: 72 points; 22 above the tolerance
CALM = vector(core=20.0)


def finding(known: Case, *, is_service: bool = False) -> Finding:
    reports = known.reports
    dip = dips(reports.at_s, reports.attainment, reports.readings)[-1]
    found = diagnose(known, dip, NAMES, is_service=is_service)
    assert found is not None
    return found


def loud(**values: Any) -> Any:
    return holding("loud", LOUD, units=8, **values)


def texts(found: Finding, *, is_for: bool, place: int = 0) -> list[str]:
    return [fact.text for fact in found.suspects[place].evidence if fact.is_for is is_for]


def test_a_neighbour_that_arrives_with_the_dip_is_the_first_suspect() -> None:
    calm = holding("calm", CALM, units=1, from_s=200.0)
    known = case(dropped(0.3), others=(loud(from_s=DIP_S - 10.0), calm))
    found = finding(known)
    first = found.suspects[0]
    assert (first.kind, first.job, first.server) == (Kind.NEIGHBOUR, "loud", HERE)
    assert first.title == "shuffle-88 on srv-0212"
    assert first.confidence > 0.8
    assert first.share is not None
    assert first.share.low < first.share.value < first.share.high
    assert found.attribution.reference is Reference.BEFORE
    assert found.attribution.drop == pytest.approx(0.3, abs=0.02)
    assert texts(found, is_for=True) == [
        "arrived 10 s before the dip, present in 100% of the dip, in 2% of the time before",
        "LLC bandwidth 72 points, 72 of them its own; tolerated 50 [45, 55]",
    ]
    assert len(texts(found, is_for=False)) == 1


def test_a_neighbour_that_was_there_before_the_dip_is_not_blamed_for_it() -> None:
    stays, comes = loud(), holding("calm", LOUD, units=8, from_s=DIP_S, server=THERE)
    own = (holding("me"), holding("me", server=THERE))
    found = finding(case(dropped(0.2), own=own, others=(stays, comes)))
    assert found.suspects[0].job == "calm"
    assert "only 50% of the job's units are on this server" in texts(found, is_for=False)
    assert all(s.job != "loud" for s in found.suspects)


def test_of_two_that_arrive_together_the_one_beyond_the_tolerance_is_first() -> None:
    calm = holding("calm", CALM, units=2, from_s=DIP_S)
    found = finding(case(dropped(0.3), others=(calm, loud(from_s=DIP_S))))
    assert found.suspects[0].job == "loud"
    assert found.suspects[0].confidence > 0.8


def test_confidences_and_the_unknown_add_up() -> None:
    found = finding(case(dropped(0.3), others=(loud(from_s=DIP_S),)))
    total = sum(c.confidence for c in found.attribution.contributions)
    assert total == pytest.approx(1.0)
    assert found.unknown < 0.2


def test_a_drop_without_any_change_is_unknown() -> None:
    found = finding(case(dropped(0.2), others=(loud(),)))
    assert found.unknown > 0.8


def test_a_phase_change_shows_in_the_counters() -> None:
    counters = np.tile([1e7, 0.2, 0.1], (100, 1))
    counters[AT >= DIP_S, 0] *= 2.0
    found = finding(case(dropped(0.2), others=(loud(),), counters=counters))
    assert found.suspects[0].kind is Kind.PHASE
    assert texts(found, is_for=True) == [
        "memory requests changed by a factor of 2",
        "changed 0 s before the dip began",
    ]


def test_the_counters_of_a_busier_service_are_not_a_phase_change() -> None:
    counters = np.tile([1e7, 0.2, 0.1], (100, 1))
    counters[AT >= DIP_S] *= 1.6  # utilisation
    known = case(dropped(0.2), others=(loud(from_s=DIP_S),), counters=counters)
    assert finding(known, is_service=True).phase is None
    assert finding(known, is_service=False).phase is not None


def test_a_job_that_never_met_its_target_is_compared_with_its_prediction() -> None:
    found = finding(case(noisy(np.full(100, -0.2)), predicted=(0.1, 0.2)))
    assert found.attribution.reference is Reference.PREDICTION
    assert found.suspects[0].kind is Kind.PROFILE
    assert compared(found.attribution) == "26% slower than predicted without neighbours"


def test_paused_units_are_a_suspect() -> None:
    own = (holding("me", units=4),)
    stalls = (Stall(DIP_S, DIP_S + 200.0, 1),)
    speed = np.where((AT >= DIP_S) & (AT < DIP_S + 200.0), 0.06 + math.log(0.75), 0.06)
    found = finding(case(noisy(speed), own=own, stalls=stalls))
    assert found.suspects[0].kind is Kind.MIGRATION
    assert texts(found, is_for=True) == [
        "1 unit paused: 25% of the work lost",
        "paused in 100% of the dip",
    ]


def test_a_slower_platform_is_a_suspect() -> None:
    own = (
        holding("me", units=2, from_s=-100.0, to_s=DIP_S),
        holding("me", units=2, server=THERE, from_s=DIP_S),
    )
    found = finding(case(dropped(-math.log(0.7)), own=own, server_speed={HERE: 1.0, THERE: 0.7}))
    assert found.suspects[0].kind is Kind.PLATFORM
    assert "30% slower there" in texts(found, is_for=True)[0]


def test_missing_units_are_a_suspect_of_a_job_that_never_met_its_target() -> None:
    speed = noisy(np.full(100, 0.1 + math.log(0.5)))
    found = finding(case(speed, own=(holding("me", units=2),), wanted_units=4))
    assert found.suspects[0].kind is Kind.UNITS
    assert texts(found, is_for=True) == ["it holds 2 of the 4 units needed"]


def waiting(level: float, waited_s: float, target_s: float, **values: Any) -> Case:
    """A job that never met its target, at a constant log speed."""
    values = {"predicted": (level, 0.1), "wait": Wait(waited_s, target_s), **values}
    return replace_attainment(case(noisy(np.full(100, level)), **values))


def replace_attainment(known: Case) -> Case:
    return replace(known, reports=replace(known.reports, attainment=np.full(100, 0.5)))


def test_a_job_that_started_after_its_target_is_late_because_of_its_wait() -> None:
    known = waiting(-math.log(1080.0), 15_000.0, 1800.0, wanted_units=4)
    found = finding(known)
    (only,) = found.suspects
    assert (only.kind, only.confidence, only.share, found.unknown) == (Kind.WAIT, 1.0, None, 0.0)
    assert headline(found.attribution, found.suspects, found.unknown) == (
        "It started 4.2 h after its submission, after its target had passed; its target is 30 min."
    )
    assert "all its work takes 18 min at this speed; its target is 30 min" in texts(
        found, is_for=True
    )
    slow = finding(waiting(-math.log(3600.0), 15_000.0, 1800.0))
    assert slow.suspects[0].kind is Kind.WAIT
    assert texts(slow, is_for=False) == [
        "all its work takes 60 min at this speed; its target is 30 min"
    ]


def test_a_wait_that_leaves_too_little_of_the_target_is_the_cause() -> None:
    speed = -math.log(1080.0)
    assert finding(waiting(speed, 900.0, 1800.0)).suspects[0].kind is Kind.WAIT
    kept = finding(waiting(speed, 900.0, 1800.0, predicted=(speed + 0.5, 0.1)))
    assert all(suspect.kind is not Kind.WAIT for suspect in kept.suspects)
    too_slow = finding(waiting(-math.log(3600.0), 900.0, 1800.0))
    assert all(suspect.kind is not Kind.WAIT for suspect in too_slow.suspects)


def test_the_wait_of_a_job_that_was_at_target_is_not_the_cause() -> None:
    found = finding(case(dropped(0.3), others=(loud(from_s=DIP_S),), wait=Wait(0.5, 1.0)))
    assert found.suspects[0].job == "loud"


def test_a_job_faster_than_predicted_lost_no_speed() -> None:
    own = (holding("me", units=2),)
    known = case(noisy(np.full(100, -0.2)), own=own, wanted_units=40, predicted=(-0.9, 0.5))
    found = finding(known)
    first = found.suspects[0]
    assert (first.kind, first.share) == (Kind.UNITS, None)
    assert texts(found, is_for=False) == ["no speed was lost"]
    assert compared(found.attribution) == "100% faster than predicted without neighbours"
    assert headline(found.attribution, found.suspects, found.unknown).startswith(
        "100% faster than predicted without neighbours; most likely cause: fewer units than"
    )


def test_every_suspect_has_evidence_against_it() -> None:
    calm = holding("calm", CALM, units=2, from_s=DIP_S)
    found = finding(case(dropped(0.3), others=(calm, loud(from_s=DIP_S))))
    for suspect in found.suspects:
        assert any(not fact.is_for for fact in suspect.evidence), suspect.title


def test_a_job_of_another_project_is_not_named() -> None:
    hidden = holding("secret", LOUD, units=8, from_s=DIP_S)
    found = finding(case(dropped(0.3), others=(hidden,)))
    assert found.suspects[0].title == "A job of another project on srv-0212"


def test_without_a_profile_or_a_prediction_the_cause_is_unknown() -> None:
    known = case(dropped(0.3), others=(loud(from_s=DIP_S),), tolerated=None, predicted=None)
    found = finding(known)
    assert found.suspects == ()
    assert found.unknown == 1.0


def test_a_dip_without_a_speed_has_no_diagnosis() -> None:
    known = case(np.where(AT >= DIP_S, np.nan, 0.06))
    dip = dips(AT, np.where(AT >= DIP_S, 0.5, 1.1), np.ones(100))[0]
    assert diagnose(known, dip, NAMES, is_service=False) is None


@pytest.mark.parametrize(
    ("seconds", "text"), [(20.0, "20 s"), (780.0, "13 min"), (9000.0, "2.5 h")]
)
def test_spans_have_one_unit(seconds: float, text: str) -> None:
    assert span(seconds) == text
