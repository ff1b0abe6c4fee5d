"""Placements to compare a front with: the current one and those of common schedulers.

Source: ClavisMO §4.2.
"""

from apps.inventory.core.snapshot import Ints
from apps.placement.core.front import starts
from apps.placement.core.problem.instance import Instance
from apps.placement.core.solver.round_robin import fill_free_slots


def reference_placements(instance: Instance) -> dict[str, Ints]:
    """Return the current placement, if containers run, and round-robin ones, by name."""
    placements = {
        "SlotRR": starts.slot_round_robin(instance),
        "NodeRR": starts.node_round_robin(instance),
    }
    if instance.has_current:
        placements = {"now": fill_free_slots(instance, instance.current), **placements}
    return placements
