"""The comparison of two units by the terms of the policy `expected`."""

import math
from dataclasses import replace

import numpy as np
import pytest

from apps.common.core.interference import N_SOURCES
from apps.dashboard.core.expectations import compare_expectations, prediction_texts
from apps.dashboard.core.explanation import CandidateFacts
from apps.scheduling.core.expected.performance import Weights
from apps.scheduling.core.fused import FusedExpected
from apps.scheduling.core.types import Expectation, Placed
from tests.scheduling.core.clusters import loaded, request, topology

NAN = float("nan")
ROOMY = (30.0,) * N_SOURCES
CHOSEN = CandidateFacts(
    *("srv-1", 0, "A", NAN, NAN, 0.30, "chosen", ROOMY),
    expectation=Expectation(speed=1.0, own=0.99, neighbours=0.98, busy=0.5),
)
OTHER = CandidateFacts(
    *("srv-2", 0, "B", NAN, NAN, -0.02, "outranked", ROOMY),
    expectation=Expectation(speed=0.7, own=0.99, neighbours=1.0, busy=0.25),
)


def test_the_term_with_the_largest_gain_made_the_difference() -> None:
    compared = compare_expectations([CHOSEN, OTHER])
    assert compared is not None
    assert compared.title == "Platform speed made the difference: score +0.32 over srv-2"
    assert compared.sentence == (
        "Platform speed made the difference: **1.00×** on srv-1, 0.700× on the runner-up srv-2"
    )


def test_the_contributions_add_up_to_the_difference_of_the_scores() -> None:
    compared = compare_expectations([CHOSEN, OTHER])
    assert compared is not None
    assert sum(row.gain for row in compared.rows) == pytest.approx(0.32)
    gains = {row.name: row.gain for row in compared.rows}
    assert gains["Platform speed"] == pytest.approx(-math.log(0.7))
    assert gains["Performance under interference"] == 0.0
    assert gains["Loss of the neighbours"] == pytest.approx(Weights().neighbours * math.log(0.98))


def test_no_comparison_without_another_server_or_with_another_policy() -> None:
    assert compare_expectations([CHOSEN]) is None
    assert compare_expectations([CHOSEN, replace(OTHER, server="srv-1")]) is None
    assert compare_expectations([replace(CHOSEN, expectation=None), OTHER]) is None
    assert compare_expectations([CHOSEN, replace(OTHER, closeness=0.30)]) is None


def test_the_columns_of_a_candidate() -> None:
    assert CHOSEN.expectation is not None
    assert prediction_texts(CHOSEN.expectation) == ("1.00×", "99.0 %", "2.0 %", "50 %")


def test_the_terms_of_a_decision_are_those_of_its_scores() -> None:
    snapshot = loaded(topology((8,) * 6, platforms=("A", "B")), 0.5, np.random.default_rng(4))
    asked = request(platform_speed=np.array([0.9, 0.6]))
    (placed,) = FusedExpected().place(snapshot, [asked], np.random.default_rng(1))
    assert isinstance(placed, Placed)
    facts = [
        CandidateFacts(
            *(f"srv-{c.server}", 0, "", NAN, NAN, c.closeness, str(c.verdict), ()),
            expectation=c.expectation,
        )
        for c in placed.candidates
    ]
    compared = compare_expectations(facts)
    assert compared is not None
    idle = snapshot.unit_free.mean()
    busy = [c.expectation.busy for c in facts if c.expectation]
    other = next(i for i, c in enumerate(facts) if c.server != facts[0].server)
    # the rest is the term of the crowd; the runner-up may be the first unit of its server
    crowd = Weights().spread * idle**2 * (busy[other] - busy[0])
    assert compared.rows[-1].gain == pytest.approx(crowd, abs=1e-9)


def test_the_comparison_names_the_weights_of_the_policy() -> None:
    compared = compare_expectations([CHOSEN, OTHER])
    assert compared is not None
    assert compared.weights == Weights()
