"""Starting points of the search for a front: placements by different simple rules.

Source: ClavisMO §4.2: cluster schedulers offer SlotRR and NodeRR.
"""

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.problem.instance import NOWHERE, Instance
from apps.placement.core.solver.round_robin import node_by_node, slot_by_slot


def slot_round_robin(instance: Instance) -> Ints:
    """(c,) each container to the next free slot, filling one node after another (SlotRR)."""
    return _in_order(instance, np.arange(instance.job.size), slot_by_slot(instance.slots))


def node_round_robin(instance: Instance) -> Ints:
    """(c,) each container to the next node with a free slot (NodeRR)."""
    return _in_order(instance, np.arange(instance.job.size), node_by_node(instance.slots))


def packed(instance: Instance) -> Ints:
    """(c,) on the nodes with the least power per slot, alternating intense and calm containers."""
    order = np.argsort(-instance.intensity, kind="stable")
    alternating: Ints = np.empty_like(order)
    half = (order.size + 1) // 2
    alternating[0::2], alternating[1::2] = order[:half], order[half:][::-1]
    cheapest = np.argsort(instance.peak_watts / instance.slots, kind="stable")
    return _in_order(instance, alternating, cheapest[slot_by_slot(instance.slots[cheapest])])


def spread(instance: Instance) -> Ints:
    """(c,) spread over all nodes by descending intensity, so that tazes share nodes last."""
    order = np.argsort(-instance.intensity, kind="stable")
    by_idle_watts = np.argsort(instance.idle_watts, kind="stable")
    return _in_order(instance, order, by_idle_watts[node_by_node(instance.slots[by_idle_watts])])


def rule_placements(instance: Instance) -> list[Ints]:
    """Return the placement of each rule, and the current one if it is complete."""
    placements = [rule(instance) for rule in (slot_round_robin, node_round_robin, packed, spread)]
    if instance.job.size and (instance.current != NOWHERE).all():
        placements.append(instance.current)
    return placements


def weights_to_try(count: int) -> Floats:
    """(≤ count, 3) weights of P, D and C on an even grid that includes the corners."""
    steps = 1
    while (steps + 2) * (steps + 3) // 2 <= count:
        steps += 1
    grid = [(p, d, steps - p - d) for p in range(steps, -1, -1) for d in range(steps - p, -1, -1)]
    inner = np.array(grid, dtype=np.float64)
    # With a weight of exactly 0, the solver would ignore free improvements.
    return (inner + 0.02 * steps) / (1.06 * steps)


def _in_order(instance: Instance, order: Ints, slots: Ints) -> Ints:
    """(c,) assign the slots to the containers in the given order."""
    placed: Ints = np.empty(instance.job.size, dtype=np.int64)
    placed[order] = slots[: order.size]
    return placed
