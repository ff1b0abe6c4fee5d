"""Facts about the placements of a front: nodes in use, and jobs protected, exposed and split.

k placements, n nodes, c containers, j jobs. All functions are vectorised over placements.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.problem.instance import Communication, Instance

NO_JOB: Final = -1
_AT_ONCE: Final = 4_000_000  # cells of a table: 32 MB


@dataclass(frozen=True, slots=True, eq=False)
class PlacementFacts:
    """Facts about each placement, (k,).

    Attributes
    ----------
    nodes_on : nodes with a container
    jobs_protected, jobs_exposed : jobs with tazes, without and with one that shares its node with
        another taz
    jobs_split : jobs that span several of the nodes or racks they should stay inside
    worst_job : job with the most exposed and split containers, `NO_JOB` if none has any
    """

    nodes_on: Ints
    jobs_protected: Ints
    jobs_exposed: Ints
    jobs_split: Ints
    worst_job: Ints


def placement_facts(instance: Instance, assignments: Ints) -> PlacementFacts:
    """Compute the facts of (k, c) assignments. O(k·(n + c)) time, in blocks of bounded memory."""
    width = max(len(instance.node_ids), instance.job.size, 1)
    step = max(1, _AT_ONCE // width)
    pieces = [
        _piece(instance, assignments[begin : begin + step])
        for begin in range(0, len(assignments), step)
    ]
    columns = np.concatenate([np.empty((5, 0), dtype=np.int64), *pieces], axis=1)
    return PlacementFacts(*columns)


def _piece(instance: Instance, assignments: Ints) -> Ints:
    """(5, k) facts in the order of `PlacementFacts`."""
    k, jobs = len(assignments), len(instance.job_ids)
    if not jobs:
        return np.array([[0], [0], [0], [0], [NO_JOB]]).repeat(k, axis=1)
    used = _per_row(assignments, np.ones(assignments.shape[1], dtype=np.bool_), instance)
    tazes = _per_row(assignments, instance.is_taz, instance)
    is_straggler = instance.is_taz & (np.take_along_axis(tazes, assignments, axis=1) > 1)
    order = np.argsort(instance.job, kind="stable")
    first = np.cumsum(instance.size) - instance.size
    stragglers = np.add.reduceat(is_straggler[:, order], first, axis=1, dtype=np.int64)
    with_tazes = np.bincount(instance.job[instance.is_taz], minlength=jobs) > 0
    is_split = _split(instance, assignments[:, order], first)
    lost = stragglers + np.where(is_split, instance.size, 0)
    exposed = (stragglers > 0).sum(axis=1)
    return np.stack(
        [
            (used > 0).sum(axis=1),
            with_tazes.sum() - exposed,
            exposed,
            is_split.sum(axis=1),
            np.where(lost.max(axis=1) > 0, lost.argmax(axis=1), NO_JOB),
        ]
    )


def _per_row(assignments: Ints, counted: Bools, instance: Instance) -> Ints:
    """(k, n) number of counted containers on each node."""
    k, n = len(assignments), len(instance.node_ids)
    cells = assignments[:, counted] + n * np.arange(k)[:, None]
    return np.bincount(cells.ravel(), minlength=k * n).reshape(k, n)


def _split(instance: Instance, ordered: Ints, first: Ints) -> Bools:
    """(k, j) whether each job is split, from (k, c) nodes ordered by job."""
    is_split: Bools = np.zeros((len(ordered), first.size), dtype=np.bool_)
    for scope, place in (
        (Communication.NODE, ordered),
        (Communication.RACK, instance.rack[ordered]),
    ):
        lowest = np.minimum.reduceat(place, first, axis=1)
        highest = np.maximum.reduceat(place, first, axis=1)
        is_split |= (instance.effective_communication == scope) & (lowest != highest)
    return is_split


def intermediate_points(normalised: Floats, a: int, b: int) -> Ints:
    """(m,) points with all values between those of two points, ordered from ``a`` to ``b``.

    Parameters
    ----------
    normalised : (k, o) values
    a, b : points
    """
    low, high = np.minimum(normalised[a], normalised[b]), np.maximum(normalised[a], normalised[b])
    is_inside = ((normalised >= low) & (normalised <= high)).all(axis=1)
    is_inside[[a, b]] = False
    inside = np.flatnonzero(is_inside)
    along = (normalised[inside] - normalised[a]) @ (normalised[b] - normalised[a])
    ordered: Ints = inside[np.argsort(along, kind="stable")]
    return ordered
