"""Choice of the cores of containers among the chips of their server (C8).

A chip is the cores that share an L3 cache. Containers that are memory-intensive (tazes) compete on
a chip for its cache and its memory controller, so they are assigned first, in descending order of
intensity, each to a chip with enough free cores and the fewest tazes. The others (turtles) then go
to the chips with the smallest sum of intensities. Containers that run keep their cores.

For containers of one core, no other assignment has fewer pairs of tazes on one chip: the number of
pairs is convex in the tazes of each chip, so the greedy choice is optimal.

The class follows from scores of interference, as a container has no readings before it runs: it is
a taz if it is predicted to lose more than a tenth of its speed on a chip with another container of
its kind. That loss is an intensity of 1/2, as in `placement.core.monitoring.classes`.

Source: ClavisMO §2 and C8; Zhuravlev, Blagodurov and Fedorova, "Addressing shared resource
contention in multicore processors via scheduling" (2010), DINO in Blagodurov et al. (2011). They
migrate threads between chips every second; here cores are chosen once. Sizes, and the predicted
class, are ours.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np

from apps.common.core.interference import SOURCES
from apps.scheduling.core.loss import log_performance

# the others are shared by a whole server, or by the threads of one core
CHIP_SOURCES: Final = tuple(
    SOURCES.index(name) for name in ("memory_bandwidth", "llc_capacity", "llc_bandwidth")
)
TAZ_LOSS: Final = 0.1
AT_THRESHOLD: Final = 0.5  # intensity of a container that loses a tenth
_DIGITS: Final = 6  # of sums of intensities, so that their order does not decide


@dataclass(frozen=True, slots=True)
class Container:
    """The units of one job on one server.

    Attributes
    ----------
    size : cores, >= 1
    intensity : of shared caches and memory, 0-1
    """

    size: int
    intensity: float
    is_taz: bool


@dataclass(frozen=True, slots=True)
class Chip:
    """The use of one chip.

    Attributes
    ----------
    cores : of the chip, free or not
    free : unit ids of its free cores, ascending
    tazes : tazes with a core there
    load : sum over the containers of their intensity, by their share of cores there
    """

    cores: int
    free: tuple[int, ...]
    tazes: int = 0
    load: float = 0.0

    def after(self, container: Container, units: Sequence[int]) -> "Chip":
        """Return the chip with some units, free or not, given to a container."""
        if not units:
            return self
        return replace(
            self,
            free=tuple(unit for unit in self.free if unit not in units),
            tazes=self.tazes + container.is_taz,
            load=round(self.load + container.intensity * len(units) / container.size, _DIGITS),
        )


@dataclass(frozen=True, slots=True)
class CoreChoice:
    """The cores of a container, and why these.

    Attributes
    ----------
    units : unit ids
    groups : chips that hold them
    before : all chips of the server, before this container
    """

    container: Container
    units: tuple[int, ...]
    groups: tuple[int, ...]
    before: tuple[Chip, ...]

    def as_json(self, named: Sequence[int]) -> dict[str, Any]:
        """JSON form.

        Parameters
        ----------
        named : unit ids that the policy had named, before the choice among chips
        """
        chips = [{**asdict(chip), "free": len(chip.free)} for chip in self.before]
        return {
            **asdict(self.container),
            "groups": list(self.groups),
            "named": list(named),
            "before": chips,
        }


def named_units(units: Sequence[int], choice: Mapping[str, Any] | None) -> Sequence[int]:
    """Return the ids of the units that the policy named, by the stored choice of their cores."""
    return units if choice is None else choice["named"]


def container_of(
    size: int, cores: int, caused: Sequence[float], tolerated: Sequence[float]
) -> Container:
    """Classify a container by its scores.

    Parameters
    ----------
    cores : of a chip
    caused, tolerated : (N,) scores, 0-100; empty = unknown, which counts as an intensity of 0
    """
    if not len(caused) or not len(tolerated):
        return Container(size, 0.0, is_taz=False)
    own = np.array([caused[i] for i in CHIP_SOURCES]) * (size / max(1, cores - 1))
    limit = np.array([tolerated[i] for i in CHIP_SOURCES])
    lost = 1.0 - math.exp(float(log_performance(np.clip(own, 0.0, 100.0), limit).sum()))
    intensity = min(1.0, lost / TAZ_LOSS * AT_THRESHOLD)
    return Container(size, round(intensity, _DIGITS), is_taz=lost > TAZ_LOSS)


def assign_cores(containers: Sequence[Container], chips: Sequence[Chip]) -> list[CoreChoice]:
    """Choose the cores of each container; O(k·p log p) for k containers and p chips.

    A container that fits into no chip takes several. Equally good chips: the one with the largest
    share of free cores, then the first.

    Raises
    ------
    ValueError : the chips have too few free cores.
    """
    wanted, free = sum(c.size for c in containers), sum(len(chip.free) for chip in chips)
    if wanted > free:
        raise ValueError(f"containers must need at most {free} cores, got {wanted}")
    now, found = list(chips), dict[int, CoreChoice]()
    order = sorted(
        range(len(containers)), key=lambda i: (not containers[i].is_taz, -containers[i].intensity)
    )
    for i in order:
        container = containers[i]
        taken = _taken(container, now)
        units = tuple(unit for part in taken.values() for unit in part)
        found[i] = CoreChoice(container, units, tuple(sorted(taken)), tuple(now))
        now = [chip.after(container, taken.get(g, ())) for g, chip in enumerate(now)]
    return [found[i] for i in range(len(containers))]


def _taken(container: Container, chips: Sequence[Chip]) -> dict[int, tuple[int, ...]]:
    """Return the units to take from each chip."""

    def burden(group: int) -> tuple[float, ...]:
        chip = chips[group]
        tazes = chip.tazes if container.is_taz else 0
        return (tazes, chip.load, -len(chip.free) / chip.cores, group)

    fitting = [g for g, chip in enumerate(chips) if len(chip.free) >= container.size]
    if fitting:
        best = min(fitting, key=burden)
        return {best: chips[best].free[: container.size]}
    taken, missing = dict[int, tuple[int, ...]](), container.size
    for group in sorted((g for g, chip in enumerate(chips) if chip.free), key=burden):
        part = chips[group].free[:missing]
        if part:
            taken[group] = part
            missing -= len(part)
    return taken


def taz_pairs(chips: Sequence[Chip]) -> int:
    """Count the pairs of tazes that share a chip."""
    return sum(chip.tazes * (chip.tazes - 1) // 2 for chip in chips)


def core_sentence(choice: dict[str, Any]) -> str:
    """Return why a container runs on its chips; "" if all were equal.

    Parameters
    ----------
    choice : of `CoreChoice.as_json`
    """
    size, before = choice["size"], choice["before"]
    cores = "1 free core" if size == 1 else f"{size} free cores"
    fitting = [g for g, chip in enumerate(before) if chip["free"] >= size]
    if not fitting:
        groups = " and ".join(map(str, choice["groups"]))
        return f"No L3 group had {cores}: it runs on groups {groups}."
    (own,) = choice["groups"]
    if len(fitting) == 1:
        return f"Only L3 group {own} had {cores}."
    others = [g for g in fitting if g != own]
    for is_compared, key, text in (
        (choice["is_taz"], "tazes", "It is memory-intensive; other such jobs on L3 groups"),
        (True, "load", "Memory intensity of the jobs on L3 groups"),
    ):
        if is_compared and any(before[g][key] != before[own][key] for g in others):
            values = ", ".join(f"{before[g][key]:.2g} on {g}" for g in others)
            return f"{text}: {before[own][key]:.2g} on its own ({own}), {values}."
    shares = {before[g]["free"] / before[g]["cores"] for g in fitting}
    return f"L3 group {own} had the most free cores." if len(shares) > 1 else ""
