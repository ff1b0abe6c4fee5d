"""Time ranges of pages, in cluster time."""

from dataclasses import dataclass
from typing import Final

RANGES_S: Final = {"1h": 3600.0, "6h": 21_600.0, "24h": 86_400.0, "7d": 604_800.0}
LABELS: Final = {"1h": "1 h", "6h": "6 h", "24h": "24 h", "7d": "7 d"}
DEFAULT: Final = "24h"


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A span of cluster time that ends now."""

    name: str
    first_s: float
    last_s: float

    @property
    def label(self) -> str:
        """Display name of the range."""
        return LABELS[self.name]


def time_range(name: str | None, *, now_s: float) -> TimeRange:
    """Return the named range ending now, or the default range; it starts at 0 or later."""
    known = name if name in RANGES_S else DEFAULT
    return TimeRange(known, max(0.0, now_s - RANGES_S[known]), now_s)
