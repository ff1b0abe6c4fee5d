"""P, D and C, compiled: the packed instance, and the kernels that evaluate nodes and jobs.

`evaluate_all`, the genome of NSGA-II and the incremental sums of the solvers all draw from here;
`objectives` is the oracle they are tested against. Imported by processes that search.

n nodes, K containers the fullest node could hold, c containers, j jobs, R racks; p the packed
instance.
"""

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from apps.common.core.arrays import as_readonly
from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.problem.instance import NOWHERE, Communication, Instance
from apps.placement.core.problem.objectives import scales

if TYPE_CHECKING:
    from apps.placement.core.front.genome import DecodedPlacement
    from apps.placement.core.solver.incremental import ScoredPlacement

_NODE: Final = int(Communication.NODE)
_CLUSTER: Final = int(Communication.CLUSTER)


class PackedInstance(NamedTuple):
    """The read-only arrays of an `Instance` that kernels read, and indices into them.

    Attributes
    ----------
    slot_watts : (n,) of each container on an open node
    communication : (j,) effective `Communication`
    job_start, job_containers : containers of job j are
        ``job_containers[job_start[j]:job_start[j + 1]]``
    rack_start, rack_nodes : nodes of rack r are ``rack_nodes[rack_start[r]:rack_start[r + 1]]``
    is_free : (j,) the job costs nothing when it spans racks
    scale : (3,) divisors of P, D and C; infinite where the scale is 0
    """

    rack: Ints
    slots: Ints
    idle_watts: Floats
    slot_watts: Floats
    job: Ints
    intensity: Floats
    is_taz: Bools
    communication: Ints
    size: Ints
    current: Ints
    job_start: Ints
    job_containers: Ints
    rack_start: Ints
    rack_nodes: Ints
    is_free: Bools
    scale: Floats


def pack(instance: Instance) -> PackedInstance:
    """Pack an instance for the kernels. O(n + c)."""
    communication = instance.effective_communication
    job_ends = np.cumsum(instance.size, dtype=np.int64)
    rack_ends = np.cumsum(np.bincount(instance.rack), dtype=np.int64)
    slot_watts = (instance.peak_watts - instance.idle_watts) / instance.slots
    return PackedInstance(
        rack=as_readonly(instance.rack),
        slots=as_readonly(instance.slots),
        idle_watts=as_readonly(instance.idle_watts),
        slot_watts=as_readonly(slot_watts),
        job=as_readonly(instance.job),
        intensity=as_readonly(instance.intensity),
        is_taz=as_readonly(instance.is_taz),
        communication=as_readonly(communication),
        size=as_readonly(instance.size),
        current=as_readonly(instance.current),
        job_start=as_readonly(np.append(np.int64(0), job_ends)),
        job_containers=as_readonly(np.argsort(instance.job, kind="stable")),
        rack_start=as_readonly(np.append(np.int64(0), rack_ends)),
        rack_nodes=as_readonly(np.argsort(instance.rack, kind="stable")),
        is_free=as_readonly((communication != Communication.RACK) | (instance.size == 1)),
        scale=as_readonly(scales(instance)),
    )


def widest(instance: Instance) -> int:
    """Return K, the number of containers that the largest node could hold."""
    return min(int(instance.slots.max(initial=1)), max(instance.job.size, 1))


class _Scratch(NamedTuple):
    """A placement by container and by node, overwritten by one assignment after another.

    Attributes
    ----------
    at : (c,) node
    held : (n, K) containers, the first ``used`` of each node
    used, tazes : (n,) containers and tazes held
    """

    at: Ints
    held: Ints
    used: Ints
    tazes: Ints


# The kernels below take every record with the fields of `_Scratch`.
Layout: TypeAlias = "_Scratch | DecodedPlacement | ScoredPlacement"


@jit(makes_arrays=False)
def fill(p: PackedInstance, layout: Layout, assignment: Ints) -> None:
    """Fill a layout from (c,) nodes. O(n + c)."""
    layout.used[:] = 0
    layout.tazes[:] = 0
    for i in range(assignment.size):
        node = assignment[i]
        layout.at[i] = node
        layout.held[node, layout.used[node]] = i
        layout.used[node] += 1
        layout.tazes[node] += p.is_taz[i]


@jit(makes_arrays=False)
def node_charge(opening: Floats, per_container: Floats, node: int, used: int) -> float:
    """Return the watts, or the cost, of a node by its number of containers; 0 if it is empty."""
    return float(opening[node] * (used > 0) + per_container[node] * used)


@jit(makes_arrays=False)
def node_credit(p: PackedInstance, layout: Layout, node: int) -> tuple[int, float]:
    """Return the most intense container of a node that is not empty, and its credit."""
    leader = layout.held[node, 0]
    best, second = p.intensity[leader], 0.0
    for k in range(1, layout.used[node]):
        intensity = p.intensity[layout.held[node, k]]
        if intensity > best:
            leader, best, second = layout.held[node, k], intensity, best
        elif intensity > second:
            second = intensity
    return leader, best - second


@jit(makes_arrays=False)
def is_split(p: PackedInstance, at: Ints, job: int) -> bool:
    """Whether placed containers of a job lie outside one node or rack, as it communicates."""
    scope = p.communication[job]
    if scope == _CLUSTER:
        return False
    k, end, first = p.job_start[job], p.job_start[job + 1], NOWHERE
    while first == NOWHERE and k < end:
        first = at[p.job_containers[k]]
        k += 1
    for t in range(k, end):
        node = at[p.job_containers[t]]
        if node != first and node != NOWHERE:  # noqa: PLR1714, SIM102 - compiled
            if scope == _NODE or p.rack[node] != p.rack[first]:
                return True
    return False


@jit(makes_arrays=False)
def evaluate_layout(p: PackedInstance, layout: Layout, is_exposed: Bools, raw: Floats) -> None:
    """Fill (3,) raw P, D and C; ``is_exposed`` (j,) is scratch. O(n·K + c)."""
    is_exposed[:] = False
    is_paired = layout.held.shape[1] == 2 and layout.at.size > 0
    raw[1] = (
        _paired_diversity(p, layout, is_exposed)
        if is_paired
        else (_diversity(p, layout, is_exposed))
    )
    watts = 0.0
    for node in range(layout.used.size):
        watts += node_charge(p.idle_watts, p.slot_watts, node, layout.used[node])
    split = 0
    for job in range(p.size.size):
        if is_split(p, layout.at, job):
            split += p.size[job]
    raw[0] = watts
    raw[2] = split


@jit(makes_arrays=False)
def _paired_diversity(p: PackedInstance, layout: Layout, is_exposed: Bools) -> float:
    """Return `_diversity` for two slots a node, without branches.

    NSGA-II evaluates another placement every time, so half of the branches would be mispredicted.
    """
    job, intensity, held = p.job, p.intensity, layout.held
    for node in range(layout.used.size):
        if layout.tazes[node] > 1:
            is_exposed[job[held[node, 0]]] = True
            is_exposed[job[held[node, 1]]] = True
    total = 0.0
    for node in range(layout.used.size):
        a, b = held[node, 0], held[node, 1]
        x, y = intensity[a] * (layout.used[node] > 0), intensity[b] * (layout.used[node] > 1)
        leader = a if x >= y else b
        total += abs(x - y) * (not is_exposed[job[leader]])
    return total


@jit(makes_arrays=False)
def _diversity(p: PackedInstance, layout: Layout, is_exposed: Bools) -> float:
    """Mark the exposed jobs and return the credits of the others."""
    for node in range(layout.used.size):
        if layout.tazes[node] > 1:
            for k in range(layout.used[node]):
                if p.is_taz[layout.held[node, k]]:
                    is_exposed[p.job[layout.held[node, k]]] = True
    total = 0.0
    for node in range(layout.used.size):
        if layout.used[node]:
            leader, credit = node_credit(p, layout, node)
            if not is_exposed[p.job[leader]]:
                total += credit
    return total


@jit()
def evaluate_all(p: PackedInstance, assignments: Ints) -> Floats:
    """(k, 3) raw P, D and C of (k, c) assignments. O(k·(n·K + c))."""
    nodes, width = p.slots.size, 1
    for node in range(nodes):
        width = max(width, min(p.slots[node], assignments.shape[1]))
    scratch = _Scratch(
        np.zeros(assignments.shape[1], np.int32),
        np.zeros((nodes, width), np.int32),
        np.zeros(nodes, np.int32),
        np.zeros(nodes, np.int32),
    )
    is_exposed = np.zeros(p.size.size, np.bool_)
    values = np.empty((assignments.shape[0], 3))
    for k in range(assignments.shape[0]):
        fill(p, scratch, assignments[k])
        evaluate_layout(p, scratch, is_exposed, values[k])
    return values


def raw_values(instance: Instance, assignments: Ints) -> Floats:
    """(k, 3) raw P, D and C of (k, c) assignments."""
    return evaluate_all(pack(instance), as_readonly(assignments, np.int64))
