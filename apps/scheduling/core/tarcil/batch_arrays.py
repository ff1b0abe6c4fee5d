"""Arrays that the compiled decisions of Tarcil on many jobs read and write.

n jobs, R candidates at most, F distinct filters, K distinct speeds, P platforms, S servers, U
units; ``N`` sources of interference.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Bools, Floats, Ints, Shorts, Singles

Bytes = NDArray[np.uint8]
Records = NDArray[np.void]
Record = Any  # one of them: numba reads fields as attributes

N: Final = N_SOURCES
LIMIT: Final = 64  # candidates of a job

AHEAD: Final = 32  # draws that are tried at once
BLOCK: Final = 8  # jobs whose first draws are read at once


class Servers(NamedTuple):
    """Arrays of a writable `BatchState`, by unit and by server; the last four do not change."""

    unit_free: Bools
    free_count: Shorts
    server_caused: Singles
    server_free: Floats
    unit_server: Shorts
    server_units: Shorts
    platform: Shorts
    share: Floats


class Filters(NamedTuple):
    """The distinct filters of a batch.

    verdict : (F, S) uint8 the filter that rejects the free units of a server, or `ELIGIBLE`
    counts : (F, 8) free units by verdict
    requested : (F, 3)
    """

    verdict: Bytes
    counts: Ints
    requested: Floats


JOB: Final = np.dtype(
    [
        ("caused", np.float64, N),
        ("tolerated", np.float64, N),
        ("speed_row", np.int64),  # row of `Jobs.speed`
        ("filter_row", np.int64),  # row of `Filters`
        ("sample", np.int64),  # candidates to draw, at most `LIMIT`
        ("seed", np.int64),
    ]
)


class Jobs(NamedTuple):
    """Jobs in the order in which they are decided.

    rows : (n,) `JOB`
    speed : (K, P) distinct speeds, as `scorers.speed_steps`
    """

    rows: Records
    speed: Ints


OUTCOME: Final = np.dtype(
    [
        ("size", np.int64),  # number of candidates
        ("counts", np.int64, 8),  # free units by verdict, before the job
        ("target", np.float64),
    ]
)
CANDIDATE: Final = np.dtype(
    [
        ("unit", np.int64),
        ("key", np.int64, 4),
        ("quality", np.float64),
        ("close", np.float64),
        ("headroom", np.float64, N),
        ("server", np.int32),
    ],
    align=True,
)


class Found(NamedTuple):
    """Candidates of each job, best first; the first is taken.

    outcomes : (n,) `OUTCOME`
    candidates : (n, R) `CANDIDATE`
    """

    outcomes: Records
    candidates: Records


# Working arrays that are used again for each job, in one record: each array that is passed by
# itself costs 0.15 us, and the kernel reaches all fields from one address. `LIMIT` candidates.
WORK: Final = np.dtype(
    [
        ("drawn", np.int64, LIMIT),  # units as drawn
        ("place", np.int64, LIMIT),  # of each unit drawn, from 0 = best
        ("equal", np.int64, LIMIT),  # keys that begin with the same word as that of each unit
        ("server", np.int64, LIMIT),
        ("key", np.int64, (LIMIT, 4)),
        ("first", np.int64, LIMIT),  # word of each key
        ("quality", np.int64, (LIMIT, 2)),  # words of U_H
        ("noisy", np.int64, LIMIT),  # sources without a margin
        # by candidate and source, flat: sum of the scores of its server, other units of the
        # server, headroom, digits of U_H
        ("pressure", np.float64, LIMIT * N),
        ("others", np.float64, LIMIT * N),
        ("headroom", np.float64, LIMIT * N),
        ("digits", np.float64, LIMIT * N),
        ("places", np.float64, (2, N)),  # place values of the sources in the two words of a code
        ("draws", np.int64, AHEAD),  # the next draws
        ("free", np.int64, AHEAD + 1),  # free units among them
        # the same for the first draws of the next jobs, and their numbers
        ("free_ahead", np.int64, (BLOCK, AHEAD + 1)),
        ("n_free_ahead", np.int64, BLOCK),
        ("touched", np.float64),  # a sum of what is read ahead, so that these reads are compiled
    ]
)


class Scratch(NamedTuple):
    """Memory that a call works in.

    work : (1,) `WORK`
    listed : (U,) int32 eligible units, if all are listed
    """

    work: Records
    listed: Shorts


class Constraints(NamedTuple):
    """The constraints of a filter, except capacity.

    is_open, labelled, excluded : (S,) by server
    allowed : (P,) by platform
    """

    is_open: Bools
    allowed: Bools
    labelled: Bools
    excluded: Bools


class Demand(NamedTuple):
    """Candidates of a job, and the two words of its T_W."""

    size: int
    target_h: np.int64
    target_l: np.int64


class Rule(NamedTuple):
    """``encoding.Form``, and the margin of the form `GUARDED`."""

    form: int
    margin: float
