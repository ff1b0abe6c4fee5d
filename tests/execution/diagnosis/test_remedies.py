import math

import numpy as np
import pytest

from apps.execution.core.diagnosis.attribution import Attribution, attribute
from apps.execution.core.diagnosis.case import Case
from apps.execution.core.diagnosis.remedies import (
    Now,
    Places,
    RemedyKind,
    more_units,
    move,
    needs_profile,
    predicted_with,
    relax,
    unchanged,
)
from apps.execution.core.diagnosis.speed import SpeedScale
from apps.workloads.core.targets import CompletionTime, InstructionRate
from tests.execution.diagnosis.cases import AT, DIP_S, HERE, THERE, case, dropped, holding, vector

RATE = SpeedScale(InstructionRate(1.0), 1)
NOW = Now(log_speed=-0.24, deviation=0.02, progress=0.5, elapsed_s=1000.0)
LOUD = vector(llc_bandwidth=90.0)


def attributed(known: Case) -> Attribution:
    rng = np.random.default_rng(1)
    return attribute(known, AT >= DIP_S, AT < DIP_S, None, rng)


def places(*, room: int = 4, pressure: float = 0.0) -> Places:
    quiet = np.array([vector(llc_bandwidth=pressure), vector(llc_bandwidth=80.0)])
    return Places(np.array([8, 9]), np.array([room, 4]), quiet, np.zeros(2))


def test_the_prediction_and_its_probability_follow_from_the_log_speed() -> None:
    predicted, probability = predicted_with(RATE, NOW, 0.24, 0.0)
    assert predicted.value == pytest.approx(1.0)
    assert predicted.high == pytest.approx(math.exp(1.6448536 * 0.02))
    assert probability == pytest.approx(0.5)
    assert unchanged(RATE, NOW).probability < 1e-6


def test_units_move_from_the_pressed_server_to_the_quiet_one() -> None:
    own = (holding("me", units=2), holding("me", units=2, server=THERE))
    known = case(dropped(0.15), own=own, others=(holding("x", LOUD, units=8, from_s=DIP_S),))
    remedy = move(known, attributed(known), AT >= DIP_S, places(), RATE, NOW)
    assert remedy is not None
    assert (remedy.from_server, remedy.to_server, remedy.units) == (HERE, 8, 2)
    assert remedy.predicted is not None
    gain = math.log(remedy.predicted.value) - NOW.log_speed
    assert gain == pytest.approx(0.15, abs=0.04)


def test_units_do_not_move_without_room_or_gain() -> None:
    known = case(dropped(0.15), others=(holding("x", LOUD, units=8, from_s=DIP_S),))
    found = attributed(known)
    full = Places(np.array([8]), np.array([0]), np.zeros((1, 10)), np.zeros(1))
    assert move(known, found, AT >= DIP_S, full, RATE, NOW) is None
    worse = Places(np.array([8]), np.array([4]), np.full((1, 10), 90.0), np.zeros(1))
    assert move(known, found, AT >= DIP_S, worse, RATE, NOW) is None


def test_the_smallest_sufficient_size_is_proposed() -> None:
    # a linear job at 79 % of its target needs 1 / 0.7866 = 1.27 times its ten units, and some more
    # for the interval
    remedy = more_units(float, 10, 64, RATE, NOW)
    assert remedy is not None
    assert remedy.units in {14, 15}
    assert remedy.probability >= 0.9
    smaller, _ = predicted_with(RATE, NOW, math.log(1.3), 0.0)
    assert remedy.predicted is not None
    assert remedy.predicted.value > smaller.value


def test_the_nearest_size_is_named_if_none_meets_the_target() -> None:
    remedy = more_units(lambda size: float(min(size, 12)), 10, 64, RATE, NOW)
    assert remedy is not None
    assert remedy.units == 12  # more units than that do not make it faster
    assert remedy.probability < 0.1
    assert more_units(lambda _: 1.0, 10, 64, RATE, NOW) is None


def test_the_relaxed_target_is_met_with_a_margin() -> None:
    rate = relax(RATE, NOW)
    assert rate is not None
    assert rate.kind is RemedyKind.RELAX
    assert rate.relaxed == 0.76  # exp(-0.24 - 1.2816 * 0.02) = 0.7667, rounded down
    late = SpeedScale(CompletionTime(1200.0), 1)
    slow = Now(math.log(0.001), 0.02, progress=0.5, elapsed_s=1000.0)
    time = relax(late, slow)
    assert time is not None
    assert time.relaxed == 1600.0  # 1000 + 0.5 / (0.001 * exp(-0.0256)) = 1513, rounded up


def test_a_profiling_run_helps_where_the_profile_is_in_doubt() -> None:
    clear = attributed(case(dropped(0.3), others=(holding("x", LOUD, units=8, from_s=DIP_S),)))
    assert not needs_profile(clear)
    assert needs_profile(attributed(case(dropped(0.3))))
