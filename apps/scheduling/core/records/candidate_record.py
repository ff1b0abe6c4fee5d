"""Candidates of the decisions of a batch, packed together.

The columns of all decisions are joined, so that numpy is called once for each column and not for
each decision; the bytes of one decision are a slice of the result.
"""

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from apps.inventory.core.snapshot import Bools, Floats, Ints, Shorts, Topology
from apps.scheduling.core.records import candidate_layout as layout
from apps.scheduling.core.records.ranked_candidates import RankedCandidates
from apps.scheduling.core.records.run_candidates import RunCandidates, listed
from apps.scheduling.core.types import Candidate, Expectation, Verdict

_MAX_SERVER, _MAX_CORE = 2**32 - 1, 2**16 - 1
_MAX_EXACT: Final = 2.0**53  # numbers beyond have no decimals
_CHOSEN, _OUTRANKED, _TOO_NOISY, _NO_ROOM = map(
    layout.VERDICTS.index,
    (Verdict.CHOSEN, Verdict.OUTRANKED, Verdict.TOO_NOISY, Verdict.NO_ROOM),
)


def pack_candidates(decided: Sequence[Sequence[Candidate]], topology: Topology) -> list[bytes]:
    """Pack the examined units of decisions, each best first, for `candidate_layout.unpack`."""
    packed = [b""] * len(decided)
    groups: dict[tuple[int, int], list[int]] = {}
    for i, candidates in enumerate(decided):
        if not len(candidates):
            continue
        if isinstance(candidates, RankedCandidates):
            groups.setdefault(_group(candidates), []).append(i)
        else:
            packed[i] = layout.pack(_described(candidates, topology))
    for (kind, _), places in groups.items():
        ranked: list[Any] = [decided[i] for i in places]
        for i, data in zip(places, _packed(kind, ranked, topology), strict=True):
            packed[i] = data
    return packed


def candidates_json(candidates: Sequence[Candidate], topology: Topology) -> list[dict[str, Any]]:
    """Return examined units as they are read from the row of their decision."""
    return layout.unpack(pack_candidates([candidates], topology)[0])


def _group(candidates: RankedCandidates) -> tuple[int, int]:
    """Return the kind of a decision, and what its candidates share with others that it groups."""
    if isinstance(candidates, RunCandidates):
        return layout.EXPECTED, id(candidates.found)
    if candidates.scores.expectations is not None:
        return layout.EXPECTED, 0
    return layout.SCORE if math.isnan(candidates.scores.target) else layout.QUALITY, 0


def _packed(kind: int, ranked: Sequence[RankedCandidates], topology: Topology) -> list[bytes]:
    """Pack decisions of one group. O(k·N) for k candidates of all of them."""
    counts = [len(candidates) for candidates in ranked]
    ends = list(accumulate(counts))
    columns = _columns(kind, ranked, counts)
    records = np.empty(ends[-1], dtype=layout.RECORDS[kind])
    servers, cores = topology.server_id[columns.servers], topology.unit_core[columns.units]
    records["server_id"], records["core"] = servers, cores
    records["verdict"] = _verdicts(ranked, ends, is_noisy=columns.is_noisy)
    fits = (servers >= 0) & (servers <= _MAX_SERVER) & (cores >= 0) & (cores <= _MAX_CORE)
    fits &= columns.has_place
    fits &= _write(records["headroom"], columns.headroom, layout.TENTHS)
    fits &= _write(records["numbers"], columns.numbers, layout.MILLIONTHS)
    data, size = records.tobytes(), records.itemsize
    return [
        layout.header(kind, count) + data[(end - count) * size : end * size]
        if is_compact
        else layout.pack(_described(candidates, topology))
        for candidates, count, end, is_compact in zip(
            ranked, counts, ends, _all_by_decision(fits, ends), strict=True
        )
    ]


class _Columns(NamedTuple):
    """The columns of the candidates of decisions, one decision after the other.

    numbers : those of `candidate_layout`, closeness first
    is_noisy : the quality misses the target
    has_place : `candidate_layout` has a place for all numbers of the candidate
    """

    servers: Shorts
    units: Ints
    headroom: Floats
    numbers: Floats
    is_noisy: Bools
    has_place: Bools


def _columns(kind: int, ranked: Sequence[RankedCandidates], counts: Sequence[int]) -> _Columns:
    if isinstance(ranked[0], RunCandidates):
        return _columns_of_run(cast("Sequence[RunCandidates]", ranked))
    scores = [(candidates.scores, n) for candidates, n in zip(ranked, counts, strict=True)]

    def joined(name: str) -> Any:
        return np.concatenate([getattr(each, name)[:count] for each, count in scores])

    quality, closeness = joined("quality"), joined("closeness")
    target = np.repeat([each.target for each, _ in scores], counts)
    has_place = np.ones(quality.size, dtype=np.bool_)
    if kind != layout.QUALITY:
        has_place = ~(np.isfinite(quality) | np.isfinite(target))
    numbers = closeness[:, None]
    if kind == layout.QUALITY:
        numbers = np.column_stack((closeness, quality, target))
    elif kind == layout.EXPECTED:
        numbers = np.column_stack((closeness, joined("expectations")))
    places = joined("servers"), joined("units"), joined("headroom")
    return _Columns(*places, numbers, quality < target, has_place)


def _columns_of_run(ranked: Sequence[RunCandidates]) -> _Columns:
    """Return the columns of decisions of one run, which has neither qualities nor targets."""
    found, (jobs, is_filled) = ranked[0].found, listed(ranked)

    def joined(values: NDArray[Any]) -> Any:
        return values[jobs][is_filled]

    numbers = np.column_stack((joined(found.score), joined(found.expectations)))
    return _Columns(
        *(joined(found.servers), joined(found.units), joined(found.headroom), numbers),
        is_noisy=np.zeros(len(numbers), dtype=np.bool_),
        has_place=np.ones(len(numbers), dtype=np.bool_),
    )


def _write(into: NDArray[np.signedinteger[Any]], values: Floats, scale: float) -> Bools:
    """Write numbers as integers, the lowest for null; return the rows in which all fit."""
    null = np.iinfo(into.dtype).min
    with np.errstate(over="ignore"):
        scaled: Floats = np.rint(values * scale)
    is_known = np.isfinite(values)
    fits = np.abs(scaled) <= -(null + 1)
    into[...] = np.where(is_known & fits, scaled, null)
    return np.logical_and.reduce(fits | ~is_known, axis=1)


def _verdicts(
    ranked: Sequence[RankedCandidates], ends: Sequence[int], *, is_noisy: Bools
) -> NDArray[np.uint8]:
    """Return ``ranked_candidates._verdict`` of all candidates, as places in `VERDICTS`."""
    verdicts = np.where(is_noisy, _TOO_NOISY, _OUTRANKED).astype(np.uint8)
    if isinstance(ranked[0], RunCandidates):  # of which the first are chosen
        verdicts[[0, *ends[:-1]]] = _CHOSEN
        return verdicts
    chosen: list[int] = []
    start = 0
    for candidates, end in zip(ranked, ends, strict=True):
        picked = candidates.picked.tolist()
        last = max(picked)
        if last:  # rarely: the best one has room
            verdicts[start : min(start + last, end)] = _NO_ROOM
        chosen += [start + place for place in picked if start + place < end]
        start = end
    verdicts[chosen] = _CHOSEN
    return verdicts


def _all_by_decision(fits: Bools, ends: Sequence[int]) -> list[bool]:
    starts = [0, *ends[:-1]]
    if fits.all():
        return [True] * len(starts)
    return np.logical_and.reduceat(fits, starts).tolist()


def _described(candidates: Sequence[Candidate], topology: Topology) -> list[dict[str, Any]]:
    """Return candidates as JSON, one by one."""
    return [
        {
            "server_id": int(topology.server_id[c.server]),
            "core": int(topology.unit_core[c.unit]),
            "verdict": str(c.verdict),
            "headroom": [_rounded(value, layout.TENTHS) for value in c.headroom.tolist()],
            "quality": _rounded(c.quality),
            "target": _rounded(c.target),
            "closeness": _rounded(c.closeness),
            **_expected(c.expectation),
        }
        for c in candidates
    ]


def _expected(known: Expectation | None) -> dict[str, dict[str, float | None]]:
    if known is None:
        return {}
    return {"expected": {name: _rounded(value) for name, value in known._asdict().items()}}


def _rounded(value: float, scale: float = layout.MILLIONTHS) -> float | None:
    """Return the decimal that `_write` stores."""
    scaled = value * scale
    if abs(scaled) < _MAX_EXACT:
        return round(scaled) / scale
    return value if math.isfinite(value) else None
