"""The layout of packed candidates: bytes by hand, round trips and errors."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.common.core.interference import N_SOURCES
from apps.scheduling.core.records.candidate_layout import (
    VERDICTS,
    UnreadableCandidatesError,
    chosen_headroom,
    pack,
    unpack,
)

ROOM = [12.5, -0.3, None, *[0.0] * (N_SOURCES - 3)]
ROOM_BYTES = "007d fffd 8000" + "0000" * (N_SOURCES - 3)
NOTHING = {"quality": None, "target": None}


def row(**values: Any) -> dict[str, Any]:
    """A candidate on core 3 of server 258."""
    known = {"server_id": 258, "core": 3, "quality": 0.9, "target": 0.8, "closeness": -1.5}
    return {**known, "verdict": "outranked", "headroom": ROOM, **values}


def scores(digits: int, bits: int) -> st.SearchStrategy[float | None]:
    """Numbers with so many decimals that fit into an integer of so many bits, or null."""
    limit = 2 ** (bits - 1) - 1
    return st.none() | st.integers(-limit, limit).map(lambda n: n / 10**digits)


COMPACT = st.fixed_dictionaries(
    {
        "server_id": st.integers(0, 2**32 - 1),
        "core": st.integers(0, 2**16 - 1),
        "verdict": st.sampled_from(list(map(str, VERDICTS))),
        "headroom": st.lists(scores(1, 16), min_size=N_SOURCES, max_size=N_SOURCES),
        "closeness": scores(6, 32),
    }
)
QUALITY = st.fixed_dictionaries({"quality": scores(6, 32), "target": scores(6, 32)})
EXPECTED = st.fixed_dictionaries(
    {name: scores(6, 32) for name in ("speed", "own", "neighbours", "busy")}
)
WHOLE = st.lists(st.tuples(COMPACT, QUALITY), min_size=1).map(
    lambda parts: [{**a, **b} for a, b in parts]
)
PREDICTED = st.lists(st.tuples(COMPACT, EXPECTED), min_size=1).map(
    lambda parts: [{**a, **NOTHING, "expected": b} for a, b in parts]
)
ANYTHING = st.lists(
    st.dictionaries(
        st.sampled_from(["server_id", "server", "core", "verdict", "headroom", "expected"]),
        st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    )
)


def test_a_candidate_with_a_quality() -> None:
    assert pack([row()]).hex() == (
        "01 02 0001"  # version, kind, count
        "00000102 0003 01"  # server, core, outranked
        f"{ROOM_BYTES}"
        "ffe91ca0 000dbba0 000c3500"  # closeness, quality, target
    ).replace(" ", "")


def test_a_candidate_with_expectations() -> None:
    expected = {"speed": 1.0, "own": 0.5, "neighbours": 0.000001, "busy": None}
    assert pack([row(**NOTHING, expected=expected)]).hex() == (
        f"01 03 0001 00000102 0003 01 {ROOM_BYTES}"
        "ffe91ca0 000f4240 0007a120 00000001 80000000"  # closeness, speed, own, ...
    ).replace(" ", "")


def test_a_candidate_without_either() -> None:
    assert pack([row(**NOTHING, verdict="no_room")]).hex() == (
        f"01 01 0001 00000102 0003 03 {ROOM_BYTES} ffe91ca0"
    ).replace(" ", "")


def test_no_candidates_have_no_bytes() -> None:
    assert pack([]) == b""
    assert unpack(b"") == []


@given(WHOLE | PREDICTED)
def test_compact_candidates_are_read_as_they_were(rows: list[dict[str, Any]]) -> None:
    packed = pack(rows)
    assert packed[1] != 0
    assert unpack(packed) == rows


@given(ANYTHING)
def test_other_columns_are_read_as_they_were(rows: list[dict[str, Any]]) -> None:
    assert unpack(pack(rows)) == rows


@pytest.mark.parametrize(
    "odd",
    [
        {"server_id": 2**32},
        {"core": 2**16},
        {"core": None},
        {"closeness": 2147.483648},
        {"closeness": 0.1234567},
        {"quality": -2147.483648},  # would be null
        {"headroom": [3276.8] * N_SOURCES},
        {"headroom": [0.25] * N_SOURCES},
        {"headroom": [1.0] * (N_SOURCES - 1)},
        {"verdict": "unheard of"},
        {"server": "srv-1"},
        {"expected": None},
        {"expected": {"speed": 1.0}},
    ],
)
def test_what_does_not_fit_is_kept_as_json(odd: dict[str, Any]) -> None:
    rows = [row(), row(**odd)]
    assert pack(rows).startswith(b"\x01\x00\x00\x02[{")
    assert unpack(pack(rows)) == rows
    assert unpack(pack(rows[1:])) == rows[1:]


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (b"\x02\x01\x00\x00", "the candidates have version 2, not 1"),
        (b"\x01\x09\x00\x00", "the candidates have the unknown kind 9"),
        (b"\x01\x01", "2 bytes of candidates have no header"),
        (pack([row()])[:-1], "1 candidates of kind 2 have 42 bytes, not 43"),
    ],
)
def test_unreadable_candidates_say_why(packed: bytes, message: str) -> None:
    with pytest.raises(UnreadableCandidatesError) as error:
        unpack(packed)
    assert str(error.value) == message


@pytest.mark.parametrize("chosen", [[], [1], [0, 2]])
@pytest.mark.parametrize("scored", [{}, NOTHING, {"server_id": 2**40}])  # the last ones are JSON
def test_the_headroom_of_the_chosen_candidates_alone(
    chosen: list[int], scored: dict[str, Any]
) -> None:
    rows = [
        row(**scored, headroom=[place / 10, None, *[0.0] * (N_SOURCES - 2)]) for place in range(3)
    ]
    for place in chosen:
        rows[place]["verdict"] = "chosen"
    assert chosen_headroom(pack(rows)) == [rows[place]["headroom"] for place in chosen]


def test_nothing_packed_has_no_chosen_candidates() -> None:
    assert chosen_headroom(b"") == []
