"""Placement of jobs with a command: real programs, on the servers whose backend runs commands.

Its size is the submitter's. What it tolerates and causes is known from an imported report, if any.
"""

from typing import Final

import numpy as np

from apps.classification.core.estimates import Estimates
from apps.classification.core.estimators.flags import Degraded
from apps.classification.core.matrix import MatrixName
from apps.classification.core.profile import SCALE_POINTS, Profile
from apps.classification.core.scores import Scores
from apps.common.core.interference import N_SOURCES
from apps.inventory.core.backends import Capability, backends_with
from apps.inventory.core.snapshot import Floats, Topology

NO_REVISION: Final = -1  # of a library: estimated from nothing
SCALE_UP_POINTS: Final = 6


def unmeasured_profile(
    application: str, kind: str, platforms: tuple[str, ...], scores: Scores | None = None
) -> Profile:
    """Return the profile of a program of which at most the scores of interference are known.

    Every platform has speed 1 and scaling is linear. Without scores no interference is caused or
    suffered, and the profile distinguishes no two units. Do not predict a rate from it: its flags
    say that none is measured.
    """
    known = () if scores is None else (MatrixName.TOLERATED, MatrixName.CAUSED)
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
        tolerated=_guessed(np.full(N_SOURCES, 100.0)) if scores is None else scores.tolerated,
        caused=_guessed(np.zeros(N_SOURCES)) if scores is None else scores.caused,
        flags=tuple(f"{name}:{Degraded.NO_CELL}" for name in MatrixName if name not in known),
    )


def can_copy(*, is_copyable: bool, backend: str, topology: Topology) -> bool:
    """Return whether a copy of a command can be profiled before its job is placed.

    Parameters
    ----------
    backend : that the job was submitted to; empty = any
    """
    is_able = backend in {"", *backends_with(Capability.PROBE_COMMANDS)}
    return is_copyable and is_able and topology.has_servers_with(Capability.PROBE_COMMANDS)


def _guessed(values: Floats) -> Estimates:
    return Estimates(values, values.copy(), values.copy(), np.zeros(values.size, dtype=np.bool_))
