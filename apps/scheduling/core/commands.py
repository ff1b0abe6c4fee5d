"""Placement of jobs with a command: real programs, on the servers whose backend runs commands.

Until a program is profiled nothing is known of it, so its size is the submitter's.
"""

from typing import Final

import numpy as np

from apps.classification.core.estimates import Estimates
from apps.classification.core.estimators.flags import Degraded
from apps.classification.core.matrix import MatrixName
from apps.classification.core.profile import SCALE_POINTS, Profile
from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Floats

NO_REVISION: Final = -1  # of a library: estimated from nothing
SCALE_UP_POINTS: Final = 6


def unmeasured_profile(application: str, kind: str, platforms: tuple[str, ...]) -> Profile:
    """Return the profile of a program that nothing is known of: it distinguishes no two units.

    Every platform has speed 1, scaling is linear, and no interference is caused or suffers. Do
    not predict from it: its flags say that nothing is measured.
    """
    ones, points = np.ones(len(platforms)), np.array(SCALE_POINTS, dtype=np.float64)
    return Profile(
        application=application,
        kind=kind,
        revision=NO_REVISION,
        platforms=platforms,
        base_rate=1.0,
        base_rate_se=0.0,
        bytes_rate=1.0,
        bytes_rate_se=0.0,
        platform_speed=_guessed(ones),
        scale_up=_guessed(points[:SCALE_UP_POINTS]),
        scale_out=_guessed(np.ones(len(SCALE_POINTS))),
        tolerated=_guessed(np.full(N_SOURCES, 100.0)),
        caused=_guessed(np.zeros(N_SOURCES)),
        flags=tuple(f"{name}:{Degraded.NO_CELL}" for name in MatrixName),
    )


def _guessed(values: Floats) -> Estimates:
    return Estimates(values, values.copy(), values.copy(), np.zeros(values.size, dtype=np.bool_))
