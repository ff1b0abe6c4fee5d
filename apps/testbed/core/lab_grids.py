"""Points at which the distributions and the series of a run are stored."""

from typing import Final

PERFORMANCE_GRID: Final = tuple(round(i / 50, 2) for i in range(101))
WAIT_GRID: Final = tuple(round(10 ** (i / 8), 4) for i in range(-8, 49))  # 0.1 s to 1e6 s
SERIES_POINTS: Final = 144  # of the utilisation over time
NEAR: Final = 0.95  # performance that is nearly that of a job alone (Paragon §2.3)
