"""Improving a placement by small exchanges: two containers, one container, two whole nodes.

Compiled; imported by processes that search. p the packed instance, c the costs, s the scored
placement.
"""

import numpy as np

from apps.common.core.compiled import jit
from apps.placement.core.problem.costs import Costs
from apps.placement.core.problem.evaluator import PackedInstance
from apps.placement.core.solver.incremental import ScoredPlacement, exchange, exchange_nodes


@jit(makes_arrays=False)
def anneal(
    p: PackedInstance, c: Costs, s: ScoredPlacement, temperature: float, tries: int
) -> None:
    """Try exchanges; the temperature falls to 0 over the first nine tenths of them."""
    nodes, width = s.held.shape
    cooling = max(1, tries * 9 // 10)
    for number in range(tries):
        now = temperature * (1.0 - number / cooling) if number < cooling else 0.0
        before = s.total[0]
        i = _random_below(s, s.at.size)
        a, b = s.at[i], _random_below(s, nodes)
        if a == b:
            continue
        if number % 4 == 0:
            if p.slots[a] == p.slots[b]:
                exchange_nodes(p, c, s, a, b)
                if not _is_accepted(s, before, now):
                    exchange_nodes(p, c, s, a, b)
            continue
        position = 0
        while s.held[a, position] != i:
            position += 1
        k = _random_below(s, min(width, p.slots[b]))
        to_free_slot = k >= s.used[b]
        exchange(p, c, s, a, position, b, k)
        if not _is_accepted(s, before, now):
            if to_free_slot:
                exchange(p, c, s, b, s.used[b] - 1, a, s.used[a])
            else:
                exchange(p, c, s, a, position, b, k)


@jit(makes_arrays=False)
def _random_below(s: ScoredPlacement, end: int) -> int:
    """Draw a whole number from 0 to end - 1. Source: xorshift (Marsaglia 2003)."""
    x = s.chance[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    s.chance[0] = x
    return int((x >> np.uint64(11)) % np.uint64(end))


@jit(makes_arrays=False)
def _is_accepted(s: ScoredPlacement, before: float, temperature: float) -> bool:
    """Whether to keep an exchange. Source: Metropolis et al. (1953)."""
    rise = s.total[0] - before
    if rise <= 0.0:
        return True
    if temperature <= 0.0:
        return False
    return _random_below(s, 1 << 30) / float(1 << 30) < np.exp(-rise / temperature)
