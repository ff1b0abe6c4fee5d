"""Profiling of a copy of a command by an agent: what is measured, and what its report gives."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from apps.profiling.core.measurements import MissingCell
from apps.profiling.core.sensitivity import State
from apps.profiling.core.stressors import STRESSORS

MIN_UNITS: Final = 2  # a core of the copy, and one of the stressors and the profiler
WINDOW_S: Final = 0.4


def probe_plan(stressors: Sequence[str]) -> dict[str, Any]:
    """Return the plan of a run: the stressors by name, and the seconds of a window.

    Parameters
    ----------
    stressors : empty = all that are pressed unless others are named

    Raises
    ------
    ValueError : names an unknown stressor.
    """
    unknown = [name for name in stressors if name not in STRESSORS]
    if unknown:
        known = ", ".join(STRESSORS)
        raise ValueError(f"no stressor is named {', '.join(unknown)}; there are {known}")
    default = [name for name, stressor in STRESSORS.items() if stressor.is_default]
    return {"runs": [], "stressors": list(stressors) or default, "window_s": WINDOW_S}


def missing_cells(report: Mapping[str, Any]) -> list[MissingCell]:
    """Return the tolerated scores that a report does not give, with the reasons."""
    return [
        MissingCell(
            "tolerated",
            found["source"],
            f"{found['state']}: {found['reason']}" if found["reason"] else found["state"],
        )
        for found in report["sources"]
        if found["source"] and found["state"] in {State.INVALID, State.INCONCLUSIVE}
    ]
