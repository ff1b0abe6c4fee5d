"""Tarcil's order-preserving encoding, exact (T1, T2).

N = 10 sources with two decimal digits each make twenty digits, too many for float64 and 64-bit
integers. A code is therefore two words of five pairs, in base B = 10^10.

V_W is the code of the job and T_W = V_W / (10^20 - 1). V_H is the code of a unit's pressure in the
job's order of sources, and U_H = 1 - V_H / (10^20 - 1); its code is V_H with every pair
complemented to 99.
"""

from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Bools, Floats, Ints, Shorts, Singles

BASE: Final = 10**10
HALF: Final = N_SOURCES // 2
MARGIN: Final = 10.0  # points of headroom that GUARDED requires in every source
_PLACES: Final = 100 ** np.arange(HALF - 1, -1, -1, dtype=np.int64)


class Form(IntEnum):
    """How the quality of a unit and the target of a job are combined; see ``closeness``."""

    NEAREST = 0
    PRINTED = 1
    QUIETEST = 2
    GUARDED = 3


class Codes(NamedTuple):
    """Numbers of twenty digits: ``high`` · 10^10 + ``low``, each (n,) int64 in 0..10^10 - 1."""

    high: Ints
    low: Ints

    def shares(self) -> Floats:
        """(n,) codes as a share of 10^20 - 1, rounded to float64, for display only."""
        return (self.high + self.low / BASE) / BASE


class RequiredQuality(NamedTuple):
    """Quality that a job requires of a unit.

    ``order`` : (N,) its sources by decreasing interference, ties in the fixed order of the sources
    ``target`` : its code V_W
    """

    order: Ints
    target: Codes


def digits(scores: Floats) -> Ints:
    """Convert scores 0-100 to Tarcil's scale 0-99: rounded half up, at most 99, same shape."""
    return np.clip(np.floor(scores + 0.5), 0, 99).astype(np.int64)


def encode(pairs: Ints) -> Codes:
    """Encode digit pairs (n, N), the most significant pair first."""
    return Codes(pairs[:, :HALF] @ _PLACES, pairs[:, HALF:] @ _PLACES)


def demand(caused: Floats) -> RequiredQuality:
    """Return the order of sources and target quality of a job. Source: Tarcil Eq. 1 and 2 (T1)."""
    order = np.argsort(-caused, kind="stable")
    return RequiredQuality(order, encode(digits(caused[order])[None, :]))


def pressure(server_caused: Floats | Singles, server_units: Shorts) -> Floats:
    """(n, N) interference on a free unit, 0-100: Σ others' c / (M - 1), 0 for M = 1.

    Source: Tarcil Eq. 3. A free unit causes no interference, so the sum is that of the server.
    """
    others = np.maximum(server_units - 1, 1)[:, None]
    return np.where(server_units[:, None] > 1, server_caused.astype(np.float64) / others, 0.0)


def quality(pressures: Floats, order: Ints) -> Codes:
    """Codes of U_H for pressures (n, N), in the job's order of sources. Source: Tarcil Eq. 4."""
    return encode(99 - digits(pressures[:, order]))


def is_at_least(a: Codes, b: Codes) -> Bools:
    """Return whether a >= b, exactly."""
    return (a.high > b.high) | ((a.high == b.high) & (a.low >= b.low))


def subtract(a: Codes, b: Codes) -> Codes:
    """Return a - b exactly; valid only if a >= b."""
    borrow = a.low < b.low
    return Codes(a.high - b.high - borrow, a.low - b.low + borrow * BASE)


def closeness(units: Codes, target: Codes, form: Form, margin_ok: Bools | None = None) -> Codes:
    """Return codes of Q, the match between a unit's quality U and the target T.

    For U >= T (a hit), Q = 1 - (U - T), which leaves quiet units to demanding jobs. For U < T (a
    miss), Eq. 5 as printed gives Q = T - U, which ranks a far miss above a near one. NEAREST uses
    Q = U there, so that near misses rank above far ones and below all hits. GUARDED is NEAREST,
    but a hit also needs a margin in every source, not only in the first that differs. QUIETEST
    uses Q = U throughout.

    Parameters
    ----------
    margin_ok : (n,) see ``has_margin``; required by GUARDED only

    Source: Tarcil Eq. 5 (T2).
    """
    if form is Form.QUIETEST:
        return units
    hit = is_at_least(units, target)
    if form is Form.GUARDED and margin_ok is not None:
        hit = hit & margin_ok
    over, under = subtract(units, target), subtract(target, units)
    miss = under if form is Form.PRINTED else units
    return Codes(
        np.where(hit, BASE - 1 - over.high, miss.high),
        np.where(hit, BASE - 1 - over.low, miss.low),
    )


def has_margin(headroom: Floats) -> Bools:
    """(n,) whether (n, N) headroom is at least ``MARGIN`` points in every source.

    Eq. 5 prefers units that are just quiet enough, so that the next neighbour is one too many, and
    compares only the first source that differs. The margin, not in the paper, leaves room for
    later neighbours; docs/policies.md has measurements.
    """
    roomy: Bools = headroom.min(axis=1) >= MARGIN
    return roomy
