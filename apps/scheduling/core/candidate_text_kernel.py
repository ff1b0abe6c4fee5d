"""Compiled text of the candidates of a decision; `candidate_text` has the same in Python.

Imported by processes that decide, never by the web process. A number is written with six decimals
from its integer count of millionths. Where rounding to a millionth could differ from the decimal
rounding of Python, nothing is written, and the caller uses the oracle.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Floats, Ints, Shorts

Bytes = NDArray[np.uint8]

UNSURE: Final = -1  # instead of a length
FIXED: Final = 400  # more bytes than a candidate has without its headroom
BY_SOURCE: Final = 7  # bytes of one number of the headroom with its comma, at most
MAX_TENTHS: Final = 2000  # of a point of headroom
MAX_NUMBER: Final = 1e6  # of the other numbers: their millionths are exact integers
_ERROR: Final = 4 * 2.0**-53  # relative, of the product with 1e6; rounding makes at most 2^-53


def _bytes(text: str) -> Bytes:
    return np.frombuffer(text.encode(), dtype=np.uint8)


_SERVER, _CORE = _bytes('{"server_id":'), _bytes(',"core":')
_QUALITY, _TARGET, _CLOSE = _bytes(',"quality":'), _bytes(',"target":'), _bytes(',"closeness":')
_VERDICT, _HEADROOM = _bytes(',"verdict":"'), _bytes('","headroom":[')
_CHOSEN, _NO_ROOM = _bytes("chosen"), _bytes("no_room")
_TOO_NOISY, _OUTRANKED = _bytes("too_noisy"), _bytes("outranked")
_SPEED, _OWN = _bytes(',"expected":{"speed":'), _bytes(',"own":')
_NEIGHBOURS, _BUSY = _bytes(',"neighbours":'), _bytes(',"busy":')
_NULL = _bytes("null")
_COMMA, _DOT, _MINUS, _ZERO = (np.uint8(ord(c)) for c in ",.-0")
_LIST, _CLOSE_LIST, _CLOSE_OBJECT = (np.uint8(ord(c)) for c in "[]}")


class Examined(NamedTuple):
    """The k best candidates, as the columns of `Scores`.

    server_id, core : (k,)
    quality, closeness : (k,)
    target : of all
    headroom : (k, N)
    expectations : (k, 4), or (0, 4) without them
    picked : (p,) positions of the chosen units among all that were scored
    """

    server_id: Ints
    core: Shorts
    quality: Floats
    target: float
    closeness: Floats
    headroom: Floats
    expectations: Floats
    picked: Ints


@jit(makes_arrays=False)
def write(out: Bytes, examined: Examined) -> int:
    """Write a JSON list; return its length in bytes, or `UNSURE`. O(k·N).

    ``out`` has room for 2 + k · (`FIXED` + `BY_SOURCE` · N) bytes.
    """
    out[0], n = _LIST, 1
    for j in range(examined.server_id.size):
        n = _candidate(out, n, examined, j)
        if n == UNSURE:
            return UNSURE
        out[n] = _COMMA
        n += 1
    out[n - 1] = _CLOSE_LIST
    return n


@jit(makes_arrays=False)
def _candidate(out: Bytes, n: int, examined: Examined, j: int) -> int:
    n = _integer(out, _copy(out, n, _SERVER), examined.server_id[j])
    n = _integer(out, _copy(out, n, _CORE), examined.core[j])
    n = _number(out, _copy(out, n, _QUALITY), examined.quality[j])
    n = _number(out, _after(out, n, _TARGET), examined.target)
    n = _number(out, _after(out, n, _CLOSE), examined.closeness[j])
    n = _verdict(out, _after(out, n, _VERDICT), examined, j)
    n = _room(out, _after(out, n, _HEADROOM), examined.headroom, j)
    if examined.expectations.shape[0]:
        n = _number(out, _after(out, n, _SPEED), examined.expectations[j, 0])
        n = _number(out, _after(out, n, _OWN), examined.expectations[j, 1])
        n = _number(out, _after(out, n, _NEIGHBOURS), examined.expectations[j, 2])
        n = _number(out, _after(out, n, _BUSY), examined.expectations[j, 3])
        n = _end(out, n)
    return _end(out, n)


@jit(makes_arrays=False)
def _verdict(out: Bytes, n: int, examined: Examined, j: int) -> int:
    """Write ``policies._verdict``."""
    if n == UNSURE:
        return UNSURE
    last = 0
    for position in examined.picked:
        if position == j:
            return _copy(out, n, _CHOSEN)
        last = max(last, position)
    if j < last:
        return _copy(out, n, _NO_ROOM)
    if examined.quality[j] < examined.target:
        return _copy(out, n, _TOO_NOISY)
    return _copy(out, n, _OUTRANKED)


@jit(makes_arrays=False)
def _room(out: Bytes, n: int, headroom: Floats, j: int) -> int:
    """Write a row of points, to a tenth, and the end of its list."""
    for i in range(headroom.shape[1]):
        tenths = np.rint(headroom[j, i] * 10.0)
        if n == UNSURE or not abs(tenths) <= MAX_TENTHS:  # NaN included
            return UNSURE
        whole = np.int64(abs(tenths))
        if tenths < 0:
            out[n] = _MINUS
            n += 1
        n = _integer(out, n, whole // 10)
        out[n], out[n + 1], out[n + 2] = _DOT, _ZERO + np.uint8(whole % 10), _COMMA
        n += 3
    out[n - 1] = _CLOSE_LIST
    return n


@jit(makes_arrays=False)
def _number(out: Bytes, n: int, value: float) -> int:
    """Write a number with six decimals, null if it is not finite."""
    if n == UNSURE:
        return UNSURE
    if not np.isfinite(value):
        return _copy(out, n, _NULL)
    scaled = abs(value) * 1e6
    millionths = np.int64(np.floor(scaled))
    beyond = scaled - millionths - 0.5
    if abs(value) >= MAX_NUMBER or abs(beyond) <= scaled * _ERROR:
        return UNSURE
    if np.copysign(1.0, value) < 0.0:
        out[n] = _MINUS
        n += 1
    millionths += beyond > 0.0
    n = _integer(out, n, millionths // 1_000_000)
    out[n] = _DOT
    rest = millionths % 1_000_000
    for at in range(n + 6, n, -1):
        out[at] = _ZERO + np.uint8(rest % 10)
        rest //= 10
    return n + 7


@jit(makes_arrays=False)
def _integer(out: Bytes, n: int, value: np.int64) -> int:
    """Write an integer >= 0."""
    digits, rest = 1, value // 10
    while rest:
        digits += 1
        rest //= 10
    for at in range(n + digits - 1, n - 1, -1):
        out[at] = _ZERO + np.uint8(value % 10)
        value //= 10
    return n + digits


@jit(makes_arrays=False)
def _after(out: Bytes, n: int, text: Bytes) -> int:
    """Write a text behind a number, unless that was not written."""
    return UNSURE if n == UNSURE else _copy(out, n, text)


@jit(makes_arrays=False)
def _copy(out: Bytes, n: int, text: Bytes) -> int:
    for i in range(text.size):
        out[n + i] = text[i]
    return n + text.size


@jit(makes_arrays=False)
def _end(out: Bytes, n: int) -> int:
    if n == UNSURE:
        return UNSURE
    out[n] = _CLOSE_OBJECT
    return n + 1
