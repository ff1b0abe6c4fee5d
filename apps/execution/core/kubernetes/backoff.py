"""How long to wait after failures."""

from typing import Final

import numpy as np

FIRST_S: Final = 0.5
LAST_S: Final = 30.0


def delay_s(failures: int, rng: np.random.Generator) -> float:
    """Return the seconds to wait after some failures in a row, drawn from the upper half.

    The limit doubles with every failure; the draw keeps processes from trying at the same time.
    """
    limit = min(LAST_S, FIRST_S * 2.0 ** min(failures - 1, 10))
    return float(rng.uniform(limit / 2.0, limit))
