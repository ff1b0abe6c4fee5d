"""Packed candidates of a decision: a header, then one fixed record for each candidate.

All integers are big-endian, as PostgreSQL sends them, without padding.

    header   version uint8 (1), kind uint8, number of candidates uint16
    record   server_id uint32, core uint16, verdict uint8 (place in `VERDICTS`),
             headroom 10 x int16 in tenths of a point,
             closeness int32 in millionths, then by kind, int32 in millionths:
             `SCORE` nothing; `QUALITY` quality, target; `EXPECTED` the fields of `Expectation`

The lowest int16 or int32 is null. `JSON` has JSON text instead of records, for candidates that do
not fit: large ids or scores, and rows of earlier releases. No bytes at all are no candidates.
Numbers are packed as they are shown: the headroom to a tenth, all others to six decimals.
"""

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from apps.common.core.interference import N_SOURCES
from apps.scheduling.core.types import Expectation, Verdict

VERSION: Final = 1
JSON, SCORE, QUALITY, EXPECTED = range(4)
VERDICTS: Final = (Verdict.CHOSEN, Verdict.OUTRANKED, Verdict.TOO_NOISY, Verdict.NO_ROOM)
TENTHS, MILLIONTHS = 10.0, 1e6
NO_TENTHS, NO_MILLIONTHS = -(2**15), -(2**31)
_HEADER: Final = struct.Struct(">BBH")
_NUMBERS: Final = {
    SCORE: ("closeness",),
    QUALITY: ("closeness", "quality", "target"),
    EXPECTED: ("closeness", *Expectation._fields),
}


class UnreadableCandidatesError(ValueError):
    """Stored candidates cannot be read; the message says why."""


def _record(numbers: int) -> np.dtype[np.void]:
    return np.dtype(
        [
            ("server_id", ">u4"),
            ("core", ">u2"),
            ("verdict", "u1"),
            ("headroom", ">i2", (N_SOURCES,)),
            ("numbers", ">i4", (numbers,)),
        ]
    )


RECORDS: Final = {kind: _record(len(names)) for kind, names in _NUMBERS.items()}


def header(kind: int, count: int) -> bytes:
    """Return the header of ``count`` candidates."""
    return _HEADER.pack(VERSION, kind, count)


def pack(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Pack candidates as `unpack` returns them; any JSON that does not fit is kept as JSON."""
    if not rows:
        return b""
    records = _records(rows)
    if records is not None and unpack(records) == rows:
        return records
    text = json.dumps(rows, separators=(",", ":"), allow_nan=False)
    return header(JSON, len(rows)) + text.encode()


def _records(rows: Sequence[Mapping[str, Any]]) -> bytes | None:
    """Return records that may have lost something; None if the rows have other columns."""
    kind = _kind(rows)
    try:
        values = [
            (
                row["server_id"],
                row["core"],
                VERDICTS.index(row["verdict"]),
                [_integer(value, TENTHS, NO_TENTHS) for value in row["headroom"]],
                [_integer(value, MILLIONTHS, NO_MILLIONTHS) for value in _numbers(kind, row)],
            )
            for row in rows
        ]
        return header(kind, len(rows)) + np.array(values, dtype=RECORDS[kind]).tobytes()
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _kind(rows: Sequence[Mapping[str, Any]]) -> int:
    if "expected" in rows[0]:
        return EXPECTED
    has_quality = any(row.get(name) is not None for row in rows for name in ("quality", "target"))
    return QUALITY if has_quality else SCORE


def _numbers(kind: int, row: Mapping[str, Any]) -> list[float | None]:
    source = {**row, **row["expected"]} if kind == EXPECTED else row
    return [source[name] for name in _NUMBERS[kind]]


def _integer(value: float | None, scale: float, null: int) -> int:
    return null if value is None else round(value * scale)


def unpack(packed: bytes) -> list[dict[str, Any]]:
    """Return the candidates, best first; null where a policy does not compute a number.

    Raises
    ------
    UnreadableCandidatesError : a later release has packed them, or bytes are missing.
    """
    if not packed:
        return []
    kind, count = _read_header(packed)
    if kind == JSON:
        rows: list[dict[str, Any]] = json.loads(packed[_HEADER.size :])
        return rows
    records = _read_records(packed, kind, count)
    return [
        _row(*values)
        for values in zip(
            records["server_id"].tolist(),
            records["core"].tolist(),
            records["verdict"].tolist(),
            _floats(records["headroom"], TENTHS, NO_TENTHS),
            map(_SCORES[kind], _floats(records["numbers"], MILLIONTHS, NO_MILLIONTHS)),
            strict=True,
        )
    ]


def chosen_headroom(packed: bytes) -> list[list[Any]]:
    """Return the headroom in points of the chosen candidates, best first.

    The same numbers as in `unpack`, without making a row of each candidate.

    Raises
    ------
    UnreadableCandidatesError : as in `unpack`.
    """
    if not packed:
        return []
    kind, count = _read_header(packed)
    if kind == JSON:
        return [row["headroom"] for row in unpack(packed) if row["verdict"] == Verdict.CHOSEN]
    records = _read_records(packed, kind, count)
    chosen = records["headroom"][records["verdict"] == VERDICTS.index(Verdict.CHOSEN)]
    return _floats(chosen, TENTHS, NO_TENTHS)


def _read_header(packed: bytes) -> tuple[int, int]:
    if len(packed) < _HEADER.size:
        raise UnreadableCandidatesError(f"{len(packed)} bytes of candidates have no header")
    version, kind, count = _HEADER.unpack_from(packed)
    if version != VERSION:
        raise UnreadableCandidatesError(f"the candidates have version {version}, not {VERSION}")
    if kind not in {JSON, *RECORDS}:
        raise UnreadableCandidatesError(f"the candidates have the unknown kind {kind}")
    return kind, count


def _read_records(packed: bytes, kind: int, count: int) -> NDArray[np.void]:
    size = _HEADER.size + count * RECORDS[kind].itemsize
    if len(packed) != size:
        raise UnreadableCandidatesError(
            f"{count} candidates of kind {kind} have {len(packed)} bytes, not {size}"
        )
    return np.frombuffer(packed, dtype=RECORDS[kind], offset=_HEADER.size)


def _floats(values: NDArray[np.signedinteger[Any]], scale: float, null: int) -> list[Any]:
    """Return rows of numbers; the nearest to each decimal, as JSON reads it."""
    rows: list[Any] = (values / scale).tolist()
    if (values == null).any():
        nothing = null / scale
        return [[None if value == nothing else value for value in row] for row in rows]
    return rows


def _row(
    server_id: int, core: int, verdict: int, headroom: list[Any], scores: dict[str, Any]
) -> dict[str, Any]:
    return {
        "server_id": server_id,
        "core": core,
        "verdict": str(VERDICTS[verdict]),
        "headroom": headroom,
        **scores,
    }


def _quality_scores(numbers: list[Any]) -> dict[str, Any]:
    return dict(zip(_NUMBERS[QUALITY], numbers, strict=True))


def _plain_score(numbers: list[Any]) -> dict[str, Any]:
    return {"quality": None, "target": None, "closeness": numbers[0]}


def _expected_scores(numbers: list[Any]) -> dict[str, Any]:
    close, *expected = numbers
    known = dict(zip(Expectation._fields, expected, strict=True))
    return {**_plain_score([close]), "expected": known}


_SCORES: Final[dict[int, Callable[[list[Any]], dict[str, Any]]]] = {
    SCORE: _plain_score,
    QUALITY: _quality_scores,
    EXPECTED: _expected_scores,
}
