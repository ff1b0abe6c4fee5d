"""Candidates of a decision as JSON text, for rows that are copied into the database.

The text of eight candidates takes a third of the time of a decision if it is made in Python.
Columns of scores are therefore written by a kernel; other candidates one by one, where each number
becomes text once, and the headroom is looked up.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from apps.common.core.arrays import as_readonly
from apps.inventory.core.snapshot import Floats, Topology
from apps.scheduling.core.policies import RankedCandidates
from apps.scheduling.core.scorers import Scores
from apps.scheduling.core.types import Candidate

_LIMIT: Final = 2000  # tenths of a point: the headroom within it is looked up
_TENTHS: Final = tuple(repr(n / 10) for n in range(-_LIMIT, _LIMIT + 1))
DIGITS: Final = 6  # of the other numbers


def candidates_text(candidates: Sequence[Candidate], topology: Topology) -> str:
    """Return the JSON text of examined units, best first; the values of `candidates_json`."""
    if not len(candidates):
        return "[]"
    if isinstance(candidates, RankedCandidates):
        text = _compiled(candidates, topology)
        if text is not None:
            return text
    return plain_text(candidates, topology)


def plain_text(candidates: Sequence[Candidate], topology: Topology) -> str:
    """Return the same without the kernel; its oracle."""
    rooms = headroom_texts(np.array([c.headroom for c in candidates]))
    servers = topology.server_id[[c.server for c in candidates]].tolist()
    cores = topology.unit_core[[c.unit for c in candidates]].tolist()
    return f"[{','.join(map(_text, candidates, servers, cores, rooms))}]"


def _compiled(candidates: RankedCandidates, topology: Topology) -> str | None:
    """Return the text from the columns of the scores; None if the kernel is unsure of a digit."""
    # only processes that decide import numba
    from apps.scheduling.core import candidate_text_kernel as kernel  # noqa: PLC0415

    scores, count = candidates.scores, len(candidates)
    out = np.empty(2 + count * (kernel.FIXED + kernel.BY_SOURCE * scores.headroom.shape[1]), _BYTE)
    length = kernel.write(
        out,
        kernel.Examined(
            as_readonly(topology.server_id[scores.servers[:count]], np.int64),
            as_readonly(topology.unit_core[scores.units[:count]], np.int32),
            as_readonly(scores.quality[:count], np.float64),
            scores.target,
            as_readonly(scores.closeness[:count], np.float64),
            as_readonly(scores.headroom[:count], np.float64),
            _expectations(scores, count),
            as_readonly(candidates.picked, np.int64),
        ),
    )
    return None if length == kernel.UNSURE else out[:length].tobytes().decode("ascii")


def _expectations(scores: Scores, count: int) -> Floats:
    if scores.expectations is None:
        return _NO_EXPECTATIONS
    return as_readonly(scores.expectations[:count], np.float64)


_BYTE: Final = np.uint8
_NO_EXPECTATIONS: Final = as_readonly(np.empty((0, 4)))


def headroom_texts(headroom: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> list[str]:
    """Return each row of (n, N) points, to a tenth, as JSON numbers between commas."""
    tenths = np.rint(headroom * 10.0)
    if not (np.abs(tenths) <= _LIMIT).all():  # NaN included
        return [",".join(map(_number, row)) for row in np.round(headroom, 1).tolist()]
    places = (tenths + _LIMIT).astype(np.int64).tolist()
    return [",".join([_TENTHS[place] for place in row]) for row in places]


def _text(candidate: Candidate, server: int, core: int, room: str) -> str:
    _, _, quality, target, close, _, verdict, _, known = candidate
    return _CANDIDATE % (
        server,
        core,
        _number(quality),
        _number(target),
        _number(close),
        verdict,
        room,
        "" if known is None else _EXPECTED % known,
    )


# `%.6f` rounds to the decimal that `round` returns, in half the time
_CANDIDATE: Final = (
    '{"server_id":%d,"core":%d,"quality":%s,"target":%s,"closeness":%s,"verdict":"%s",'
    '"headroom":[%s]%s}'
)
_EXPECTED: Final = ',"expected":{"speed":%.6f,"own":%.6f,"neighbours":%.6f,"busy":%.6f}'


def _number(value: float) -> str:
    return "%.6f" % value if math.isfinite(value) else "null"  # noqa: UP031 - faster
