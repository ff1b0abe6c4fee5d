"""States of a round for tests."""

from collections.abc import Sequence

import numpy as np

from apps.testbed.core.accelerators.jobs import NONE, RoundState

COUNTS = np.array([1, 2, 4])


def state(
    speed: Sequence[Sequence[float]] | Sequence[Sequence[Sequence[float]]],
    available: Sequence[int],
    *,
    count: Sequence[int] | None = None,
    on: Sequence[tuple[int, int]] | None = None,
    age_s: float = 3600.0,
    restarts: int = 0,
) -> RoundState:
    """Return a state; a speed by job and type is that of one accelerator."""
    table = np.array(speed, dtype=np.float64)
    if table.ndim == 2:
        table = np.stack([table, *np.zeros((2, *table.shape))], axis=2)
    jobs = table.shape[0]
    last = np.array([(NONE, 0)] * jobs if on is None else on)
    return RoundState(
        available=np.array(available),
        restart_s=60.0,
        jobs=np.arange(jobs),
        count=np.ones(jobs, dtype=np.int64) if count is None else np.array(count),
        counts=COUNTS,
        speed=table,
        age_s=np.full(jobs, age_s),
        restarts=np.full(jobs, restarts),
        on_type=last[:, 0],
        on_count=last[:, 1],
    )
