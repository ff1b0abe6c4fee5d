"""Tarcil's order-preserving encoding, exact (T1, T2).

N = 10 sources, two decimal digits each: twenty digits. They exceed float64 and 64-bit integers, so
a code is two words of five pairs, in base B = 10^10; words compare and subtract like digits by
hand.

V_W code of the job, T_W = V_W / (10^20 - 1); V_H code of a unit's pressure in the job's order of
sources, U_H = 1 - V_H / (10^20 - 1), whose code is V_H with every pair complemented to 99.
"""

from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Bools, Floats, Ints, Shorts, Singles

BASE: Final = 10**10
HALF: Final = N_SOURCES // 2
MARGIN: Final = 10.0  # points of headroom that GUARDED wants in every source
_PLACES: Final = 100 ** np.arange(HALF - 1, -1, -1, dtype=np.int64)


class Form(IntEnum):
    """How the quality of a unit and the target of a job make one score; see ``closeness``."""

    NEAREST = 0
    PRINTED = 1
    QUIETEST = 2
    GUARDED = 3


class Codes(NamedTuple):
    """Numbers of twenty digits: ``high`` · 10^10 + ``low``, each (n,) int64 in 0..10^10 - 1."""

    high: Ints
    low: Ints

    def shares(self) -> Floats:
        """(n,) the codes as a share of 10^20 - 1, rounded to float64: to show, not to decide."""
        return (self.high + self.low / BASE) / BASE


class Demand(NamedTuple):
    """What a job asks of a unit.

    ``order`` : (N,) its sources by decreasing interference, ties in the fixed order of the sources
    ``target`` : its code V_W
    """

    order: Ints
    target: Codes


def digits(scores: Floats) -> Ints:
    """Scores 0-100 on Tarcil's scale 0-99: rounded half up, at most 99, same shape."""
    return np.clip(np.floor(scores + 0.5), 0, 99).astype(np.int64)


def encode(pairs: Ints) -> Codes:
    """Codes of digit pairs (n, N), the most important pair first."""
    return Codes(pairs[:, :HALF] @ _PLACES, pairs[:, HALF:] @ _PLACES)


def demand(caused: Floats) -> Demand:
    """Order of sources and target quality of a job. Source: Tarcil Eq. 1 and 2 (T1)."""
    order = np.argsort(-caused, kind="stable")
    return Demand(order, encode(digits(caused[order])[None, :]))


def pressure(server_caused: Floats | Singles, server_units: Shorts) -> Floats:
    """(n, N) interference on a free unit, 0-100: Σ others' c / (M - 1), 0 for M = 1.

    Source: Tarcil Eq. 3. A free unit causes nothing, so the others' sum is the server's.
    """
    others = np.maximum(server_units - 1, 1)[:, None]
    return np.where(server_units[:, None] > 1, server_caused.astype(np.float64) / others, 0.0)


def quality(pressures: Floats, order: Ints) -> Codes:
    """Codes of U_H for pressures (n, N), in the job's order of sources. Source: Tarcil Eq. 4."""
    return encode(99 - digits(pressures[:, order]))


def is_at_least(a: Codes, b: Codes) -> Bools:
    """Whether a >= b, exactly."""
    return (a.high > b.high) | ((a.high == b.high) & (a.low >= b.low))


def minus(a: Codes, b: Codes) -> Codes:
    """Subtract exactly; right only where a >= b."""
    borrow = a.low < b.low
    return Codes(a.high - b.high - borrow, a.low - b.low + borrow * BASE)


def closeness(units: Codes, target: Codes, form: Form, kept: Bools | None = None) -> Codes:
    """Codes of Q, how well a unit's quality U matches the target T.

    Q = 1 - (U - T) where U >= T, so that demanding jobs find quiet units left. Where U < T, Eq. 5
    as printed has Q = T - U, which ranks a far miss above a near one; NEAREST has Q = U there, so
    that the nearest miss comes first and every miss after every hit. GUARDED is NEAREST, but a
    unit is a hit only where ``kept`` says that it leaves the job a margin in every source, not
    only in the first that differs. QUIETEST has Q = U throughout.

    Parameters
    ----------
    kept : (n,) see ``keeps``; needed by GUARDED only

    Source: Tarcil Eq. 5 (T2).
    """
    if form is Form.QUIETEST:
        return units
    hit = is_at_least(units, target)
    if form is Form.GUARDED and kept is not None:
        hit = hit & kept
    over, under = minus(units, target), minus(target, units)
    miss = under if form is Form.PRINTED else units
    return Codes(
        np.where(hit, BASE - 1 - over.high, miss.high),
        np.where(hit, BASE - 1 - over.low, miss.low),
    )


def keeps(headroom: Floats) -> Bools:
    """(n,) whether each unit leaves ``MARGIN`` points in every source, from (n, N) headroom.

    Eq. 5 looks for the unit that is just quiet enough, where the next neighbour is one too many,
    and its order of sources hides all but the first that differs. The margin is for the neighbours
    that come later; ours, measured in docs/policies.md.
    """
    roomy: Bools = headroom.min(axis=1) >= MARGIN
    return roomy
