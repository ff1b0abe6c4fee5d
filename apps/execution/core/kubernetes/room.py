"""The free capacity of each node: its own less that of the pods bound to it."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from apps.execution.core.kubernetes.jobs import units_of
from apps.execution.core.kubernetes.values import MILLIS, Node, Phase, Pod, Resources

EMPTY = Resources()


def requested(pods: Iterable[Pod], counts: Callable[[Pod], bool]) -> dict[str, Resources]:
    """Return the sum of requests of the bound pods that count and have not ended, by node."""
    sums: dict[str, Resources] = defaultdict(Resources)
    for pod in pods:
        if pod.node and pod.phase is not Phase.ENDED and counts(pod):
            sums[pod.node] += pod.requests
    return dict(sums)


def left_of(node: Node, taken: Mapping[str, Resources]) -> Resources:
    """Return what is left of a node; never below 0."""
    used = taken.get(node.name, EMPTY)
    return Resources(
        max(0, node.room.cpu_millis - used.cpu_millis),
        max(0, node.room.memory_bytes - used.memory_bytes),
        max(0, node.room.pods - used.pods),
    )


def cores_of(left: Resources) -> int:
    """Return the whole cores that are left: units of a new server."""
    return left.cpu_millis // MILLIS


def shortage(pod: Pod, left: Resources) -> str:
    """Return what a node lacks for a pod, in words; empty if it fits."""
    need = pod.requests
    if need.fits_into(left):
        return ""
    if need.cpu_millis > left.cpu_millis:
        return f"{left.cpu_millis}m CPU are free, and it requests {need.cpu_millis}m"
    if need.memory_bytes > left.memory_bytes:
        return f"{left.memory_bytes:,} bytes are free, and it requests {need.memory_bytes:,}"
    return "no further pod is allowed on the node"


def is_open_again(left: Resources, bound: Iterable[Pod], *, cores: int, memory_bytes: int) -> bool:
    """Tell whether a crowded node has what Berth may still place on it.

    Parameters
    ----------
    bound : pods of Berth that are bound to it; those placed and not bound do not count
    cores, memory_bytes : of its server
    """
    for pod in bound:
        cores -= units_of(pod)
        memory_bytes -= pod.requests.memory_bytes
    return left.cpu_millis >= cores * MILLIS and left.memory_bytes >= memory_bytes
