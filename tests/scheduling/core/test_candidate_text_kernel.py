"""The compiled text of candidates is that of Python, to the byte."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Topology
from apps.scheduling.core import candidate_text
from apps.scheduling.core import candidate_text_kernel as kernel
from apps.scheduling.core.candidate_text import candidates_text, plain_text
from apps.scheduling.core.policies import RankedCandidates
from apps.scheduling.core.registry import make
from apps.scheduling.core.scorers import Scores
from apps.scheduling.core.types import Placed
from tests.scheduling.core.clusters import loaded, request, topology

SMALL = topology((4, 8, 120))
CLUSTER = replace(SMALL, server_id=np.array([0, 9, 12_345_678_901]))
NUMBERS = st.one_of(
    st.floats(-2.0, 2.0),
    st.floats(-1e7, 1e7),
    st.sampled_from([math.nan, math.inf, -0.0, 1e-7, -1e-7, 0.5e-6, 1.5e-6, 1 / 128, 999_999.5]),
    st.integers(-(10**9), 10**9).map(lambda n: n * 1e-6),
    st.integers(-(10**6), 10**6).map(lambda n: (n + 0.5) * 1e-6),
)
POINTS = st.one_of(
    st.floats(-205.0, 205.0), st.sampled_from([math.nan, 0.05, 0.15, 0.25, -0.04, 200.0, -200.0])
)


def candidates(
    numbers: list[float], headroom: list[float], picked: list[int], *, is_expected: bool
) -> RankedCandidates:
    """Three candidates with these numbers, in turn, in their columns."""
    column = np.resize(np.array(numbers), 24)
    return RankedCandidates(
        Scores(
            units=np.array([11, 3, 131]),
            servers=np.array([1, 0, 2], dtype=np.int32),
            key=np.zeros((3, 4), dtype=np.int64),
            quality=column[:3],
            target=float(column[3]),
            closeness=column[4:7],
            headroom=np.resize(np.array(headroom), (3, N_SOURCES)),
            expectations=column[8:20].reshape(3, 4) if is_expected else None,
        ),
        np.array(picked),
    )


@given(
    st.lists(NUMBERS, min_size=1, max_size=20),
    st.lists(POINTS, min_size=1, max_size=30),
    st.sampled_from([[0], [1], [2], [0, 2], [0, 1, 2]]),
)
def test_the_kernel_writes_the_text_of_python(
    numbers: list[float], headroom: list[float], picked: list[int]
) -> None:
    examined = candidates(numbers, headroom, picked, is_expected=False)
    assert candidates_text(examined, CLUSTER) == plain_text(examined, CLUSTER)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20), st.floats(-200.0, 200.0))
def test_the_kernel_writes_expectations(numbers: list[float], headroom: float) -> None:
    examined = candidates(numbers, [headroom], [0], is_expected=True)
    assert candidates_text(examined, CLUSTER) == plain_text(examined, CLUSTER)


def written(examined: RankedCandidates, cluster: Topology = CLUSTER) -> str | None:
    return candidate_text._compiled(examined, cluster)


def test_the_text_of_a_candidate() -> None:
    examined = candidates([0.5, 0.25, -1.5, 0.75], [1.25, -0.31], [1], is_expected=True)
    room = ",".join(["1.2", "-0.3"] * 5)
    assert written(examined) == (
        '[{"server_id":9,"core":7,"quality":0.500000,"target":0.750000,"closeness":0.500000,'
        f'"verdict":"no_room","headroom":[{room}],"expected":{{"speed":0.500000,"own":0.250000,'
        '"neighbours":-1.500000,"busy":0.750000}},'
        '{"server_id":0,"core":3,"quality":0.250000,"target":0.750000,"closeness":0.250000,'
        f'"verdict":"chosen","headroom":[{room}],"expected":{{"speed":0.500000,"own":0.250000,'
        '"neighbours":-1.500000,"busy":0.750000}},'
        '{"server_id":12345678901,"core":119,"quality":-1.500000,"target":0.750000,'
        f'"closeness":-1.500000,"verdict":"too_noisy","headroom":[{room}],"expected":'
        '{"speed":0.500000,"own":0.250000,"neighbours":-1.500000,"busy":0.750000}}]'
    )


@pytest.mark.parametrize("number", [0.5e-6, 1 / 128, 2e6, -1e6])
def test_the_kernel_is_unsure_of_ties_and_large_numbers(number: float) -> None:
    assert written(candidates([number], [1.0], [0], is_expected=False)) is None


@pytest.mark.parametrize("points", [math.nan, 200.06, -math.inf])
def test_the_kernel_leaves_odd_headroom_to_python(points: float) -> None:
    assert written(candidates([0.1], [points], [0], is_expected=False)) is None


def test_the_longest_text_fits_into_the_buffer() -> None:
    widest = replace(SMALL, server_id=np.array([0, 9, np.iinfo(np.int64).max]))
    text = written(candidates([-999_999.999998], [-199.9], [1], is_expected=True), widest)
    assert text is not None
    assert len(text) - 2 <= 3 * (kernel.FIXED + kernel.BY_SOURCE * N_SOURCES)
    assert text.count("-199.9") == 3 * N_SOURCES


@pytest.mark.parametrize("name", ["expected", "tarcil", "paragon_greedy", "least_loaded"])
def test_the_text_of_each_kind_of_policy(name: str) -> None:
    snapshot = loaded(topology((4, 8) * 40), 0.5, np.random.default_rng(3))
    requests = [request(3), request(platform_speed=np.array([1.0, 0.7]))]
    for outcome in make(name).place(snapshot, requests, np.random.default_rng(4)):
        assert isinstance(outcome, Placed)
        text = candidates_text(outcome.candidates, snapshot.topology)
        assert text == plain_text(outcome.candidates, snapshot.topology)
