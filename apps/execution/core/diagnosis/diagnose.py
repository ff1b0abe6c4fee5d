"""The diagnosis of one dip: pressure, attribution and suspects."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.execution.core.diagnosis.attribution import Attribution, attribute
from apps.execution.core.diagnosis.case import Case
from apps.execution.core.diagnosis.dips import Dip
from apps.execution.core.diagnosis.late_start import is_wait_the_cause
from apps.execution.core.diagnosis.phases import PhaseChange, phase_change
from apps.execution.core.diagnosis.pressure import SourcePressure, source_pressure
from apps.execution.core.diagnosis.suspects import (
    Names,
    Scene,
    Suspect,
    suspects,
    unknown_confidence,
    wait_suspect,
)
from apps.inventory.core.snapshot import Bools

SEED: Final = 13  # of the draws: the same case has the same diagnosis


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """What a case says about a dip.

    Attributes
    ----------
    at_dip, before : (T,) the reports of the dip, and those at target before it
    unknown : probability that no reported cause is the largest
    """

    at_dip: Bools
    before: Bools
    pressure: SourcePressure
    phase: PhaseChange | None
    attribution: Attribution
    suspects: tuple[Suspect, ...]
    unknown: float


def diagnose(case: Case, dip: Dip, names: Names, *, is_service: bool) -> Finding | None:
    """Diagnose a dip; None if the reports of the dip give no speed."""
    reports = case.reports
    at_dip = dip.covers(reports.at_s)
    before = (reports.at_s < dip.begin_s) & (reports.attainment >= 1.0)
    if not (at_dip & ~np.isnan(reports.log_speed)).any():
        return None
    phase = phase_change(reports.at_s, reports.counters, is_service=is_service)
    pressure = source_pressure(case, before, at_dip)
    attribution = attribute(case, at_dip, before, phase, np.random.default_rng(SEED))
    scene = Scene(case, dip, at_dip, before, pressure, phase, names)
    found, unknown = suspects(attribution, scene), unknown_confidence(attribution)
    if case.wait is not None and is_wait_the_cause(case, before, attribution.now):
        found, unknown = (wait_suspect(case.wait, attribution.now),), 0.0
    return Finding(
        at_dip=at_dip,
        before=before,
        pressure=pressure,
        phase=phase,
        attribution=attribution,
        suspects=found,
        unknown=unknown,
    )
