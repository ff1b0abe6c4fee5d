"""Figures of a world next to bootstrap intervals of the measurements."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.emulation.core.worlds import World
from apps.inventory.core.snapshot import Floats
from apps.testbed.core.world_fit.groups import Group

LEVEL: Final = 0.90
RESAMPLES: Final = 400
REPEATS: Final = 12  # of the measurements in a world
MIN_UNITS: Final = 4  # of a held-out part with an interval


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure of the measurements with its 90 % bootstrap interval."""

    value: float
    low: float
    high: float

    def has(self, value: float) -> bool:
        """Whether a value is within the interval."""
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """One figure of the measurements and of the worlds.

    Attributes
    ----------
    held_out : None if too little is held out for an interval
    worlds : mean over repetitions of the held-in measurements, by name of the world
    unseen : the same of the held-out measurements, of which there are fewer
    """

    group: str
    figure: str
    held_in: Interval
    held_out: Interval | None
    worlds: dict[str, float]
    unseen: dict[str, float]


def bootstrap(group: Group, values: Floats, rng: np.random.Generator) -> list[Interval]:
    """Interval of each figure of a group.

    Percentiles of resampled figures, moved so that their median is the figure: a resample
    repeats rows, which alone lowers the spread and raises the share of few components.
    """
    n, exact = len(values), group.compute(values)
    drawn = np.array(
        [group.compute(group.resample(values, rng.integers(n, size=n))) for _ in range(RESAMPLES)]
    )
    tails = [(1.0 - LEVEL) / 2.0, 0.5, (1.0 + LEVEL) / 2.0]
    low, middle, high = np.nanquantile(drawn, tails, axis=0)
    return [
        Interval(float(v), float(v + a - m), float(v + b - m))
        for v, a, m, b in zip(exact, low, middle, high, strict=True)
    ]


def figures_in(world: World, group: Group, like: Floats, seed: int) -> Floats:
    """(k,) mean figures of the measurements when repeated in a world."""
    seeds = range(seed, seed + REPEATS)
    return np.mean(
        [group.compute(group.simulate(world, group.kind, like, s)) for s in seeds], axis=0
    )


def compared(
    group: Group, parts: tuple[Floats, Floats], worlds: list[World], seed: int
) -> list[ComparedFigure]:
    """Compare all figures of a group."""
    rng = np.random.default_rng(seed)
    held_in = bootstrap(group, parts[0], rng)
    has_enough = len(parts[1]) >= MIN_UNITS
    held_out = bootstrap(group, parts[1], rng) if has_enough else [None] * len(held_in)
    drawn = {world.name: figures_in(world, group, parts[0], seed) for world in worlds}
    checked = worlds if has_enough else []
    unseen = {world.name: figures_in(world, group, parts[1], seed) for world in checked}
    return [
        ComparedFigure(
            group.name,
            name,
            inside,
            outside,
            {world: float(values[i]) for world, values in drawn.items()},
            {world: float(values[i]) for world, values in unseen.items()},
        )
        for i, (name, inside, outside) in enumerate(
            zip(group.figures, held_in, held_out, strict=True)
        )
    ]
