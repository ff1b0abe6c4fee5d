"""Orders in which the slots of nodes are filled. n nodes.

Source: ClavisMO §4.2, SlotRR and NodeRR.
"""

import numpy as np

from apps.inventory.core.snapshot import Ints
from apps.placement.core.problem.instance import NOWHERE, Instance


def slot_by_slot(slots: Ints) -> Ints:
    """(Σ slots,) node of each slot, all slots of a node in a row (SlotRR)."""
    return np.repeat(np.arange(slots.size), slots)


def node_by_node(slots: Ints, rank: Ints | None = None) -> Ints:
    """(Σ slots,) node of each slot, one slot of every node in each round (NodeRR).

    Parameters
    ----------
    rank : (n,) fill nodes of a lower rank first; None ranks all nodes alike
    """
    nodes = slot_by_slot(slots)
    rounds = np.arange(nodes.size) - np.repeat(np.cumsum(slots) - slots, slots)
    order = np.argsort(rounds, kind="stable")
    if rank is not None:
        order = np.lexsort((rounds, rank[nodes]))
    by_round: Ints = nodes[order]
    return by_round


def fill_free_slots(instance: Instance, assignment: Ints) -> Ints:
    """(c,) the assignment with each unplaced container on the next free slot (SlotRR)."""
    placed = assignment.copy()
    unplaced = np.flatnonzero(placed == NOWHERE)
    used = np.bincount(placed[placed != NOWHERE], minlength=len(instance.node_ids))
    # nodes may have far more slots than there are containers
    free = np.minimum(instance.slots - used, unplaced.size)
    placed[unplaced] = slot_by_slot(free)[: unplaced.size]
    return placed
