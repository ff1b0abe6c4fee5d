"""Tolerated and caused interference from the report of a real profile, as placement needs them.

The tolerance of a source is its score: the intensity at which speed falls below 95 %. Interference
caused is what a stressor of full intensity loses next to the program, as Paragon §2.3 (P3) has it;
for the core, which the program and its neighbours use by turns, it is the program's own use
relative to that of the stressor. The conversion to intensities is ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from apps.common.core.arrays import as_readonly
from apps.common.core.interference import SOURCES
from apps.inventory.core.snapshot import Floats
from apps.profiling.core.sensitivity import State
from apps.profiling.core.stressors import STRESSORS

FULL: Final = 100.0
TURNS: Final = "shared_core"  # its score counts for programs that share a core


@dataclass(frozen=True, slots=True, eq=False)
class ReportScores:
    """Scores of one program, in the order of `SOURCES`.

    Attributes
    ----------
    tolerated : (N,) 0-100; 100 where the report has none
    caused : (N,) by one unit, 0-100; 0 where the report has none
    unknown : sources without a score of tolerance: not pressed, inconclusive or invalid
    """

    tolerated: Floats
    caused: Floats
    unknown: tuple[str, ...]


def report_scores(report: Mapping[str, Any]) -> ReportScores:
    """Return the scores of a report (`berth profile --report`).

    Of several stressors of one source, the lowest tolerance and the highest interference count.

    Raises
    ------
    KeyError : the report lacks a field, or names an unknown stressor.
    """
    tolerated, caused = np.full(len(SOURCES), np.nan), np.zeros(len(SOURCES))
    for found in report["sources"]:
        if found["source"] is None:
            continue
        place = SOURCES.index(found["source"])
        tolerated[place] = np.fmin(tolerated[place], _tolerance(found))
        caused[place] = max(caused[place], _caused(found, report["cpu_share"]))
    unknown = tuple(name for name, x in zip(SOURCES, tolerated, strict=True) if np.isnan(x))
    return ReportScores(
        as_readonly(np.where(np.isnan(tolerated), FULL, tolerated)), as_readonly(caused), unknown
    )


def _tolerance(found: Mapping[str, Any]) -> float:
    if found["state"] == State.MEASURED:
        return float(found["score"])
    return FULL if found["state"] == State.NOT_REACHED else float("nan")


def _caused(found: Mapping[str, Any], cpu_share: float | None) -> float:
    """Return the intensity that the program itself presses, 0 if the report does not say it."""
    if found["stressor"] == TURNS:
        return min(FULL, FULL * (cpu_share or 0.0) / STRESSORS[TURNS].max_share)
    speed = found["stressor_speed"]
    return 0.0 if speed is None else float(np.clip(FULL * (1.0 - speed), 0.0, FULL))
