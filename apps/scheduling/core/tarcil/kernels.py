"""Compiled kernels of Tarcil: filter, draw, score and order in two calls.

Imported by processes that decide, never by the web process (numba takes a second and 100 MB). The
assembled form in ``policies.py`` is the oracle: the same request and seed give the same units and
keys.

Notation: s a server, u a unit, h and l the high and low word of a code (``encoding.py``), B =
10^10. Arrays are read-only (``arrays.as_readonly``), so that each kernel is compiled once.
"""

import numpy as np

from apps.common.core.compiled import jit
from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Bools, Floats, Ints, Shorts, Singles
from apps.scheduling.core import chance, samplers
from apps.scheduling.core.cluster.capacity import SLACK
from apps.scheduling.core.tarcil import encoding

N = N_SOURCES
HALF = encoding.HALF
B = encoding.BASE
PRINTED, QUIETEST = int(encoding.Form.PRINTED), int(encoding.Form.QUIETEST)
GUARDED = int(encoding.Form.GUARDED)
DENSE, CROWDED = samplers.DENSE, samplers.CROWDED
_GAMMA, _MIX_1, _MIX_2 = (np.uint64(c) for c in (chance.GAMMA, chance.MIX_1, chance.MIX_2))
_COIN = np.uint64(chance.COIN)
_1, _27, _30, _31, _32 = (np.uint64(n) for n in (1, 27, 30, 31, 32))
_INSERTION = 64  # insertion sort is faster up to this length
KEEP = 1.0 - SLACK


@jit()
def count_free(unit_free: Bools, first_unit: Shorts, server_units: Shorts) -> Shorts:
    """``batch_state.count_free_units`` over bytes, which the compiler vectorises."""
    count = np.empty(first_unit.size, dtype=np.int32)
    flags = unit_free.view(np.uint8)
    for s in range(first_unit.size):
        total = 0
        for flag in flags[first_unit[s] : first_unit[s] + server_units[s]]:
            total += flag
        count[s] = total
    return count


@jit()
def filter_servers(  # noqa: PLR0913, PLR0917 - numba takes arrays, not objects
    free_count: Shorts,
    is_open: Bools,
    labelled: Bools,
    barred: Bools,
    allowed: Bools,
    platform: Shorts,
    share: Floats,
    requested: Floats,
    left: Floats,
    units: int,
    together: bool,
) -> tuple[Bools, Shorts, Ints]:
    """Return the eligible servers, the room on each, and the units rejected by each filter.

    Returns (S,) mask, (S,) room and (8,) counts: those of ``filters.FILTERS``, then the eligible.
    O(S).
    """
    size = free_count.size
    mask = np.zeros(size, dtype=np.bool_)
    room = np.zeros(size, dtype=np.int32)
    counts = np.zeros(8, dtype=np.int64)
    min_room = units if together else 1
    for s in range(size):
        free = free_count[s]
        if free == 0:
            continue
        room[s] = min(free, fitting_units(requested, share[s], left[s], units))
        if not is_open[s]:
            counts[1] += free
        elif not allowed[platform[s]]:
            counts[2] += free
        elif not labelled[s]:
            counts[3] += free
        elif barred[s]:
            counts[4] += free
        elif room[s] == 0:
            counts[5] += free
        elif room[s] < min_room:
            counts[6] += free
        else:
            counts[7] += free
            mask[s] = True
    return mask, room, counts


@jit()
def fitting_units(requested: Floats, share: Floats, left: Floats, units: int) -> int:
    """Return the number of units whose memory, network and storage fit, at most ``units``."""
    fitting = units
    for i in range(3):
        vector = (requested[i] if requested[i] > 0 else share[i]) * KEEP
        if vector > 0 and left[i] < vector * fitting:
            fitting = max(0, int(np.floor(left[i] / vector)))
    return fitting


@jit()
def first_with_room(servers: Shorts, room: Shorts, units: int) -> Ints:
    """``pickers.best``: positions of the first m units that fit. O(n·m)."""
    picked = np.empty(min(units, servers.size), dtype=np.int64)
    count = 0
    for position in range(servers.size):
        if count == units:
            break
        taken = 0
        for i in range(count):
            taken += servers[picked[i]] == servers[position]
        if taken < room[servers[position]]:
            picked[count] = position
            count += 1
    return picked[:count]


@jit()
def score_sample(  # noqa: PLR0913, PLR0917 - numba takes arrays, not objects
    unit_free: Bools,
    mask: Bools,
    eligible: int,
    unit_server: Shorts,
    server_units: Shorts,
    platform: Shorts,
    server_caused: Singles,
    caused: Floats,
    tolerated: Floats,
    speed: Ints,
    count: int,
    seed: int,
    form: int,
    margin: float,
) -> tuple[Ints, Shorts, Ints, Floats, float, Floats, Floats]:
    """Draw ``count`` eligible units, score them exactly and order them, best first.

    Returns units (n,), servers (n,), key (n, 4), U (n,), T, Q (n,), headroom (n, N).
    """
    drawn = _draw(unit_free, mask, eligible, unit_server, count, np.uint64(seed))
    n = drawn.size
    order, target_h, target_l = _demand(caused)
    key = np.empty((n, 4), dtype=np.int64)
    quality = np.empty(n)
    headroom = np.empty((n, N))
    salt = np.uint64(seed) ^ _COIN
    for i in range(n):
        u = drawn[i]
        s = unit_server[u]
        h, low = _quality(server_caused[s], server_units[s], order, tolerated, headroom[i])
        quality[i] = (h + low / B) / B
        margin_ok = form != GUARDED or headroom[i].min() >= margin
        key[i, 0], key[i, 1] = closeness(h, low, target_h, target_l, form, margin_ok)
        key[i, 2] = speed[platform[s]]
        key[i, 3] = np.int64(word(salt, np.uint64(u)) >> _1)
    best = _ordered(key)
    units, servers = np.empty(n, np.int64), np.empty(n, np.int32)
    keys, shown, close, room = np.empty_like(key), np.empty(n), np.empty(n), np.empty((n, N))
    for i in range(n):
        j = best[i]
        units[i], servers[i] = drawn[j], unit_server[drawn[j]]
        keys[i], shown[i], room[i] = key[j], quality[j], headroom[j]
        close[i] = (key[j, 0] % B + key[j, 1] / B) / B
    return units, servers, keys, shown, (target_h + target_l / B) / B, close, room


@jit()
def count_outranked(  # noqa: PLR0913, PLR0917 - numba takes arrays, not objects
    unit_free: Bools,
    mask: Bools,
    first_unit: Shorts,
    server_units: Shorts,
    platform: Shorts,
    server_caused: Singles,
    caused: Floats,
    tolerated: Floats,
    speed: Ints,
    seed: int,
    form: int,
    margin: float,
    chosen: Ints,
) -> Ints:
    """Count the eligible units below each chosen key: (k,) from keys (k, 4). O(S·(N + k)).

    All free units of a server have the same key except for the coin.
    """
    order, target_h, target_l = _demand(caused)
    outranked = np.zeros(chosen.shape[0], dtype=np.int64)
    key, room = np.empty((2, 4), dtype=np.int64), np.empty(N)
    salt = np.uint64(seed) ^ _COIN
    for s in range(mask.size):
        if not mask[s]:
            continue
        h, low = _quality(server_caused[s], server_units[s], order, tolerated, room)
        margin_ok = form != GUARDED or room.min() >= margin
        key[0, 0], key[0, 1] = closeness(h, low, target_h, target_l, form, margin_ok)
        key[0, 2] = speed[platform[s]]
        for i in range(chosen.shape[0]):
            key[1] = chosen[i]
            for u in range(first_unit[s], first_unit[s] + server_units[s]):
                if unit_free[u]:
                    key[0, 3] = np.int64(word(salt, np.uint64(u)) >> _1)
                    outranked[i] += is_above(key, 1, 0)
    return outranked


@jit()
def word(seed: np.uint64, i: np.uint64) -> np.uint64:
    """``chance.word``."""
    z = seed + (i + _1) * _GAMMA
    z = (z ^ (z >> _30)) * _MIX_1
    z = (z ^ (z >> _27)) * _MIX_2
    return z ^ (z >> _31)


@jit()
def below(word: np.uint64, n: int) -> np.int64:
    """``chance.below``."""
    return np.int64(((word >> _32) * np.uint64(n)) >> _32)


@jit()
def _draw(
    unit_free: Bools,
    mask: Bools,
    eligible: int,
    unit_server: Shorts,
    count: int,
    seed: np.uint64,
) -> Ints:
    """``samplers.uniform``."""
    size = unit_free.size
    if eligible * DENSE < size or count * CROWDED > eligible:
        return _shuffled(unit_free, mask, eligible, unit_server, count, seed)
    chosen = np.empty(count, dtype=np.int64)
    slots = 4
    while slots < 4 * count:
        slots *= 2
    seen = np.full(slots, -1, dtype=np.int64)
    n_chosen, draw = 0, np.uint64(0)
    while n_chosen < count:
        u = below(word(seed, draw), size)
        draw += _1
        if unit_free[u] and mask[unit_server[u]] and _is_new(seen, u):
            chosen[n_chosen] = u
            n_chosen += 1
    return chosen


@jit()
def _is_new(seen: Ints, u: np.int64) -> bool:
    """Add u to an open-addressed set; return False if it was already there."""
    last = seen.size - 1
    at = (u * 40503) & last
    while seen[at] >= 0:
        if seen[at] == u:
            return False
        at = (at + 1) & last
    seen[at] = u
    return True


@jit()
def _shuffled(
    unit_free: Bools,
    mask: Bools,
    eligible: int,
    unit_server: Shorts,
    count: int,
    seed: np.uint64,
) -> Ints:
    every = np.empty(eligible, dtype=np.int64)
    listed = 0
    for u in range(unit_free.size):
        # check the caller's count, as a wrong one must not write past the end
        if listed < eligible and unit_free[u] and mask[unit_server[u]]:
            every[listed] = u
            listed += 1
    for i in range(min(count, eligible)):
        j = i + below(word(seed, np.uint64(i)), eligible - i)
        every[i], every[j] = every[j], every[i]
    return every[:count].copy()


@jit()
def _demand(caused: Floats) -> tuple[Ints, np.int64, np.int64]:
    """``encoding.demand``: order of the sources and the two words of T_W."""
    order = np.arange(N)
    for i in range(1, N):
        k, j = order[i], i
        while j > 0 and caused[order[j - 1]] < caused[k]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = k
    h = low = np.int64(0)
    for i in range(HALF):
        h = h * 100 + digit_pair(caused[order[i]])
        low = low * 100 + digit_pair(caused[order[HALF + i]])
    return order, h, low


@jit()
def digit_pair(score: float) -> np.int64:
    """``encoding.digits`` of one score."""
    return np.int64(min(99.0, max(0.0, np.floor(score + 0.5))))


@jit()
def _quality(
    caused: Singles, units: int, order: Ints, tolerated: Floats, headroom: Floats
) -> tuple[np.int64, np.int64]:
    """Return the words of U_H, and fill the headroom. Source: Tarcil Eq. 3 and 4."""
    h = low = np.int64(0)
    for i in range(N):
        k = order[i]
        pressure = np.float64(caused[k]) / (units - 1) if units > 1 else 0.0
        headroom[k] = tolerated[k] - pressure
        pair = 99 - digit_pair(pressure)
        if i < HALF:
            h = h * 100 + pair
        else:
            low = low * 100 + pair
    return h, low


@jit()
def closeness(
    h: np.int64, low: np.int64, target_h: np.int64, target_l: np.int64, form: int, margin_ok: bool
) -> tuple[np.int64, np.int64]:
    """Return the words of Q. Source: Tarcil Eq. 5; see ``encoding.closeness``."""
    if form == QUIETEST:
        return h, low
    if margin_ok and (h > target_h or (h == target_h and low >= target_l)):
        over_h, over_l = _minus(h, low, target_h, target_l)
        first = B if form == GUARDED else 0
        return first + B - 1 - over_h, B - 1 - over_l
    if form == PRINTED:
        return _minus(target_h, target_l, h, low)
    return h, low


@jit()
def _minus(
    a_h: np.int64, a_l: np.int64, b_h: np.int64, b_l: np.int64
) -> tuple[np.int64, np.int64]:
    if a_l < b_l:
        return a_h - b_h - 1, a_l - b_l + B
    return a_h - b_h, a_l - b_l


@jit()
def is_above(key: Ints, a: int, b: int) -> bool:
    """Return whether key a is higher than key b."""
    for i in range(4):
        if key[a, i] != key[b, i]:
            return key[a, i] > key[b, i]
    return False


@jit()
def _ordered(key: Ints) -> Ints:
    """Sort positions by decreasing key: insertion sort of short runs, then merging. O(n log n)."""
    n = key.shape[0]
    order = np.arange(n)
    for start in range(0, n, _INSERTION):
        for i in range(start + 1, min(start + _INSERTION, n)):
            k, j = order[i], i
            while j > start and is_above(key, k, order[j - 1]):
                order[j] = order[j - 1]
                j -= 1
            order[j] = k
    width, other = _INSERTION, np.empty_like(order)
    while width < n:
        for start in range(0, n, 2 * width):
            _merge(key, order, other, start, min(start + width, n), min(start + 2 * width, n))
        order, other = other, order
        width *= 2
    return order


@jit()
def _merge(key: Ints, order: Ints, out: Ints, start: int, middle: int, end: int) -> None:
    i, j = start, middle
    for k in range(start, end):
        if i < middle and (j >= end or not is_above(key, order[j], order[i])):
            out[k] = order[i]
            i += 1
        else:
            out[k] = order[j]
            j += 1
