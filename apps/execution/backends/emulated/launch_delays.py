"""When emulated jobs start after they were given their units.

On real servers an order needs time to arrive, and a process time to start. Launches wait here for
that long, in cluster time, and then start at their own times instead of at the next tick.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from apps.emulation.core.seeds import normal
from apps.execution.backends.emulated.port import LaunchOrder


@dataclass(frozen=True, slots=True)
class LaunchDelay:
    """Log-normal delay from the units of a job to its start.

    Attributes
    ----------
    median_s : cluster seconds
    sigma : standard deviation of the logarithm
    """

    median_s: float
    sigma: float

    def seconds(self, seed: int, launch: int) -> float:
        """Draw the delay of a launch: the same one after a restart."""
        return self.median_s * math.exp(self.sigma * normal(seed, f"launch delay {launch}"))


# From units to the process on three agents: median 16 ms, p90 37 ms. Source: 200 launches of
# `./dev bench fidelity` (docs/benchmarks.md).
MEASURED: Final = LaunchDelay(0.016, 0.48)


class DelayedLaunches:
    """Claimed launches that have not reached their start times."""

    def __init__(self, delay: LaunchDelay | None, seed: int) -> None:
        """``delay`` None: launches start when they are claimed."""
        self._delay, self._seed = delay, seed
        self._until: dict[int, tuple[float, LaunchOrder]] = {}

    def __iter__(self) -> Iterator[int]:
        """Iterate over the ids of the launches."""
        return iter(self._until)

    def __contains__(self, launch: int) -> bool:
        """Return True if this launch waits for its start time."""
        return launch in self._until

    def add(self, launches: Iterable[LaunchOrder]) -> None:
        """Keep launches until their start times."""
        for launch in launches:
            self._until[launch.launch] = (self._start_s(launch), launch)

    def _start_s(self, launch: LaunchOrder) -> float:
        if self._delay is None or launch.placed_s is None:
            return -math.inf
        return launch.placed_s + self._delay.seconds(self._seed, launch.launch)

    def due(self, now_s: float) -> list[tuple[float, LaunchOrder]]:
        """Remove the launches whose start time has passed; return them with it, in order."""
        found = sorted(
            (at_s, number) for number, (at_s, _) in self._until.items() if at_s <= now_s
        )
        return [(at_s, self._until.pop(number)[1]) for at_s, number in found]

    def forget(self, launch: int) -> None:
        """Drop a launch that was cancelled."""
        self._until.pop(launch, None)
