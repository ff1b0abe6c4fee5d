"""Candidates packed by columns are those that are packed one by one."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.common.core.interference import N_SOURCES
from apps.scheduling.core.records import candidate_layout
from apps.scheduling.core.records.candidate_layout import unpack
from apps.scheduling.core.records.candidate_record import candidates_json, pack_candidates
from apps.scheduling.core.records.ranked_candidates import RankedCandidates
from apps.scheduling.core.registry import make
from apps.scheduling.core.scorers import Scores
from apps.scheduling.core.types import Placed
from tests.scheduling.core.clusters import idle, loaded, request, topology

CLUSTER = replace(topology((4, 8, 120)), server_id=np.array([0, 9, 2**32 - 1]))
NUMBERS = st.one_of(
    st.floats(-2.0, 2.0),
    st.floats(-3000.0, 3000.0),
    st.sampled_from(
        [
            math.nan,
            math.inf,
            1e305,
            -0.0,
            0.5e-6,
            1 / 128,
            1e-7,
            2147.483647,
            2147.483648,
            -2147.483648,
        ]
    ),
    st.integers(-(10**9), 10**9).map(lambda n: n * 1e-6),
)
POINTS = st.one_of(
    st.floats(-205.0, 205.0),
    st.sampled_from([math.nan, -math.inf, -0.04, 0.05, 0.35, 3276.7, 3276.8, -3276.8]),
)


def ranked(
    numbers: list[float],
    headroom: list[float],
    picked: list[int],
    *,
    kind: int = candidate_layout.QUALITY,
    listed: int = 3,
) -> RankedCandidates:
    """Three candidates with these numbers, in turn, in their columns."""
    column = np.resize(np.array(numbers), 20)
    has_quality = kind == candidate_layout.QUALITY
    return RankedCandidates(
        Scores(
            units=np.array([11, 3, 131]),
            servers=np.array([1, 0, 2], dtype=np.int32),
            key=np.zeros((3, 4), dtype=np.int64),
            quality=column[:3] if has_quality else np.full(3, np.nan),
            target=float(column[3]) if has_quality else math.nan,
            closeness=column[4:7],
            headroom=np.resize(np.array(headroom), (3, N_SOURCES)),
            expectations=column[8:20].reshape(3, 4) if kind == candidate_layout.EXPECTED else None,
            listed=listed,
        ),
        np.array(picked),
    )


CANDIDATES = st.builds(
    ranked,
    st.lists(NUMBERS, min_size=1, max_size=20),
    st.lists(POINTS, min_size=1, max_size=30),
    st.sampled_from([[0], [1], [2], [0, 2], [0, 1, 2]]),
    kind=st.sampled_from(sorted(candidate_layout.RECORDS)),
    listed=st.integers(1, 3),
)


def one_by_one(candidates: RankedCandidates) -> list[dict[str, Any]]:
    (packed,) = pack_candidates([tuple(candidates)], CLUSTER)
    return unpack(packed)


@given(st.lists(CANDIDATES, max_size=6))
def test_a_batch_has_the_candidates_of_each_decision(batch: list[RankedCandidates]) -> None:
    found = [unpack(packed) for packed in pack_candidates(batch, CLUSTER)]
    assert found == [one_by_one(candidates) for candidates in batch]


def test_a_decision_is_packed_alike_alone_and_in_a_batch() -> None:
    some = ranked([0.5, 0.25, math.nan, 0.75], [1.25, -0.31], [1])
    wide = ranked([1e9], [1.0], [0])
    alone = [pack_candidates([each], CLUSTER)[0] for each in (some, wide, some)]
    assert pack_candidates([some, wide, some], CLUSTER) == alone
    assert [packed[1] for packed in alone] == [
        candidate_layout.QUALITY, candidate_layout.JSON, candidate_layout.QUALITY,
    ]  # fmt: skip


def test_the_json_of_candidates() -> None:
    examined = ranked([0.5, 0.25, -1.5, 0.75], [1.26, -0.31], [1])
    room = [1.3, -0.3] * 5
    assert candidates_json(examined, CLUSTER) == [
        {
            "server_id": server, "core": core, "verdict": verdict, "headroom": room,
            "quality": quality, "target": 0.75, "closeness": quality,
        }
        for server, core, verdict, quality in (
            (9, 7, "no_room", 0.5),
            (0, 3, "chosen", 0.25),
            (2**32 - 1, 119, "too_noisy", -1.5),
        )
    ]  # fmt: skip


def test_large_ids_are_kept() -> None:
    wide = replace(CLUSTER, server_id=np.array([0, 12_345_678_901, 5]))
    examined = ranked([0.5], [1.0], [0])
    assert [row["server_id"] for row in candidates_json(examined, wide)] == [12345678901, 0, 5]


def test_no_candidates_have_no_bytes() -> None:
    assert pack_candidates([(), ()], CLUSTER) == [b"", b""]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("expected", candidate_layout.EXPECTED),
        ("tarcil", candidate_layout.QUALITY),
        ("paragon_greedy", candidate_layout.SCORE),
        ("least_loaded", candidate_layout.SCORE),
    ],
)
def test_the_candidates_of_each_kind_of_policy_are_compact(name: str, kind: int) -> None:
    snapshot = loaded(topology((4, 8) * 40), 0.5, np.random.default_rng(3))
    requests = [request(3), request(platform_speed=np.array([1.0, 0.7]))]
    outcomes = make(name).place(snapshot, requests, np.random.default_rng(4))
    examined = [outcome.candidates for outcome in outcomes if isinstance(outcome, Placed)]
    assert len(examined) == 2
    packed = pack_candidates(examined, snapshot.topology)
    assert [data[1] for data in packed] == [kind] * 2
    again = pack_candidates([tuple(candidates) for candidates in examined], snapshot.topology)
    assert packed == again


def test_decisions_of_several_runs_are_packed_like_each_alone() -> None:
    few_units = topology((2, 1, 2))  # the later jobs of a run have fewer candidates
    snapshot, policy = idle(few_units), make("expected")
    asked = [request(job=str(job)) for job in range(4)]
    runs = [policy.place(snapshot, asked, np.random.default_rng(seed)) for seed in (1, 2)]
    examined = [placed.candidates for run in runs for placed in run if isinstance(placed, Placed)]
    assert {len(candidates) for candidates in examined} == {5, 4, 3, 2}
    (other,) = make("tarcil").place(snapshot, asked[:1], np.random.default_rng(3))
    assert isinstance(other, Placed)
    mixed = [examined[5], *examined[:5], other.candidates, examined[7], examined[6]]
    alone = [pack_candidates([tuple(candidates)], few_units)[0] for candidates in mixed]
    assert pack_candidates(mixed, few_units) == alone
