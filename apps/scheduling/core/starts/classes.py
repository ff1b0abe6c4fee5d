"""Classes in which start estimates are scored: kind of the target and size."""

from typing import Final

SIZES: Final = ((1, "1 unit"), (7, "2-7 units"), (31, "8-31 units"))


def class_of(kind: str, units: int) -> str:
    """Return the class of a job, such as "completion_time, 2-7 units"."""
    size = next((text for largest, text in SIZES if units <= largest), "32 units or more")
    return f"{kind}, {size}"
