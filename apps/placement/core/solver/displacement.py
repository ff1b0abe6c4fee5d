"""Displacement: expose a job with little credit in place of one with more.

If racks do not allow the whole plan, some tazes share nodes, and each costs its whole job the
credit (the straggler rule). Exchanges of two containers cannot repair that if several tazes of a
job are exposed: F improves only once the last of them is protected. Here equally many tazes of
another job take their places at once.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Ints
from apps.placement.core.problem.instance import Communication, Instance

_MAX_JOBS: Final = 24  # exposed jobs considered, those with most credit first
_MAX_TAZES: Final = 16  # of an exposed job
_MAX_VICTIMS: Final = 12  # jobs tried in place of one exposed job
_FREE: Final = -1
_NODE: Final = -2


def exchanges(instance: Instance, assignment: Ints) -> Iterator[Ints]:
    """Yield at most 288 placements that expose another job, the most promising first.

    Jobs that are not split stay so. The caller evaluates the placements. O(c) each.

    Parameters
    ----------
    assignment : (c,) node of each container; all are placed
    """
    jobs = len(instance.job_ids)
    taz, rack = instance.is_taz, instance.rack[assignment]
    tazes_on_node = np.bincount(assignment[taz], minlength=instance.slots.size)
    shares = taz & (tazes_on_node[assignment] > 1)
    exposed = np.bincount(instance.job[shares], minlength=jobs)
    tazes = np.bincount(instance.job[taz], minlength=jobs)
    credit = np.bincount(instance.job[taz], instance.intensity[taz], jobs)
    required = _required_rack(instance, rack)
    protected = np.flatnonzero((tazes > 0) & (exposed == 0) & (required != _NODE))
    protected = protected[np.argsort(credit[protected], kind="stable")]
    order = np.flatnonzero(taz)[np.argsort(instance.job[taz], kind="stable")]
    held = np.split(order, np.cumsum(tazes)[:-1])
    chosen = np.flatnonzero((exposed > 0) & (exposed <= _MAX_TAZES) & (required != _NODE))
    for job in chosen[np.argsort(-credit[chosen], kind="stable")][:_MAX_JOBS].tolist():
        freed = np.flatnonzero(shares & (instance.job == job))
        tried = 0
        for victim in protected.tolist():
            if credit[victim] >= credit[job] or tried == _MAX_VICTIMS:
                break
            victim_tazes = held[victim]
            where = victim_tazes
            if required[job] != _FREE:
                where = where[rack[where] == required[job]]
            if where.size < freed.size or (
                required[victim] != _FREE and (rack[freed] != required[victim]).any()
            ):
                continue
            tried += 1
            moved = assignment.copy()
            exchanged = where[: freed.size]
            moved[freed], moved[exchanged] = assignment[exchanged], assignment[freed]
            yield moved


def _required_rack(instance: Instance, rack: Ints) -> Ints:
    """(j,) the rack that a job should stay in, `_NODE` for a node job, else `_FREE`."""
    jobs = len(instance.job_ids)
    low, high = np.full(jobs, instance.rack.size), np.full(jobs, -1)
    np.minimum.at(low, instance.job, rack)
    np.maximum.at(high, instance.job, rack)
    many = instance.size > 1
    in_rack: Bools = (
        many & (instance.effective_communication == Communication.RACK) & (low == high)
    )
    on_node: Bools = many & (instance.effective_communication == Communication.NODE)
    required: Ints = np.where(on_node, _NODE, np.where(in_rack, low, _FREE))
    return required
