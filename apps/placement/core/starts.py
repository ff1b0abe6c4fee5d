"""Where a search for a front begins: placements as different as rules of thumb make them.

Source: ClavisMO §4.2: SlotRR and NodeRR are what cluster schedulers offer.
"""

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.instance import NOWHERE, Instance


def slot_round_robin(instance: Instance) -> Ints:
    """(c,) container after container to the next free slot, a node's slots in a row (SlotRR)."""
    return _in_turn(instance, np.arange(instance.job.size), _slot_by_slot(instance.slots))


def node_round_robin(instance: Instance) -> Ints:
    """(c,) container after container to the next node with a free slot (NodeRR)."""
    return _in_turn(instance, np.arange(instance.job.size), _node_by_node(instance.slots))


def packed(instance: Instance) -> Ints:
    """(c,) on the nodes that need least power a slot: alternately the most and least intense."""
    order = np.argsort(-instance.intensity, kind="stable")
    turned: Ints = np.empty_like(order)
    half = (order.size + 1) // 2
    turned[0::2], turned[1::2] = order[:half], order[half:][::-1]
    cheapest = np.argsort(instance.peak_watts / instance.slots, kind="stable")
    return _in_turn(instance, turned, cheapest[_slot_by_slot(instance.slots[cheapest])])


def spread(instance: Instance) -> Ints:
    """(c,) on as many nodes as there are, the most intense first: then tazes meet last."""
    order = np.argsort(-instance.intensity, kind="stable")
    least = np.argsort(instance.idle_watts, kind="stable")
    return _in_turn(instance, order, least[_node_by_node(instance.slots[least])])


def by_rule(instance: Instance) -> list[Ints]:
    """Return one placement by each rule, and the one that runs if it is whole."""
    made = [rule(instance) for rule in (slot_round_robin, node_round_robin, packed, spread)]
    if instance.job.size and (instance.current != NOWHERE).all():
        made.append(instance.current)
    return made


def weights_to_try(count: int) -> Floats:
    """(≤ count, 3) weights of P, D and C, the corners first, then evenly between them."""
    steps = 1
    while (steps + 2) * (steps + 3) // 2 <= count:
        steps += 1
    grid = [(p, d, steps - p - d) for p in range(steps, -1, -1) for d in range(steps - p, -1, -1)]
    inner = np.array(grid, dtype=np.float64)
    # a weight of nothing lets the solver ignore what costs nothing to keep
    return (inner + 0.02 * steps) / (1.06 * steps)


def _in_turn(instance: Instance, order: Ints, slots: Ints) -> Ints:
    """Give each container, in order, the next slot."""
    placed: Ints = np.empty(instance.job.size, dtype=np.int64)
    placed[order] = slots[: order.size]
    return placed


def _slot_by_slot(slots: Ints) -> Ints:
    """(Σ slots,) positions of nodes, one for each slot."""
    return np.repeat(np.arange(slots.size), slots)


def _node_by_node(slots: Ints) -> Ints:
    """(Σ slots,) positions of nodes: every node once, then every one with another slot, ..."""
    node = _slot_by_slot(slots)
    turn = np.arange(node.size) - np.repeat(np.cumsum(slots) - slots, slots)
    return node[np.argsort(turn, kind="stable")]
