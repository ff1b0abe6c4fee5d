"""What a workload is made of, and how far it has moved away from what it was.

A front is of a workload, and stays true of another one as long as that is made of the same parts:
containers come and go, what matters is how many there are of each kind. A kind of container is its
class, what its job wants to stay inside of, and how large the job is (in powers of two); a kind of
node is its watts, idle and at its peak: how many containers it holds depends on their sizes.
Source: ClavisMO §3.1, C3: the front is that of a representative workload.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from apps.placement.core.instance import Communication, Instance

LIMIT: Final = 0.10  # of the mix: beyond it a front is of another workload

Mix = dict[str, dict[str, int]]  # "containers" and "nodes": how many of each kind


@dataclass(frozen=True, slots=True)
class Drift:
    """Share of containers, and of nodes, that would have to be of another kind; in [0, 1]."""

    containers: float
    nodes: float

    @property
    def share(self) -> float:
        """The larger of the two."""
        return max(self.containers, self.nodes)


def mix_of(instance: Instance) -> Mix:
    """Count the nodes and containers of each kind."""
    wish, sizes = instance.wish.tolist(), instance.size.tolist()
    containers = zip(instance.job.tolist(), instance.is_taz.tolist(), strict=True)
    nodes = zip(instance.idle_watts.tolist(), instance.peak_watts.tolist(), strict=True)
    return mix(
        ((is_taz, wish[job], sizes[job], 1) for job, is_taz in containers),
        ((idle, peak, 1) for idle, peak in nodes),
    )


def mix(
    containers: Iterable[tuple[bool, int, int, int]],
    nodes: Iterable[tuple[float, float, int]],
) -> Mix:
    """Count the nodes and containers of each kind.

    Parameters
    ----------
    containers : whether tazes, `Communication` and containers of their job, and how many
    nodes : idle and peak watts, and how many
    """
    kinds: Counter[str] = Counter()
    for is_taz, wish, size, count in containers:
        word = "taz" if is_taz else "turtle"
        kinds[f"{word} {Communication(wish).name.lower()} {size.bit_length()}"] += count
    platforms: Counter[str] = Counter()
    for idle, peak, count in nodes:
        platforms[f"{idle:g} {peak:g}"] += count
    return {"containers": dict(kinds), "nodes": dict(platforms)}


def drift(then: Mix, now: Mix) -> Drift:
    """Compare two mixes."""
    return Drift(
        _apart(then["containers"], now["containers"]), _changed(then["nodes"], now["nodes"])
    )


def _apart(then: Mapping[str, int], now: Mapping[str, int]) -> float:
    """Return half the summed difference of two distributions; 1 where only one has anything."""
    before, after = sum(then.values()), sum(now.values())
    if not before or not after:
        return float(before != after)
    kinds = then.keys() | now.keys()
    return sum(abs(then.get(k, 0) / before - now.get(k, 0) / after) for k in kinds) / 2.0


def _changed(then: Mapping[str, int], now: Mapping[str, int]) -> float:
    """Return the share of nodes that came or went; more than all count as all."""
    differing = sum(abs(then.get(k, 0) - now.get(k, 0)) for k in then.keys() | now.keys())
    before = sum(then.values())
    return min(differing / before, 1.0) if before else float(differing > 0)
