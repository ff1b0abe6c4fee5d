"""Size of a measurement of sampling quality."""

from typing import Final

DECISIONS: Final = 3_000  # to measure, at each sample size
