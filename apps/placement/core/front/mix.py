"""Composition of a workload, and its drift.

A front remains valid for another workload with the same composition: individual containers do not
matter, only the number of each kind. The kind of a container is its class, the `Communication` of
its job and the size of the job (in powers of two). The kind of a node is its idle and peak power;
its capacity depends on the sizes of its containers. Source: ClavisMO §3.1, C3: the front is that
of a representative workload.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from apps.placement.core.problem.instance import Communication, Instance

DRIFT_LIMIT: Final = 0.10  # share of the mix; beyond it, a front is outdated

Kinds = Mapping[str, int]  # how many of each kind
Mix = dict[str, dict[str, int]]  # "containers" and "nodes": how many of each kind


@dataclass(frozen=True, slots=True)
class WorkloadDrift:
    """Share of containers and of nodes whose kind has changed, in [0, 1]."""

    containers: float
    nodes: float

    @property
    def share(self) -> float:
        """The larger of the two."""
        return max(self.containers, self.nodes)


def mix_of(instance: Instance) -> Mix:
    """Count the nodes and containers of each kind."""
    communication, sizes = instance.communication.tolist(), instance.size.tolist()
    containers = zip(instance.job.tolist(), instance.is_taz.tolist(), strict=True)
    nodes = zip(instance.idle_watts.tolist(), instance.peak_watts.tolist(), strict=True)
    return mix(
        ((is_taz, communication[job], sizes[job], 1) for job, is_taz in containers),
        ((idle, peak, 1) for idle, peak in nodes),
    )


def mix(
    containers: Iterable[tuple[bool, int, int, int]],
    nodes: Iterable[tuple[float, float, int]],
) -> Mix:
    """Count the nodes and containers of each kind.

    Parameters
    ----------
    containers : is a taz, `Communication` and number of containers of the job, count
    nodes : idle and peak watts, count
    """
    kinds: Counter[str] = Counter()
    for is_taz, communication, size, count in containers:
        kinds[container_kind(is_taz, communication, size)] += count
    platforms: Counter[str] = Counter()
    for idle, peak, count in nodes:
        platforms[f"{idle:g} {peak:g}"] += count
    return {"containers": dict(kinds), "nodes": dict(platforms)}


def mean_mix(mixes: Sequence[Mix]) -> Mix:
    """Return the mix of several moments: all their containers, and the nodes of the last."""
    kinds: Counter[str] = Counter()
    for each in mixes:
        kinds.update(each["containers"])
    return {"containers": dict(kinds), "nodes": dict(mixes[-1]["nodes"])}


def container_kind(is_taz: bool, communication: int, size: int) -> str:
    """Return the kind of a container of a job with so many containers."""
    kind = "taz" if is_taz else "turtle"
    return f"{kind} {Communication(communication).name.lower()} {size.bit_length()}"


def drift(then: Mix, now: Mix) -> WorkloadDrift:
    """Compare two mixes."""
    return WorkloadDrift(
        variation(then["containers"], now["containers"]), _changed(then["nodes"], now["nodes"])
    )


def variation(then: Kinds, now: Kinds) -> float:
    """Total variation distance of two distributions; 1 if only one of them is empty."""
    before, after = sum(then.values()), sum(now.values())
    if not before or not after:
        return float(before != after)
    kinds = then.keys() | now.keys()
    return sum(abs(then.get(k, 0) / before - now.get(k, 0) / after) for k in kinds) / 2.0


def _changed(then: Kinds, now: Kinds) -> float:
    """Return added and removed nodes as a share of the nodes before, at most 1."""
    differing = sum(abs(then.get(k, 0) - now.get(k, 0)) for k in then.keys() | now.keys())
    before = sum(then.values())
    return min(differing / before, 1.0) if before else float(differing > 0)
