"""Expose a job of little worth instead of one of much.

Where racks do not allow quite what was planned, some tazes end up beside others, and each costs
its whole job the credit (the straggler rule). Exchanges of two containers do not mend that where
more than one taz of a job is concerned: it gains when the last is freed, not before. Here as many
tazes of another job take their places at once.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Ints
from apps.placement.core.instance import Communication, Instance

_JOBS: Final = 24  # exposed ones that are looked at, those of most worth
_MOST: Final = 16  # tazes that change places
_TRIED: Final = 12  # jobs that may be exposed instead of one
_FREE: Final = -1
_NODE: Final = -2


def instead(instance: Instance, assignment: Ints) -> Iterator[Ints]:
    """Yield at most 288 placements in which another job is exposed, the most promising first.

    Whole jobs stay whole. What the placements are worth is for the caller to judge. O(c) each.

    Parameters
    ----------
    assignment : (c,) every container has a node
    """
    jobs = len(instance.job_ids)
    taz, rack = instance.is_taz, instance.rack[assignment]
    beside = np.bincount(assignment[taz], minlength=instance.slots.size)
    shares = taz & (beside[assignment] > 1)
    exposed = np.bincount(instance.job[shares], minlength=jobs)
    tazes = np.bincount(instance.job[taz], minlength=jobs)
    worth = np.bincount(instance.job[taz], instance.intensity[taz], jobs)
    bound = _bound(instance, rack)
    protected = np.flatnonzero((tazes > 0) & (exposed == 0) & (bound != _NODE))
    protected = protected[np.argsort(worth[protected], kind="stable")]
    order = np.flatnonzero(taz)[np.argsort(instance.job[taz], kind="stable")]
    held = np.split(order, np.cumsum(tazes)[:-1])
    chosen = np.flatnonzero((exposed > 0) & (exposed <= _MOST) & (bound != _NODE))
    for job in chosen[np.argsort(-worth[chosen], kind="stable")][:_JOBS].tolist():
        freed = np.flatnonzero(shares & (instance.job == job))
        tried = 0
        for other in protected.tolist():
            if worth[other] >= worth[job] or tried == _TRIED:
                break
            its = held[other]
            where = its if bound[job] == _FREE else its[rack[its] == bound[job]]
            if where.size < freed.size or (
                bound[other] != _FREE and (rack[freed] != bound[other]).any()
            ):
                continue
            tried += 1
            moved = assignment.copy()
            taken = where[: freed.size]
            moved[freed], moved[taken] = assignment[taken], assignment[freed]
            yield moved


def _bound(instance: Instance, rack: Ints) -> Ints:
    """(j,) the rack that a job is whole in and should stay in, or `_FREE`, or `_NODE`."""
    jobs = len(instance.job_ids)
    low, high = np.full(jobs, instance.rack.size), np.full(jobs, -1)
    np.minimum.at(low, instance.job, rack)
    np.maximum.at(high, instance.job, rack)
    many = instance.size > 1
    in_rack: Bools = many & (instance.counts_as == Communication.RACK) & (low == high)
    on_node: Bools = many & (instance.counts_as == Communication.NODE)
    bound: Ints = np.where(on_node, _NODE, np.where(in_rack, low, _FREE))
    return bound
