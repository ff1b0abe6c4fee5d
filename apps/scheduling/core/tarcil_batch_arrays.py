"""Arrays that the compiled decisions of Tarcil on many jobs read and write.

n jobs, R candidates at most, F distinct filters, K distinct speeds, P platforms, S servers, U
units; ``N`` sources of interference.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apps.inventory.core.snapshot import Bools, Floats, Ints, Shorts, Singles

Bytes = NDArray[np.uint8]

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


class Jobs(NamedTuple):
    """Jobs in the order in which they are decided.

    caused, tolerated : (n, N)
    speed : (K, P) distinct speeds, as `scorers.speed_steps`
    speed_row, filter_row : (n,) rows of ``speed`` and of `Filters`
    sample : (n,) candidates to draw, at most R
    seed : (n,)
    """

    caused: Floats
    tolerated: Floats
    speed: Ints
    speed_row: Ints
    filter_row: Ints
    sample: Ints
    seed: Ints


class Found(NamedTuple):
    """Candidates of each job, best first; the first is taken.

    size : (n,) number of candidates
    counts : (n, 8) free units by verdict, before the job
    unit, server, quality, close : (n, R)
    key : (n, R, 4)
    headroom : (n, R, N)
    target : (n,)
    """

    size: Ints
    counts: Ints
    unit: Ints
    server: Shorts
    key: Ints
    quality: Floats
    close: Floats
    headroom: Floats
    target: Floats


class Scratch(NamedTuple):
    """Working arrays that are used again for each job.

    drawn, place : (R,) units as drawn, and the place of each, from 0 = best
    tried : (`AHEAD` + 1,) free units among the next draws
    ahead : (`BLOCK`, `AHEAD` + 1) free units among the first draws of the next jobs
    n_ahead : (`BLOCK`,) their numbers
    touched : (1,) a sum of what is read ahead, so that the compiler keeps these reads
    key : (R, 4)
    quality : (R, 2) words of U_H
    server : (R,) of each unit
    pressure, others, headroom, digits : (R N,) by candidate and source: sum of the scores of its
        server, other units of the server, headroom, digits of U_H
    places : (2, N) place values of the sources in the two words of a code
    listed : (U,) int32 eligible units, if all are listed
    """

    drawn: Ints
    place: Ints
    tried: Ints
    ahead: Ints
    n_ahead: Ints
    touched: Floats
    key: Ints
    quality: Ints
    server: Shorts
    pressure: Floats
    others: Floats
    headroom: Floats
    digits: Floats
    places: Floats
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
