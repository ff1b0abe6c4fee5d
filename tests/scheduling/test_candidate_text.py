"""The text of candidates in a row of decisions has the values of their JSON."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.common.core.interference import N_SOURCES
from apps.scheduling.core.candidate_text import candidates_text
from apps.scheduling.core.types import Candidate, Expectation, Verdict
from apps.scheduling.services.decisions import candidates_json
from tests.scheduling.core.clusters import topology

CLUSTER = topology((4, 8))
SHARES = st.floats(0.0, 1.0)
POINTS = st.lists(st.floats(-250.0, 250.0), min_size=N_SOURCES, max_size=N_SOURCES)


def candidate(headroom: list[float], closeness: float, known: Expectation | None) -> Candidate:
    quality = math.nan if known else 0.25
    return Candidate(
        5, 1, quality, quality, closeness, (1, 2), Verdict.CHOSEN, np.array(headroom), known
    )


def read(candidates: list[Candidate]) -> tuple[Any, Any]:
    text = json.loads(candidates_text(candidates, CLUSTER))
    return text, json.loads(json.dumps(candidates_json(candidates, CLUSTER)))


@given(
    headroom=st.lists(POINTS, min_size=1, max_size=4),
    closeness=st.floats(-300.0, 10.0),
    shares=st.one_of(st.none(), st.tuples(SHARES, SHARES, SHARES, SHARES)),
)
def test_the_text_has_the_values_of_the_json(
    headroom: list[list[float]],
    closeness: float,
    shares: tuple[float, float, float, float] | None,
) -> None:
    known = None if shares is None else Expectation(*shares)
    text, expected = read([candidate(row, closeness, known) for row in headroom])
    assert text == expected


@pytest.mark.parametrize("odd", [math.nan, 1e6, -1e6, 200.04, 200.06, -0.04])
def test_odd_headroom_is_written(odd: float) -> None:
    text, expected = read([candidate([odd] * N_SOURCES, 1.5, None)])
    if math.isnan(odd):
        assert text[0]["headroom"] == [None] * N_SOURCES
    else:
        assert text == expected


def test_no_candidates_are_an_empty_list() -> None:
    assert read([]) == ([], [])
