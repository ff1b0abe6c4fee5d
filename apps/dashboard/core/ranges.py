"""Time ranges of pages, in cluster time."""

from dataclasses import dataclass
from typing import Final

RANGES_S: Final = {"1h": 3600.0, "6h": 21_600.0, "24h": 86_400.0, "7d": 604_800.0}
LABELS: Final = {"1h": "1 h", "6h": "6 h", "24h": "24 h", "7d": "7 d"}
DEFAULT: Final = "24h"


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A span of cluster time that ends now, or at an earlier moment if ``is_past``."""

    name: str
    first_s: float
    last_s: float
    is_past: bool = False

    @property
    def label(self) -> str:
        """Display name of the range."""
        return LABELS[self.name]


def time_range(name: str | None, *, now_s: float, at_s: float | None = None) -> TimeRange:
    """Return the named range, or the default one; it starts at 0 or later.

    Parameters
    ----------
    at_s : end of the range; None = now
    """
    known = name if name in RANGES_S else DEFAULT
    last_s = now_s if at_s is None else at_s
    return TimeRange(known, max(0.0, last_s - RANGES_S[known]), last_s, at_s is not None)


def earlier_moment(text: str | None, *, now_s: float) -> float | None:
    """Return the earlier moment that an address asks for, in cluster seconds; None = now."""
    try:
        at_s = float(text or "nan")
    except ValueError:
        return None
    return at_s if 0 <= at_s < now_s else None
